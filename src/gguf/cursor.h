// gguf/cursor.h
// The one place that moves through the bytes of a GGUF header: every read is tested against what is left.
//
// A call that returns false has read nothing; the caller knows what it was reading and makes the sentence. No product
// of two numbers from the file is formed before a division has shown that it fits.
//
// Thread rule: plain value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace kvasir::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place and is little-endian");

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : left_(bytes) {}

  size_t left() const { return left_.size(); }
  const std::byte* here() const { return left_.data(); }

  template <typename T>
  [[nodiscard]] bool Take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return true;
  }

  // A length of 64 bits, then that many bytes.
  [[nodiscard]] bool TakeString(std::string_view& text) {
    Cursor after = *this;
    uint64_t size = 0;
    if (!after.Take(size) || size > after.left()) return false;
    text = {reinterpret_cast<const char*>(after.here()), static_cast<size_t>(size)};
    left_ = after.left_.subspan(static_cast<size_t>(size));
    return true;
  }

  // Whether `count` values of at least `size` bytes each can still follow. REQUIRES: size > 0.
  bool Holds(uint64_t count, uint64_t size) const { return count <= left_.size() / size; }

  // REQUIRES: size > 0.
  [[nodiscard]] bool Skip(uint64_t count, uint64_t size) {
    if (!Holds(count, size)) return false;
    left_ = left_.subspan(static_cast<size_t>(count * size));
    return true;
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace kvasir::gguf
