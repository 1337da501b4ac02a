#include "backend/cpu/kernels/math/avx2.h"

#include "backend/cpu/kernels/math/math.h"

namespace kvasir::backend::cpu::avx2 {
namespace {

template <__m256 (*kFunction)(__m256)>
void Apply(const float* in, float* out, int n) {
  int i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, kFunction(_mm256_loadu_ps(in + i)));
  float tail[8] = {};
  for (int j = i; j < n; ++j) tail[j - i] = in[j];
  _mm256_storeu_ps(tail, kFunction(_mm256_loadu_ps(tail)));
  for (int j = i; j < n; ++j) out[j] = tail[j - i];
}

}  // namespace

void ExpArray(const float* in, float* out, int n) {
  Apply<Exp>(in, out, n);
}
void TanhArray(const float* in, float* out, int n) {
  Apply<Tanh>(in, out, n);
}

}  // namespace kvasir::backend::cpu::avx2
