// gguf/raw_gguf.h
// GGUF bytes field by field, right or wrong: for tests of the reader, which GgufWriter is too correct for.
//
// Thread rule: plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"

namespace kvasir::gguf {

class RawGguf {
 public:
  static RawGguf WithHeader(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    RawGguf raw;
    return raw.Text("GGUF").Put(version).Put(tensors).Put(keys);
  }

  template <typename T>
  RawGguf& Put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  RawGguf& Text(std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), bytes, bytes + text.size());
    return *this;
  }
  // A string that declares `size` bytes, whatever `text` has.
  RawGguf& StringOfSize(uint64_t size, std::string_view text) { return Put(size).Text(text); }
  RawGguf& String(std::string_view text) { return StringOfSize(text.size(), text); }

  RawGguf& Key(std::string_view key, ValueType type) { return String(key).Put(static_cast<uint32_t>(type)); }
  RawGguf& Array(std::string_view key, ValueType element, uint64_t count) {
    return Key(key, ValueType::kArray).ArrayHeader(element, count);
  }
  RawGguf& ArrayHeader(ValueType element, uint64_t count) { return Put(static_cast<uint32_t>(element)).Put(count); }
  RawGguf& Uint32(std::string_view key, uint32_t value) { return Key(key, ValueType::kUint32).Put(value); }

  RawGguf& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    String(name).Put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t extent : dims) Put(extent);
    return Put(type).Put(offset);
  }
  RawGguf& Zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  RawGguf& AlignTo(size_t alignment) { return Zeros((alignment - bytes_.size() % alignment) % alignment); }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace kvasir::gguf
