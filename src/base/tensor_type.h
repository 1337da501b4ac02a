// base/tensor_type.h
// Every tensor type a GGUF file can name: its id, name, and the shape of one block.
//
// A tensor's rows are whole numbers of blocks. This is the arithmetic of sizes only; what the bytes mean is
// backend/quant.h. Source: the GGUF specification (github.com/ggml-org/ggml, docs/gguf.md) and the ids in ggml.h.
//
// Thread rule: constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvasir {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
};

struct TensorTypeTraits {
  TensorType type;
  std::string_view name;  // as GGUF tools print it: "Q4_K"
  int block_elements;     // values in one block
  int block_bytes;        // bytes of one block
};

// Null for an id this build does not know.
const TensorTypeTraits* FindTensorType(uint32_t id);
// By name, case-insensitively ("q4_k"). Null when unknown.
const TensorTypeTraits* FindTensorType(std::string_view name);
// REQUIRES: `type` is one of the enumerators.
const TensorTypeTraits& Traits(TensorType type);

inline std::string_view Name(TensorType type) {
  return Traits(type).name;
}

// Bytes of `elements` values, or nothing when they are not whole blocks or the product leaves int64.
std::optional<int64_t> TensorBytes(TensorType type, int64_t elements);

}  // namespace kvasir
