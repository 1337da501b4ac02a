// backend/cpu/kernels/math/math.h
// exp and tanh over arrays, one function per level: what tests call, and kernels that are not hot.
//
// Kernels include math/<level>.h and keep values in registers. Each element's result depends on that element alone.
//
// Thread rule: pure functions.
#pragma once

#include "backend/cpu/level.h"

namespace kvasir::backend::cpu {

// out[i] = f(in[i]), i < n. In place is fine.
using ArrayFunction = void (*)(const float* in, float* out, int n);

namespace ref {
void ExpArray(const float* in, float* out, int n);
void TanhArray(const float* in, float* out, int n);
}  // namespace ref
namespace avx2 {
void ExpArray(const float* in, float* out, int n);
void TanhArray(const float* in, float* out, int n);
}  // namespace avx2
namespace avx512 {
void ExpArray(const float* in, float* out, int n);
void TanhArray(const float* in, float* out, int n);
}  // namespace avx512

ArrayFunction ExpArray(Level level);
ArrayFunction TanhArray(Level level);

}  // namespace kvasir::backend::cpu
