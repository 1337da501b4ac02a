#include "cli/progress.h"

#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>

namespace kvasir::cli {
namespace {

constexpr std::chrono::milliseconds kSilence{1000};
constexpr std::chrono::milliseconds kInterval{100};
constexpr int kWidth = 30;

}  // namespace

bool ErrorIsTerminal() {
  return isatty(STDERR_FILENO) == 1;
}

ProgressBar::ProgressBar(std::ostream& out, bool enabled, std::string label, Clock clock)
    : out_(out),
      enabled_(enabled),
      label_(std::move(label)),
      clock_(std::move(clock)),
      began_(clock_()),
      drawn_(began_) {}

ProgressBar::~ProgressBar() {
  if (visible_) fmt::print(out_, "\r\033[K");
  out_.flush();
}

void ProgressBar::Update(double fraction) {
  if (!enabled_) return;
  const auto now = clock_();
  if (now - began_ < kSilence || (visible_ && now - drawn_ < kInterval)) return;
  drawn_ = now;
  visible_ = true;
  const double shown = std::clamp(fraction, 0.0, 1.0);
  const auto full = static_cast<size_t>(shown * kWidth);
  const double seconds = std::chrono::duration<double>(now - began_).count();
  fmt::print(out_, "\r{}  [{}{}] {:3.0f} %  {:.1f} s\033[K", label_, std::string(full, '#'),
             std::string(kWidth - full, ' '), shown * 100, seconds);
  out_.flush();
}

}  // namespace kvasir::cli
