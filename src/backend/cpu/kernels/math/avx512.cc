#include "backend/cpu/kernels/math/avx512.h"

#include "backend/cpu/kernels/math/math.h"

namespace kvasir::backend::cpu::avx512 {
namespace {

template <__m512 (*kFunction)(__m512)>
void Apply(const float* in, float* out, int n) {
  for (int i = 0; i < n; i += 16) {
    const __mmask16 mask = n - i >= 16 ? __mmask16{0xFFFF} : static_cast<__mmask16>((1u << (n - i)) - 1);
    _mm512_mask_storeu_ps(out + i, mask, kFunction(_mm512_maskz_loadu_ps(mask, in + i)));
  }
}

}  // namespace

void ExpArray(const float* in, float* out, int n) {
  Apply<Exp>(in, out, n);
}
void TanhArray(const float* in, float* out, int n) {
  Apply<Tanh>(in, out, n);
}

}  // namespace kvasir::backend::cpu::avx512
