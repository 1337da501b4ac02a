// backend/cpu/kernels/rowwise/rowwise.h
// What happens to one row of activations between two matrix products: RMS norm, rounding to 8 bits, gated activation,
// soft cap.
//
//   Norm:     y = x * (1 / sqrt(mean(x^2) + eps)) * weight, and y rounded
//   NormAdd:  residual += that y
//   Glu:      y = act(gate) * up, and y rounded;  silu(g) = g / (1 + e^-g), gelu(g) = g / (1 + e^-2u), u = sqrt(2/pi)(g
//   + 0.044715 g^3) Softcap:  x = cap * tanh(x / cap) Sigmoid:  y = 1 / (1 + e^-x)
// Rounding of 32 values: scale = max|y| / 127, code = y * (127 / max|y|) to nearest even, sum = scale * (sum of the
// codes). Blocks whose largest magnitude is below 1e-30 become zero.
//
// One formula (rowwise.inc) for every level, over 16 lanes with a fixed tree of sums. A row's bits depend on that row
// alone.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace kvasir::backend::cpu {

// One row of backend::Activations. Null codes: only the f32 form is written.
struct RowOut {
  float* f32 = nullptr;
  int8_t* codes = nullptr;  // [cols]
  float* scales = nullptr;  // [cols / 32]
  float* sums = nullptr;    // [cols / 32]
};

struct RowKernels {
  void (*norm)(const float* x, const float* weight, float eps, int cols, const RowOut& out);  // weight null: y = x
  void (*norm_add)(const float* x, const float* weight, float eps, int cols, float* residual);
  void (*glu_silu)(const float* gate, const float* up, int cols, const RowOut& out);
  void (*glu_gelu)(const float* gate, const float* up, int cols, const RowOut& out);
  void (*softcap)(float* x, int cols, float cap);
  void (*sigmoid)(const float* x, int count, float* out);
};

namespace ref {
extern const RowKernels kRowKernels;
}
namespace avx2 {
extern const RowKernels kRowKernels;
}
namespace avx512 {
extern const RowKernels kRowKernels;
}

}  // namespace kvasir::backend::cpu
