#include "backend/cpu/kernels/math/avx2.h"

#include <cstring>

#include "backend/cpu/kernels/merge/merge.h"

namespace kvasir::backend::cpu::avx2 {
namespace {

float ExpOne(float x) {
  return _mm256_cvtss_f32(Exp(_mm256_set1_ps(x)));
}

// out = out * keep + o * add. dv is a multiple of 4.
void Fold(const float* o, int dv, float keep, float add, float* out) {
  int c = 0;
  for (; c + 8 <= dv; c += 8) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(out + c), _mm256_set1_ps(keep));
    _mm256_storeu_ps(out + c, _mm256_fmadd_ps(_mm256_loadu_ps(o + c), _mm256_set1_ps(add), kept));
  }
  if (c < dv) {
    const __m128 kept = _mm_mul_ps(_mm_loadu_ps(out + c), _mm_set1_ps(keep));
    _mm_storeu_ps(out + c, _mm_fmadd_ps(_mm_loadu_ps(o + c), _mm_set1_ps(add), kept));
  }
}

}  // namespace

void MergePartials(const float* partials, int64_t stride, int count, int dv, float* out) {
  bool empty = true;
  float m = 0;
  float l = 0;
  for (int i = 0; i < count; ++i) {
    const float* o = partials + i * stride;
    const float next_m = o[dv];
    const float next_l = o[dv + 1];
    if (next_l == 0) continue;
    if (empty) {
      empty = false;
      m = next_m;
      l = next_l;
      std::memcpy(out, o, static_cast<size_t>(dv) * sizeof(float));
      continue;
    }
    const float largest = next_m > m ? next_m : m;
    const float keep = ExpOne(m - largest);
    const float add = ExpOne(next_m - largest);
    Fold(o, dv, keep, add, out);
    l = __builtin_fmaf(next_l, add, l * keep);
    m = largest;
  }
  if (empty) {
    std::memset(out, 0, static_cast<size_t>(dv) * sizeof(float));
    return;
  }
  const float inverse = 1 / l;
  for (int c = 0; c < dv; ++c) out[c] *= inverse;
}

}  // namespace kvasir::backend::cpu::avx2
