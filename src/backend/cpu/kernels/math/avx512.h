// backend/cpu/kernels/math/avx512.h
// exp and tanh of 16 floats with AVX-512, within 2 ulp. Contracts as in math/ref.h.
//
// For files with AVX-512 flags only. Everything has internal linkage, because each kernel file has its own instruction
// set.
//
// Thread rule: pure functions.
#pragma once

#include <immintrin.h>

#include "backend/cpu/kernels/math/constants.h"

namespace kvasir::backend::cpu::avx512 {

// r + r^2 Q(r) = exp(r) - 1.
static inline __m512 ExpTail(__m512 r) {
  __m512 q = _mm512_set1_ps(math::kQ4);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(math::kQ3));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(math::kQ2));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(math::kQ1));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(math::kQ0));
  return _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
}

static inline __m512 Exp(__m512 x) {
  // min and max give their second operand when one is NaN.
  const __m512 clamped = _mm512_min_ps(_mm512_set1_ps(math::kExpHigh), _mm512_max_ps(_mm512_set1_ps(math::kExpLow), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(math::kLog2E)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(math::kLn2High), clamped);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(math::kLn2Low), r);
  return _mm512_scalef_ps(_mm512_add_ps(_mm512_set1_ps(1), ExpTail(r)), n);
}

static inline __m512 Tanh(__m512 x) {
  const __m512 magnitude = _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x);
  const __m512 z = _mm512_mul_ps(x, x);
  __m512 t = _mm512_set1_ps(math::kT4);
  t = _mm512_fmadd_ps(t, z, _mm512_set1_ps(math::kT3));
  t = _mm512_fmadd_ps(t, z, _mm512_set1_ps(math::kT2));
  t = _mm512_fmadd_ps(t, z, _mm512_set1_ps(math::kT1));
  t = _mm512_fmadd_ps(t, z, _mm512_set1_ps(math::kT0));
  const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(x, z), t, x);

  const __m512 capped = _mm512_min_ps(_mm512_set1_ps(math::kTanhOne), magnitude);
  const __m512 power = Exp(_mm512_add_ps(capped, capped));
  const __m512 one = _mm512_set1_ps(1);
  const __m512 result = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2), _mm512_add_ps(power, one)));
  const __m512 large = _mm512_or_ps(result, _mm512_and_ps(_mm512_set1_ps(-0.0f), x));
  return _mm512_mask_mov_ps(large, _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(math::kTanhSmall), _CMP_LT_OQ), small);
}

}  // namespace kvasir::backend::cpu::avx512
