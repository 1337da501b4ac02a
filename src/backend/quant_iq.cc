// The IQ1, IQ2, IQ3 and ternary formats of backend/quant.h: grids of 4 or 8 values, signs apart from magnitudes.
#include <array>
#include <bit>

#include "backend/quant.h"
#include "base/check.h"

namespace kvasir::backend::internal {
namespace {

#include "backend/quant_iq_grids.inc"

constexpr std::array<int8_t, 4> kIq2Values = {8, 25, 43, 0};
constexpr std::array<int8_t, 8> kIq3XxsValues = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<int8_t, 8> kIq3SValues = {1, 3, 5, 7, 9, 11, 13, 15};

// A signs byte's bit i negates value i. The 7-bit forms leave bit 7 out: the number of minus signs is even.
int ExpandSigns(uint32_t seven_bits) {
  return static_cast<int>(seven_bits | (std::popcount(seven_bits) % 2) << 7);
}

float Signed(float value, int signs, int i) {
  return (signs >> i & 1) != 0 ? -value : value;
}

void Point8(uint16_t point, float scale, int signs, float* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = Signed(scale * static_cast<float>(kIq2Values[static_cast<size_t>(point >> (2 * i) & 3)]), signs, i);
  }
}

void Point4(uint16_t point, const std::array<int8_t, 8>& values, float scale, int signs, float* out) {
  for (int i = 0; i < 4; ++i) {
    out[i] = Signed(scale * static_cast<float>(values[static_cast<size_t>(point >> (3 * i) & 7)]), signs, i);
  }
}

void Point1(uint16_t point, float scale, float delta, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>((point >> (2 * i) & 3) - 1) + delta);
}

uint32_t U16(const uint8_t* b) {
  return static_cast<uint32_t>(b[0] | b[1] << 8);
}
uint32_t U32(const uint8_t* b) {
  return U16(b) | U16(b + 2) << 16;
}
int Nibble(const uint8_t* b, int i) {
  return b[i / 2] >> (4 * (i % 2)) & 15;
}

// d, then for each 32 values four grid indices and a word of four 7-bit signs and a 4-bit scale.
void Iq2Xxs(const uint8_t* b, float d, float* out) {
  for (int group = 0; group < 8; ++group) {
    const uint8_t* g = b + 2 + group * 8;
    const uint32_t word = U32(g + 4);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int i = 0; i < 4; ++i)
      Point8(kIq2XxsGrid[g[i]], scale, ExpandSigns(word >> (7 * i) & 127), out + group * 32 + i * 8);
  }
}

// d, 32 words of a 9-bit index and a 7-bit sign, then a 4-bit scale for each 16 values.
void Iq2Xs(const uint8_t* b, float d, float* out) {
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = U16(b + 2 + i * 2);
    const float scale = d * (0.5f + static_cast<float>(Nibble(b + 66, i / 2))) * 0.25f;
    Point8(kIq2XsGrid[word & 511], scale, ExpandSigns(word >> 9), out + i * 8);
  }
}

// d, 32 low index bytes, 32 sign bytes, 2-bit high index parts, 4-bit scales.
void Iq2S(const uint8_t* b, float d, float* out) {
  for (int i = 0; i < 32; ++i) {
    const size_t index = b[2 + i] | static_cast<size_t>(b[66 + i / 4] >> (2 * (i % 4)) & 3) << 8;
    const float scale = d * (0.5f + static_cast<float>(Nibble(b + 74, i / 2))) * 0.25f;
    Point8(kIq2SGrid[index], scale, b[34 + i], out + i * 8);
  }
}

// d, 64 grid indices, then for each 32 values a word of four 7-bit signs and a 4-bit scale.
void Iq3Xxs(const uint8_t* b, float d, float* out) {
  for (int i = 0; i < 64; ++i) {
    const uint32_t word = U32(b + 66 + i / 8 * 4);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const int signs = ExpandSigns(word >> (7 * (i % 8 / 2)) & 127) >> (4 * (i % 2));
    Point4(kIq3XxsGrid[b[2 + i]], kIq3XxsValues, scale, signs, out + i * 4);
  }
}

