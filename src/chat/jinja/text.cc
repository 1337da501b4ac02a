#include "chat/jinja/text.h"

#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {

void Buffer::AddRun(uint32_t end, Origin origin) {
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, origin});
  }
}

void Buffer::Append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  ascii_ = ascii_ && IsAscii(bytes);
  bytes_.append(bytes);
  AddRun(static_cast<uint32_t>(bytes_.size()), origin);
}

void Buffer::Append(const Text& text) {
  if (text.empty()) return;
  const Buffer& source = *text.buffer_;
  ascii_ = ascii_ && (source.ascii_ || IsAscii(text.view()));
  const auto base = static_cast<uint32_t>(bytes_.size());
  // `source` may be this buffer: bytes and runs are read by index, never through views that growth would move.
  bytes_.append(source.bytes_, text.begin_, text.size());
  uint32_t at = text.begin_;
  for (size_t i = text.FirstRun(); at < text.end_; ++i) {
    const Run run = source.runs_[i];
    const uint32_t stop = std::min(run.end, text.end_);
    AddRun(base + (stop - text.begin_), run.origin);
    at = stop;
  }
}

size_t Text::FirstRun() const {
  const auto& runs = buffer_->runs_;
  const auto it = std::upper_bound(runs.begin(), runs.end(), begin_,
                                   [](uint32_t at, const Buffer::Run& run) { return at < run.end; });
  return static_cast<size_t>(it - runs.begin());
}

Origin Text::FirstOrigin() const {
  return empty() ? Origin{} : buffer_->runs_[FirstRun()].origin;
}

size_t Text::Length() const {
  return ascii() ? size() : CountCharacters(view());
}

size_t Text::OffsetOf(size_t index) const {
  if (ascii()) return std::min(index, size());
  const std::string_view bytes = view();
  size_t at = 0;
  while (index > 0 && at < bytes.size()) {
    at += DecodeAt(bytes, at).size;
    --index;
  }
  return at;
}

}  // namespace kvasir::chat::jinja
