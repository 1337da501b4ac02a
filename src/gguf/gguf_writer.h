// gguf/gguf_writer.h
// Writes GGUF v3 files, for tests, `synth` models and tools. Not a converter: it writes what it is told.
//
// What it is told is code, not input: a key or name twice, a bad name, or bytes that do not fit their shape are bugs.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_type.h"
#include "gguf/gguf_file.h"

namespace kvasir::gguf {

class GgufWriter {
 public:
  // REQUIRES, of all: `key` is new, not empty, valid UTF-8 without control characters. The key general.alignment moves
  // the tensors accordingly; its value is a power of two in 8..2^20.
  void AddUint32(std::string_view key, uint32_t value);
  void AddInt32(std::string_view key, int32_t value);
  void AddUint64(std::string_view key, uint64_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddStrings(std::string_view key, std::span<const std::string> values);
  void AddFloats(std::string_view key, std::span<const float> values);
  void AddInts(std::string_view key, std::span<const int32_t> values);
  void AddBools(std::string_view key, std::span<const bool> values);

  // `dims` from the contiguous one outwards, 1..4 of them, all positive. REQUIRES: `name` as a key;
  // bytes.size() == TensorBytes(type, product of dims).
  void AddTensor(std::string_view name, TensorType type, std::span<const int64_t> dims, std::vector<std::byte> bytes);

  std::vector<std::byte> Serialize() const;
  // Written beside `path` and renamed when whole, so `path` never holds half a file. Errors: kIo.
  Status Write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<int64_t> dims;
    std::vector<std::byte> bytes;
  };

  void BeginEntry(std::string_view key, ValueType type);
  void BeginArray(std::string_view key, ValueType element, size_t count);
  // All before the first tensor's bytes.
  std::vector<std::byte> Header() const;
  // Zeros that follow `size` bytes.
  size_t Padding(size_t size) const { return (alignment_ - size % alignment_) % alignment_; }

  std::vector<std::byte> metadata_;
  std::vector<std::string> keys_;
  std::vector<Tensor> tensors_;
  size_t alignment_ = 32;
};

}  // namespace kvasir::gguf
