// gguf/read_entry.h
// Everything a reader can ask of a parsed file, asked at once: for tests and fuzzing, where no answer matters but all
// must come.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "gguf/gguf_file.h"

namespace kvasir::gguf {

inline void ReadEntry(const GgufFile& file, const MetadataEntry& entry) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  static_cast<void>(file.GetInt(entry.key));
  static_cast<void>(file.GetIntOr(entry.key, 0, 0, 100));
  static_cast<void>(file.GetFloat(entry.key));
  static_cast<void>(file.GetFloatOr(entry.key, 0.0));
  static_cast<void>(file.GetBoolOr(entry.key, false));
  static_cast<void>(file.GetString(entry.key));
  static_cast<void>(file.GetStringOr(entry.key, ""));
  static_cast<void>(file.GetStrings(entry.key));
  static_cast<void>(file.GetInts(entry.key));
  static_cast<void>(file.GetFloats(entry.key));
  static_cast<void>(file.GetIntPerLayer(entry.key, 3, kMin, kMax));
  static_cast<void>(file.ToText(entry, 8));
}

// The sum of the first and last byte of every tensor, so that each range is touched.
inline uint64_t TouchTensors(const GgufFile& file) {
  uint64_t sum = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    sum += static_cast<uint64_t>(tensor.bytes.front()) + static_cast<uint64_t>(tensor.bytes.back());
    sum += static_cast<uint64_t>(file.FindTensor(tensor.name) == &tensor);
  }
  return sum;
}

}  // namespace kvasir::gguf
