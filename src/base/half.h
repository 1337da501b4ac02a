// base/half.h
// The 16-bit and 8-bit floats of GGUF and of KV pages as bit patterns, with exact conversions.
//
// Values are stored as plain integers because they live in packed blocks and pages; kernels convert with their own
// vector instructions, this is what everything else and the `ref` level use. Rounding is to nearest, ties to even, as
// F16C does.
//
// Thread rule: pure functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kvasir {

using Half = uint16_t;      // IEEE binary16
using BFloat16 = uint16_t;  // upper half of IEEE binary32

inline float HalfToFloat(Half h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu;
  const uint32_t mantissa = h & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline Half FloatToHalf(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude >= 0x7F800000u) {  // infinity, NaN (made quiet, as the hardware does)
    return static_cast<Half>(sign | 0x7C00u | (magnitude > 0x7F800000u ? 0x200u | ((magnitude >> 13) & 0x3FFu) : 0u));
  }
  if (magnitude >= 0x477FF000u) return static_cast<Half>(sign | 0x7C00u);  // rounds to 2^16 or beyond
  if (magnitude < 0x38800000u) {  // below 2^-14: the addition lets the FPU round to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<Half>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<Half>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

inline float BFloat16ToFloat(BFloat16 b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

inline BFloat16 FloatToBFloat16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<BFloat16>((bits >> 16) | 0x40u);
  return static_cast<BFloat16>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kvasir
