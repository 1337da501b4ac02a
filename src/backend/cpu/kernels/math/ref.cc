#include "backend/cpu/kernels/math/ref.h"

#include "backend/cpu/kernels/math/math.h"

namespace kvasir::backend::cpu {
namespace ref {

void ExpArray(const float* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = Exp(in[i]);
}

void TanhArray(const float* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = Tanh(in[i]);
}

}  // namespace ref

ArrayFunction ExpArray(Level level) {
  switch (level) {
    case Level::kRef:
      return ref::ExpArray;
    case Level::kAvx2:
      return avx2::ExpArray;
    case Level::kAvx512:
      return avx512::ExpArray;
  }
  return ref::ExpArray;
}

ArrayFunction TanhArray(Level level) {
  switch (level) {
    case Level::kRef:
      return ref::TanhArray;
    case Level::kAvx2:
      return avx2::TanhArray;
    case Level::kAvx512:
      return avx512::TanhArray;
  }
  return ref::TanhArray;
}

}  // namespace kvasir::backend::cpu
