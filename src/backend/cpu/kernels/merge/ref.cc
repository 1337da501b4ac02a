#include "backend/cpu/kernels/math/ref.h"

#include <cstring>

#include "backend/cpu/kernels/merge/merge.h"

namespace kvasir::backend::cpu::ref {

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
    const float keep = Exp(m - largest);
    const float add = Exp(next_m - largest);
    for (int c = 0; c < dv; ++c) out[c] = out[c] * keep + o[c] * add;
    l = l * keep + next_l * add;
    m = largest;
  }
  const float inverse = empty ? 0 : 1 / l;
  for (int c = 0; c < dv; ++c) out[c] = empty ? 0 : out[c] * inverse;
}

}  // namespace kvasir::backend::cpu::ref
