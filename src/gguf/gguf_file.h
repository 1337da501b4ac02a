// gguf/gguf_file.h
// A GGUF model file (v2 or v3, one part or split) mapped into memory and validated: typed metadata and tensor bytes in
// place.
//
// Every length, offset and type in the file is untrusted. One bounded cursor reads the header; `count > bytes left /
// size` is tested before any multiplication; opening a part allocates at most twice its size and 64 KiB in sum; every
// tensor's range is checked against the file before it can be asked for. Keys and tensor names are unique, valid UTF-8
// and free of control characters. A getter checks type and range when a key is read and says which key is wrong. What
// it does not do: know any architecture, or decode tensors (backend/quant.h).
//
// Layout: github.com/ggml-org/ggml, docs/gguf.md.
//
// Thread rule: const after Open; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_type.h"

namespace kvasir::gguf {

// The metadata value types, with their ids in the file.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
std::string_view Name(ValueType type);

struct TensorInfo {
  std::string_view name;
  TensorType type = TensorType::kF32;
  int n_dims = 0;                    // 0 (a single value) to 4
  int64_t ne[4] = {1, 1, 1, 1};      // ne[0] is the contiguous one: values in a row; all positive
  std::span<const std::byte> bytes;  // exactly TensorBytes(type, elements())

  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  int64_t rows() const { return ne[1] * ne[2] * ne[3]; }
};

// One metadata entry as it lies in the file, for `inspect` and other listings. Values are read with the getters of
// GgufFile.
struct MetadataEntry {
  std::string_view key;
  ValueType type = ValueType::kUint32;
  ValueType element_type = ValueType::kUint32;  // of an array
  uint64_t count = 1;                           // elements of an array
  const std::byte* value = nullptr;             // first byte of the value (of an array: of its first element)
};

class GgufFile {
 public:
  // Opens `path`. If it is any one part of a split model (split.count > 1), opens all its parts, found by the
  // "-00001-of-00003.gguf" naming beside it. Errors: kNotFound, kIo, kInvalidArgument (not a file with bytes), kCorrupt
  // (with key or tensor named), kUnsupported (a version, a byte order or a tensor type).
  static Result<GgufFile> Open(const std::string& path);

  // The same from memory, one part whatever split.count says; `bytes` must outlive the file. For tests and fuzzing.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::string& path() const;
  uint32_t version() const;
  int64_t total_bytes() const;                      // of all parts
  std::span<const MetadataEntry> metadata() const;  // in file order, keys unique; of the first part
  std::span<const TensorInfo> tensors() const;      // in file order, names unique; of all parts

  bool Has(std::string_view key) const;

  // Getters with one argument fail with kNotFound when the key is missing; those with a `fallback` return it then. All
  // fail with kCorrupt when the value has another type (any integer type will do for GetInt, f32 and f64 for GetFloat)
  // or is out of range.
  Result<int64_t> GetInt(std::string_view key, int64_t min = std::numeric_limits<int64_t>::min(),
                         int64_t max = std::numeric_limits<int64_t>::max()) const;
  Result<int64_t> GetIntOr(std::string_view key, int64_t fallback, int64_t min = std::numeric_limits<int64_t>::min(),
                           int64_t max = std::numeric_limits<int64_t>::max()) const;
  Result<double> GetFloat(std::string_view key) const;  // finite
  Result<double> GetFloatOr(std::string_view key, double fallback) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetString(std::string_view key) const;  // not necessarily UTF-8
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;

  // Arrays. Strings are views into the file. One pass, no allocation but the vector.
  Result<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  Result<std::vector<int64_t>> GetInts(std::string_view key) const;  // any integer type, or bool as 0 and 1
  Result<std::vector<float>> GetFloats(std::string_view key) const;  // f32, all finite
  // A number per layer: an array of exactly `count` values in [min, max], or one number that stands for all.
  // A `count` outside 0 to 65536 is kInvalidArgument.
  Result<std::vector<int64_t>> GetIntPerLayer(std::string_view key, int64_t count, int64_t min, int64_t max) const;

  const TensorInfo* FindTensor(std::string_view name) const;  // null when missing

  // The value of any entry as text, arrays cut after `max_elements`; for listings.
  std::string ToText(const MetadataEntry& entry, size_t max_elements) const;

  // Lets the kernel drop the mapped pages of a tensor that has been copied elsewhere.
  void Release(const TensorInfo& tensor) const;

 private:
  struct Contents;
  explicit GgufFile(std::unique_ptr<Contents> contents);

  static Result<GgufFile> OpenPart(const std::string& path);
  static Result<GgufFile> Join(std::vector<GgufFile> parts, const std::string& path);
  const MetadataEntry* Find(std::string_view key) const;
  Error KeyError(std::string_view key, std::string_view what) const;
  Error Missing(std::string_view key) const;

  std::unique_ptr<Contents> contents_;
};

}  // namespace kvasir::gguf
