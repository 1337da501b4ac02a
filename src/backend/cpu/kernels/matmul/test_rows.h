// backend/cpu/kernels/matmul/test_rows.h
// Random weight rows of any type, for tests and benchmarks: random codes, scales of a sane size and either sign.
//
// Thread rule: plain values.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "backend/backend.h"
#include "backend/quant.h"
#include "base/half.h"

namespace kvasir::backend::cpu {

constexpr TensorType kQuantizedTestTypes[] = {
    TensorType::kQ4_0,   TensorType::kQ4_1,    TensorType::kQ5_0,   TensorType::kQ5_1,  TensorType::kQ8_0,
    TensorType::kQ2_K,   TensorType::kQ3_K,    TensorType::kQ4_K,   TensorType::kQ5_K,  TensorType::kQ6_K,
    TensorType::kIQ4_NL, TensorType::kIQ4_XS,  TensorType::kMXFP4,  TensorType::kNVFP4, TensorType::kIQ1_S,
    TensorType::kIQ1_M,  TensorType::kIQ2_XXS, TensorType::kIQ2_XS, TensorType::kIQ2_S, TensorType::kIQ3_XXS,
    TensorType::kIQ3_S,  TensorType::kTQ1_0,   TensorType::kTQ2_0,
};
constexpr TensorType kAllTestTypes[] = {
    TensorType::kF32,    TensorType::kF16,   TensorType::kBF16,    TensorType::kQ4_0,   TensorType::kQ4_1,
    TensorType::kQ5_0,   TensorType::kQ5_1,  TensorType::kQ8_0,    TensorType::kQ2_K,   TensorType::kQ3_K,
    TensorType::kQ4_K,   TensorType::kQ5_K,  TensorType::kQ6_K,    TensorType::kIQ4_NL, TensorType::kIQ4_XS,
    TensorType::kMXFP4,  TensorType::kNVFP4, TensorType::kIQ1_S,   TensorType::kIQ1_M,  TensorType::kIQ2_XXS,
    TensorType::kIQ2_XS, TensorType::kIQ2_S, TensorType::kIQ3_XXS, TensorType::kIQ3_S,  TensorType::kTQ1_0,
    TensorType::kTQ2_0,
};

struct TestRows {
  TensorType type;
  int64_t rows, cols;
  std::vector<std::byte> bytes;

  // REQUIRES: `cols` is a multiple of the type's block.
  TestRows(TensorType tensor_type, int64_t row_count, int64_t width, uint32_t seed)
      : type(tensor_type),
        rows(row_count),
        cols(width),
        bytes(static_cast<size_t>(*TensorBytes(tensor_type, row_count * width))) {
    std::mt19937 random(seed);
    if (Traits(type).block_elements == 1) {
      std::normal_distribution<float> normal(0, 0.05f);
      std::vector<float> values(static_cast<size_t>(rows * cols));
      for (float& value : values) value = normal(random);
      KVASIR_CHECK(Encode(type, values, bytes.data()).ok());
      return;
    }
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const uint32_t word = static_cast<uint32_t>(random());
      std::memcpy(bytes.data() + i, &word, std::min<size_t>(4, bytes.size() - i));
    }
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(Traits(type).block_bytes)) {
      SetScales(bytes.data() + at, random);
    }
  }

  MatrixSource source() const { return {type, rows, cols, bytes.data()}; }

 private:
  // Random bytes are valid codes, but would be infinities and NaN where a block keeps its scales.
  void SetScales(std::byte* block, std::mt19937& random) const {
    std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
    const auto half_at = [&](int offset, float size) {
      const Half bits = FloatToHalf(size * uniform(random) * (random() % 2 != 0 ? 1.0f : -1.0f));
      std::memcpy(block + offset, &bits, 2);
    };
    switch (type) {
      case TensorType::kQ4_1:
      case TensorType::kQ5_1:
        half_at(2, 0.05f);
        [[fallthrough]];
      case TensorType::kQ4_0:
      case TensorType::kQ5_0:
      case TensorType::kIQ4_NL:
      case TensorType::kQ8_0:
        half_at(0, 0.005f);
        return;
      case TensorType::kQ4_K:
      case TensorType::kQ5_K:
        half_at(2, 1e-3f);
        half_at(0, 1e-3f);
        return;
      case TensorType::kQ2_K:
        half_at(80, 1e-3f);
        half_at(82, 1e-3f);
        return;
      case TensorType::kQ3_K:
        half_at(108, 1e-3f);
        return;
      case TensorType::kQ6_K:
        half_at(208, 1e-4f);
        return;
      case TensorType::kTQ1_0:
        half_at(52, 0.05f);
        return;
      case TensorType::kTQ2_0:
        half_at(64, 0.05f);
        return;
      case TensorType::kMXFP4:
        block[0] = static_cast<std::byte>(118 + random() % 8);
        return;
      case TensorType::kNVFP4:
        for (int i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(8 + random() % 48);
        return;
      case TensorType::kIQ1_M:  // an f16 spread over the top nibbles of four words; 0x2.. is about 0.01
        for (int i = 0; i < 4; ++i) {
          const int nibble = i == 3 ? 2 : static_cast<int>(random() % 16);
          block[48 + 2 * i + 1] = (block[48 + 2 * i + 1] & std::byte{0x0F}) | static_cast<std::byte>(nibble << 4);
        }
        return;
      default:
        half_at(0, 1e-3f);
        return;  // the other IQ types
    }
  }
};

}  // namespace kvasir::backend::cpu
