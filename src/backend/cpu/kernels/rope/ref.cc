#include <cmath>

#include "backend/cpu/kernels/rope/rope.h"

namespace kvasir::backend::cpu::ref {
namespace {

void NormHead(const Rotation& rotation, float* x) {
  float sum = 0;
  for (int d = 0; d < rotation.dim; ++d) sum += x[d] * x[d];
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(rotation.dim) + rotation.eps);
  for (int d = 0; d < rotation.dim; ++d) x[d] = x[d] * inverse * rotation.norm[d];
}

void RotateHead(const Rotation& rotation, float* x) {
  const int pairs = rotation.n_rot / 2;
  const int second = rotation.rope == RopeKind::kNormal ? 1 : pairs;
  const int step = rotation.rope == RopeKind::kNormal ? 2 : 1;
  for (int i = 0; i < pairs; ++i) {
    const float cos = rotation.cos_sin[2 * i];
    const float sin = rotation.cos_sin[2 * i + 1];
    const float a = x[i * step];
    const float b = x[i * step + second];
    x[i * step] = a * cos - b * sin;
    x[i * step + second] = a * sin + b * cos;
  }
}

}  // namespace

void Rotate(const Rotation& rotation, float* heads, int count) {
  for (int head = 0; head < count; ++head) {
    float* x = heads + head * rotation.dim;
    if (rotation.norm != nullptr) NormHead(rotation, x);
    if (rotation.rope != RopeKind::kNone) RotateHead(rotation, x);
    if (rotation.scale != 1) {
      for (int d = 0; d < rotation.dim; ++d) x[d] *= rotation.scale;
    }
  }
}

}  // namespace kvasir::backend::cpu::ref
