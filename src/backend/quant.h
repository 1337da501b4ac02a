// backend/quant.h
// What the bytes of a weight tensor mean: every GGUF type decoded to f32, and the plain quantizers that tests and tools
// need.
//
// Decode is the definition that everything else is tested against: portable C++, one block at a time, no speed tricks.
// Formats that are "a small integer times a scale" also come apart into those integers (QuantBlock), because a backend
// repacks them without rounding. What it does not do: dot products, or layouts of any backend. Source of the layouts:
// ggml-common.h (github.com/ggml-org/ggml) and the decoders of the Python package gguf.
//
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/half.h"
#include "base/result.h"
#include "base/tensor_type.h"

namespace kvasir::backend {

// Decodes whole blocks to `out` [elements].
// REQUIRES: `elements` is a multiple of the type's block.
void Decode(TensorType type, const std::byte* blocks, int64_t elements, float* out);

// 32 consecutive values of a scaled-integer format, taken apart. Value i, with h = i / 16:
//   (d * sub_scale[h]) * Code(codes[i]) + (m * sub_min[h])
// where Code(c) is the codebook's entry when the type has one, and c - offset otherwise.
struct QuantBlock {
  std::array<uint8_t, 32> codes;  // as stored, unsigned
  float d = 0;                    // an f16 value, or for MXFP4 a power of two
  float m = 0;                    // an f16 value; 0 when the format has no minimum
  std::array<int16_t, 2> sub_scale = {1, 1};
  std::array<int16_t, 2> sub_min = {1, 1};
};

// How a scaled-integer format reads its codes.
struct QuantCodes {
  int offset = 0;  // without a codebook
  const std::array<int8_t, 16>* codebook = nullptr;
};

// Null for types that are not scaled integers.
const QuantCodes* FindQuantCodes(TensorType type);

// Values [32 * index, 32 * index + 32) of a row. REQUIRES: FindQuantCodes(type).
QuantBlock UnpackQuantBlock(TensorType type, const std::byte* row, int64_t index);

// Rounds `values` to a type by the plainest rule (extremes of the block give the scale). kUnsupported for a type
// without a quantizer. REQUIRES: values.size() is a multiple of the type's block; `blocks` has TensorBytes(type,
// values.size()) bytes.
Status Encode(TensorType type, std::span<const float> values, std::byte* blocks);

namespace internal {

// The parts of Decode that live in files of their own.
void DecodeIq(TensorType type, const std::byte* block, float* out);       // one block of IQ1_*, IQ2_*, IQ3_*
void DecodeTernary(TensorType type, const std::byte* block, float* out);  // one block of TQ1_0, TQ2_0

}  // namespace internal

}  // namespace kvasir::backend
