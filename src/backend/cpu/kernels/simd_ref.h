// backend/cpu/kernels/simd_ref.h
// Sixteen floats as one value, in plain C++. Row-wise kernels are templates over this interface, so that every level
// computes the same bits; simd_avx2.h and simd_avx512.h are the same interface over registers.
//
// Included by the `ref` kernel files only: everything is in an unnamed namespace, so no other file can pick it up when
// linking.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/math/ref.h"

namespace kvasir::backend::cpu {
namespace {

struct Simd {
  static constexpr int kLanes = 16;
  struct F {
    float v[kLanes];
  };

  template <typename Op>
  static F Map(Op op) {
    F out;
    for (int i = 0; i < kLanes; ++i) out.v[i] = op(i);
    return out;
  }

  static F Set(float x) {
    return Map([&](int) { return x; });
  }
  static F Load(const float* p) {
    return Map([&](int i) { return p[i]; });
  }
  // The first `n` lanes from memory, the others zero.
  static F LoadPartial(const float* p, int n) {
    return Map([&](int i) { return i < n ? p[i] : 0.0f; });
  }
  static void Store(float* p, F a) { std::memcpy(p, a.v, sizeof a.v); }
  static void StorePartial(float* p, F a, int n) { std::memcpy(p, a.v, static_cast<size_t>(n) * sizeof(float)); }

  static F Add(F a, F b) {
    return Map([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F Sub(F a, F b) {
    return Map([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F Mul(F a, F b) {
    return Map([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F Div(F a, F b) {
    return Map([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F Fma(F a, F b, F c) {
    return Map([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  // The second operand where either is not a number, as the instructions do.
  static F Min(F a, F b) {
    return Map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F Max(F a, F b) {
    return Map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F Sqrt(F a) {
    return Map([&](int i) { return std::sqrt(a.v[i]); });
  }
  static F Abs(F a) {
    return Map([&](int i) { return std::fabs(a.v[i]); });
  }
  static F Round(F a) {
    return Map([&](int i) { return std::nearbyint(a.v[i]); });
  }
  // a < b ? yes : no, lane by lane.
  static F SelectLess(F a, F b, F yes, F no) {
    return Map([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
  }
  static F Exp(F a) {
    return Map([&](int i) { return ref::Exp(a.v[i]); });
  }
  static F Tanh(F a) {
    return Map([&](int i) { return ref::Tanh(a.v[i]); });
  }
  // REQUIRES: integral values in [-127, 127].
  static void StoreInt8(int8_t* p, F a) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(a.v[i]);
  }
  // Lane i with lane i + 8, then + 4, + 2, + 1.
  static float ReduceAdd(F a) {
    for (int step = 8; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) a.v[i] = a.v[i] + a.v[i + step];
    }
    return a.v[0];
  }
  static float ReduceMax(F a) {
    float out = a.v[0];
    for (int i = 1; i < kLanes; ++i) out = a.v[i] > out ? a.v[i] : out;
    return out;
  }
};

}  // namespace
}  // namespace kvasir::backend::cpu