// d, 64 low index bytes, 64 high index bits, 32 sign bytes, 4-bit scales for each 32 values.
void Iq3S(const uint8_t* b, float d, float* out) {
  for (int i = 0; i < 64; ++i) {
    const size_t index = b[2 + i] | static_cast<size_t>(b[66 + i / 8] >> (i % 8) & 1) << 8;
    const float scale = d * static_cast<float>(1 + 2 * Nibble(b + 106, i / 8));
    Point4(kIq3SGrid[index], kIq3SValues, scale, b[74 + i / 2] >> (4 * (i % 2)), out + i * 4);
  }
}

// d, 32 low index bytes, then for each 32 values a word: four 3-bit high index parts, a 3-bit scale, the sign of delta.
void Iq1S(const uint8_t* b, float d, float* out) {
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = U16(b + 34 + i / 4 * 2);
    const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
    const size_t index = b[2 + i] | static_cast<size_t>(word >> (3 * (i % 4)) & 7) << 8;
    Point1(kIq1Grid[index], scale, (word & 0x8000) != 0 ? -0.125f : 0.125f, out + i * 8);
  }
}

// 32 low index bytes, 32 nibbles (3 high index bits, the sign of delta), four words of four 3-bit scales whose top
// nibbles make d.
void Iq1M(const uint8_t* b, float* out) {
  const uint8_t* scales = b + 48;
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= (U16(scales + 2 * i) >> 12) << (4 * i);
  const float d = HalfToFloat(static_cast<Half>(bits));
  for (int i = 0; i < 32; ++i) {
    const int nibble = Nibble(b + 32, i);
    const int sub = i / 2;  // one scale for each 16 values
    const float scale = d * static_cast<float>(2 * (U16(scales + sub / 4 * 2) >> (3 * (sub % 4)) & 7) + 1);
    Point1(kIq1Grid[b[i] | static_cast<size_t>(nibble & 7) << 8], scale, (nibble & 8) != 0 ? -0.125f : 0.125f,
           out + i * 8);
  }
}

// Five base-3 digits in a byte, as a fraction of 256: times 3^n, the digit is the integer part of three times what
// remains.
float Trit(uint8_t packed, int n) {
  constexpr std::array<uint8_t, 5> kPowers = {1, 3, 9, 27, 81};
  const auto rest = static_cast<uint8_t>(packed * kPowers[static_cast<size_t>(n)]);
  return static_cast<float>((rest * 3 >> 8) - 1);
}

}  // namespace

void DecodeIq(TensorType type, const std::byte* block, float* out) {
  const auto* b = reinterpret_cast<const uint8_t*>(block);
  const float d = HalfToFloat(static_cast<Half>(U16(b)));
  switch (type) {
    case TensorType::kIQ2_XXS:
      return Iq2Xxs(b, d, out);
    case TensorType::kIQ2_XS:
      return Iq2Xs(b, d, out);
    case TensorType::kIQ2_S:
      return Iq2S(b, d, out);
    case TensorType::kIQ3_XXS:
      return Iq3Xxs(b, d, out);
    case TensorType::kIQ3_S:
      return Iq3S(b, d, out);
    case TensorType::kIQ1_S:
      return Iq1S(b, d, out);
    case TensorType::kIQ1_M:
      return Iq1M(b, out);
    default:
      KVASIR_CHECK(false, "no decoder for {}", Name(type));
  }
}

void DecodeTernary(TensorType type, const std::byte* block, float* out) {
  const auto* b = reinterpret_cast<const uint8_t*>(block);
  if (type == TensorType::kTQ2_0) {  // codes [64], d: four 2-bit planes of 32 values for each 32 bytes
    const float d = HalfToFloat(static_cast<Half>(U16(b + 64)));
    for (int i = 0; i < 256; ++i) {
      out[i] = d * static_cast<float>((b[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3) - 1);
    }
    return;
  }
  // 32 bytes of five planes of 32, 16 bytes of five planes of 16, 4 bytes of four planes of 4, then d.
  const float d = HalfToFloat(static_cast<Half>(U16(b + 52)));
  for (int i = 0; i < 160; ++i) out[i] = d * Trit(b[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out[160 + i] = d * Trit(b[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out[240 + i] = d * Trit(b[48 + i % 4], i / 4);
}

}  // namespace kvasir::backend::internal
