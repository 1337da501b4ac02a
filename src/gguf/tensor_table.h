// gguf/tensor_table.h
// Reads the tensor descriptions of one file and ties each to its bytes.
//
// What comes out is safe to use without further tests: dimensions are positive, their product and the bytes fit in 64
// bits, rows are whole blocks, and every tensor's bytes lie aligned inside the file and overlap no other's.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/cursor.h"
#include "gguf/gguf_file.h"

namespace kvasir::gguf {

constexpr size_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // name of one character, no dimension, type, offset
// What ReadTensors and IndexByName allocate for a tensor.
constexpr size_t kTensorListingBytes = sizeof(TensorInfo) + sizeof(uint64_t) + 2 * sizeof(uint32_t);

// Reads `count` descriptions at `cursor`, which walks `file_bytes`; the data section begins at the next multiple of
// `alignment`. REQUIRES: `count` fits in 31 bits and `alignment` is a power of two. Errors: kCorrupt, kUnsupported (an
// unknown type).
Result<std::vector<TensorInfo>> ReadTensors(Cursor cursor, std::span<const std::byte> file_bytes, uint64_t count,
                                            uint64_t alignment, const std::string& file);

// Positions in `tensors`, ordered by name. Errors: kCorrupt (two of one name).
Result<std::vector<uint32_t>> IndexByName(std::span<const TensorInfo> tensors, const std::string& file);

}  // namespace kvasir::gguf
