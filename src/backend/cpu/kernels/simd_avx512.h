// backend/cpu/kernels/simd_avx512.h
// The interface of simd_ref.h over one AVX-512 register. Included by avx512*.cc only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/kernels/math/avx512.h"

namespace kvasir::backend::cpu {
namespace {

struct Simd {
  static constexpr int kLanes = 16;
  using F = __m512;

  static F Set(float x) { return _mm512_set1_ps(x); }
  static F Load(const float* p) { return _mm512_loadu_ps(p); }
  static __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static F LoadPartial(const float* p, int n) { return _mm512_maskz_loadu_ps(FirstLanes(n), p); }
  static void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static void StorePartial(float* p, F a, int n) { _mm512_mask_storeu_ps(p, FirstLanes(n), a); }

  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Min(F a, F b) { return _mm512_min_ps(a, b); }
  static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  static F Sqrt(F a) { return _mm512_sqrt_ps(a); }
  static F Abs(F a) { return _mm512_abs_ps(a); }
  static F Round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F SelectLess(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static F Exp(F a) { return avx512::Exp(a); }
  static F Tanh(F a) { return avx512::Tanh(a); }
  static void StoreInt8(int8_t* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
  }
  static float ReduceAdd(F a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float ReduceMax(F a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }
};

}  // namespace
}  // namespace kvasir::backend::cpu
