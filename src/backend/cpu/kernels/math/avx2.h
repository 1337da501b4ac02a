// backend/cpu/kernels/math/avx2.h
// exp and tanh of 8 floats with AVX2 and FMA, within 2 ulp. Contracts as in math/ref.h.
//
// For files with AVX2 flags only. Everything has internal linkage, because each kernel file has its own instruction
// set.
//
// Thread rule: pure functions.
#pragma once

#include <immintrin.h>

#include "backend/cpu/kernels/math/constants.h"

namespace kvasir::backend::cpu::avx2 {

// r + r^2 Q(r) = exp(r) - 1.
static inline __m256 ExpTail(__m256 r) {
  __m256 q = _mm256_set1_ps(math::kQ4);
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(math::kQ3));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(math::kQ2));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(math::kQ1));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(math::kQ0));
  return _mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r);
}

static inline __m256 PowerOfTwo(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static inline __m256 Exp(__m256 x) {
  // min and max give their second operand when one is NaN.
  const __m256 clamped = _mm256_min_ps(_mm256_set1_ps(math::kExpHigh), _mm256_max_ps(_mm256_set1_ps(math::kExpLow), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(math::kLog2E)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(math::kLn2High), clamped);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(math::kLn2Low), r);
  const __m256 mantissa = _mm256_add_ps(_mm256_set1_ps(1), ExpTail(r));
  // In two steps, because 2^n alone may leave the range that the result does not.
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(mantissa, PowerOfTwo(half)), PowerOfTwo(_mm256_sub_epi32(whole, half)));
}

static inline __m256 Tanh(__m256 x) {
  const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
  const __m256 z = _mm256_mul_ps(x, x);
  __m256 t = _mm256_set1_ps(math::kT4);
  t = _mm256_fmadd_ps(t, z, _mm256_set1_ps(math::kT3));
  t = _mm256_fmadd_ps(t, z, _mm256_set1_ps(math::kT2));
  t = _mm256_fmadd_ps(t, z, _mm256_set1_ps(math::kT1));
  t = _mm256_fmadd_ps(t, z, _mm256_set1_ps(math::kT0));
  const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(x, z), t, x);

  const __m256 capped = _mm256_min_ps(_mm256_set1_ps(math::kTanhOne), magnitude);
  const __m256 power = Exp(_mm256_add_ps(capped, capped));
  const __m256 one = _mm256_set1_ps(1);
  const __m256 result = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2), _mm256_add_ps(power, one)));
  const __m256 large = _mm256_or_ps(result, _mm256_and_ps(_mm256_set1_ps(-0.0f), x));
  return _mm256_blendv_ps(large, small, _mm256_cmp_ps(magnitude, _mm256_set1_ps(math::kTanhSmall), _CMP_LT_OQ));
}

}  // namespace kvasir::backend::cpu::avx2
