// chat/jinja/text.h
// A string that knows the origin of each of its bytes.
//
// A Text is a window on a Buffer that only grows at its end, so slicing, stripping and splitting copy nothing, and
// appending to the text that ends a buffer extends the buffer in place: `s = s + x` in a loop costs the sum of the x,
// not its square. Earlier windows stay valid because bytes already written never change. Lengths and indices that
// templates see are code points, as in Python; everything here is bytes except where it says characters.
//
// Thread rule: one rendering owns its buffers; a frozen buffer (literals of a parsed template) is read by many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/span.h"

namespace kvasir::chat::jinja {

class Text;

class Buffer {
 public:
  void Append(std::string_view bytes, Origin origin);
  void Append(const Text& text);
  void Freeze() { frozen_ = true; }

  const std::string& bytes() const { return bytes_; }
  bool ascii() const { return ascii_; }
  bool frozen() const { return frozen_; }

 private:
  friend class Text;
  struct Run {
    uint32_t end;
    Origin origin;
  };
  void AddRun(uint32_t end, Origin origin);

  std::string bytes_;
  std::vector<Run> runs_;  // ascending ends; the last is bytes_.size()
  bool ascii_ = true;
  bool frozen_ = false;
};

class Text {
 public:
  Text() = default;
  Text(Buffer* buffer, uint32_t begin, uint32_t end) : buffer_(buffer), begin_(begin), end_(end) {}

  // Valid until the buffer grows.
  std::string_view view() const {
    return buffer_ == nullptr ? std::string_view() : std::string_view(buffer_->bytes_).substr(begin_, end_ - begin_);
  }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  bool ascii() const { return buffer_ == nullptr || buffer_->ascii_; }
  Buffer* buffer() const { return buffer_; }
  uint32_t begin() const { return begin_; }
  uint32_t end() const { return end_; }

  // REQUIRES: begin <= end <= size().
  Text Sub(size_t begin, size_t end) const {
    Text sub = *this;
    sub.begin_ = begin_ + static_cast<uint32_t>(begin);
    sub.end_ = begin_ + static_cast<uint32_t>(end);
    return sub;
  }

  // Characters; equals size() for ASCII.
  size_t Length() const;
  // Byte offset of character `index`; size() when there are fewer.
  size_t OffsetOf(size_t index) const;

  // What the `safe` and `escape` filters return: `+` with other text escapes that other text.
  bool markup() const { return markup_; }
  Text WithMarkup(bool markup) const {
    Text text = *this;
    text.markup_ = markup;
    return text;
  }

  // Origin of the first byte; the template for an empty text.
  Origin FirstOrigin() const;

  // Calls fn(std::string_view bytes, Origin) for each maximal run of one origin, in order.
  template <typename Fn>
  void ForEachRun(Fn fn) const {
    if (empty()) return;
    uint32_t at = begin_;
    for (size_t i = FirstRun(); at < end_; ++i) {
      const Buffer::Run run = buffer_->runs_[i];
      const uint32_t stop = std::min(run.end, end_);
      fn(std::string_view(buffer_->bytes_).substr(at, stop - at), run.origin);
      at = stop;
    }
  }

 private:
  friend class Buffer;
  size_t FirstRun() const;

  Buffer* buffer_ = nullptr;
  uint32_t begin_ = 0, end_ = 0;
  bool markup_ = false;
};

}  // namespace kvasir::chat::jinja
