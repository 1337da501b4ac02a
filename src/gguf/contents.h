// gguf/contents.h
// What a GgufFile holds; shared by the files that implement it.
//
// Thread rule: as gguf_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/cursor.h"
#include "gguf/gguf_file.h"

namespace kvasir::gguf {

struct GgufFile::Contents {
  std::string path;
  std::vector<MappedFile> files;     // in part order; empty when parsed from memory
  std::span<const std::byte> bytes;  // of the first part
  int64_t total_bytes = 0;
  uint32_t version = 0;
  std::vector<MetadataEntry> metadata;
  std::vector<uint32_t> metadata_by_key;  // positions in `metadata`
  std::vector<TensorInfo> tensors;
  std::vector<uint32_t> tensors_by_name;  // positions in `tensors`

  // From the value's first byte to the end of the file.
  Cursor At(const MetadataEntry& entry) const {
    return Cursor(bytes.subspan(static_cast<size_t>(entry.value - bytes.data())));
  }
};

}  // namespace kvasir::gguf
