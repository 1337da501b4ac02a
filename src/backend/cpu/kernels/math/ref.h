// backend/cpu/kernels/math/ref.h
// exp and tanh in plain C++, within 2 ulp, the same bits with every compiler.
//
// Exp: 0 for -infinity, infinity on overflow, subnormals right, NaN for NaN. Everything has internal linkage, because
// each kernel file has its own instruction set.
//
// Thread rule: pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/cpu/kernels/math/constants.h"

namespace kvasir::backend::cpu::ref {

// r + r^2 Q(r) = exp(r) - 1.
static inline float ExpTail(float r) {
  float q = math::kQ4;
  q = q * r + math::kQ3;
  q = q * r + math::kQ2;
  q = q * r + math::kQ1;
  q = q * r + math::kQ0;
  return r + r * r * q;
}

// REQUIRES: -126 <= n <= 127.
static inline float PowerOfTwo(int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

static inline float Exp(float x) {
  if (x != x) return x;
  const float clamped = x < math::kExpLow ? math::kExpLow : (x > math::kExpHigh ? math::kExpHigh : x);
  const float n = (clamped * math::kLog2E + math::kRoundMagic) - math::kRoundMagic;
  const float r = (clamped - n * math::kLn2High) - n * math::kLn2Low;
  // In two steps, because 2^n alone may leave the range that the result does not.
  const int32_t whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  return (1.0f + ExpTail(r)) * PowerOfTwo(half) * PowerOfTwo(whole - half);
}

static inline float Tanh(float x) {
  if (x != x) return x;
  const float magnitude = x < 0 ? -x : x;
  if (magnitude < math::kTanhSmall) {
    const float z = x * x;
    float t = math::kT4;
    t = t * z + math::kT3;
    t = t * z + math::kT2;
    t = t * z + math::kT1;
    t = t * z + math::kT0;
    return x + x * z * t;
  }
  const float capped = magnitude > math::kTanhOne ? math::kTanhOne : magnitude;
  const float result = 1 - 2 / (Exp(capped + capped) + 1);
  return x < 0 ? -result : result;
}

}  // namespace kvasir::backend::cpu::ref
