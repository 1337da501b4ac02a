// backend/cpu/kernels/simd_avx2.h
// The interface of simd_ref.h over two AVX2 registers. Included by avx2*.cc only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/kernels/math/avx2.h"

namespace kvasir::backend::cpu {
namespace {

struct Simd {
  static constexpr int kLanes = 16;
  struct F {
    __m256 low, high;
  };

  static F Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static __m256i FirstLanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F LoadPartial(const float* p, int n) {
    return {_mm256_maskload_ps(p, FirstLanes(n)), _mm256_maskload_ps(p + 8, FirstLanes(n - 8))};
  }
  static void Store(float* p, F a) {
    _mm256_storeu_ps(p, a.low);
    _mm256_storeu_ps(p + 8, a.high);
  }
  static void StorePartial(float* p, F a, int n) {
    _mm256_maskstore_ps(p, FirstLanes(n), a.low);
    _mm256_maskstore_ps(p + 8, FirstLanes(n - 8), a.high);
  }

  static F Add(F a, F b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  static F Sub(F a, F b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  static F Mul(F a, F b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  static F Div(F a, F b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  static F Fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static F Min(F a, F b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
  static F Max(F a, F b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
  static F Sqrt(F a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
  static F Abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
  }
  static __m256 Round8(__m256 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F Round(F a) { return {Round8(a.low), Round8(a.high)}; }
  static __m256 SelectLess8(__m256 a, __m256 b, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static F SelectLess(F a, F b, F yes, F no) {
    return {SelectLess8(a.low, b.low, yes.low, no.low), SelectLess8(a.high, b.high, yes.high, no.high)};
  }
  static F Exp(F a) { return {avx2::Exp(a.low), avx2::Exp(a.high)}; }
  static F Tanh(F a) { return {avx2::Tanh(a.low), avx2::Tanh(a.high)}; }
  static void StoreInt8(int8_t* p, F a) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);  // packs works inside 128-bit halves
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
  static float ReduceAdd(F a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float ReduceMax(F a) {
    const __m256 eight = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }
};

}  // namespace
}  // namespace kvasir::backend::cpu
