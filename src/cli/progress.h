// cli/progress.h
// A progress line for work that takes longer than a second, on terminals only.
//
//   loading  [##########          ]  50 %  1.2 s
//
// Short work and redirected output show nothing, so logs stay clean. The line is erased when the bar goes.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>

namespace kvasir::cli {

// Whether standard error is a terminal.
bool ErrorIsTerminal();

class ProgressBar {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // Draws to `out` if `enabled`.
  ProgressBar(std::ostream& out, bool enabled, std::string label, Clock clock = std::chrono::steady_clock::now);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `fraction` in [0, 1]. Cheap: draws at most ten times a second.
  void Update(double fraction);

 private:
  std::ostream& out_;
  bool enabled_;
  std::string label_;
  Clock clock_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point drawn_;
  bool visible_ = false;
};

}  // namespace kvasir::cli
