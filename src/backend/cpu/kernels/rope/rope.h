// backend/cpu/kernels/rope/rope.h
// Norm, rotation and scale of the heads of one token.
//
//   x      <- x / sqrt(mean(x^2) + eps) * norm             when norm is given
//   (a, b) <- (a cos_i - b sin_i, a sin_i + b cos_i)       for pair i of the first n_rot values
//   x      <- x * scale
// kNormal pairs are (2i, 2i + 1), kNeox pairs (i, i + n_rot / 2).
//
// Thread rule: pure functions.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/level.h"

namespace kvasir::backend::cpu {

struct Rotation {
  int dim = 0;
  const float* norm = nullptr;  // [dim] or null
  float eps = 0;
  RopeKind rope = RopeKind::kNone;
  int n_rot = 0;
  const float* cos_sin = nullptr;  // [n_rot / 2, 2] of this token
  float scale = 1;
};

// heads: [count, dim], in place.
using RotateFunction = void (*)(const Rotation& rotation, float* heads, int count);

RotateFunction Rotate(Level level);

#define KVASIR_ROTATE(level, isa)                                 \
  namespace isa {                                                 \
  void Rotate(const Rotation& rotation, float* heads, int count); \
  }
#include "backend/cpu/kernels/rope/kernels.inc"
#undef KVASIR_ROTATE

}  // namespace kvasir::backend::cpu
