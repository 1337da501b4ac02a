#include <immintrin.h>

#include "backend/cpu/kernels/rope/rope.h"

namespace kvasir::backend::cpu::avx2 {
namespace {

float Sum(__m256 a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

void NormHead(const Rotation& rotation, float* x) {
  __m256 squares = _mm256_setzero_ps();
  int d = 0;
  for (; d + 8 <= rotation.dim; d += 8) {
    const __m256 v = _mm256_loadu_ps(x + d);
    squares = _mm256_fmadd_ps(v, v, squares);
  }
  float sum = Sum(squares);
  for (; d < rotation.dim; ++d) sum += x[d] * x[d];
  const float inverse = 1.0f / __builtin_sqrtf(sum / static_cast<float>(rotation.dim) + rotation.eps);
  for (d = 0; d + 8 <= rotation.dim; d += 8) {
    const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + d), _mm256_set1_ps(inverse));
    _mm256_storeu_ps(x + d, _mm256_mul_ps(v, _mm256_loadu_ps(rotation.norm + d)));
  }
  for (; d < rotation.dim; ++d) x[d] = x[d] * inverse * rotation.norm[d];
}

void RotatePair(const float* cos_sin, float* a, float* b) {
  const float x = *a;
  const float y = *b;
  *a = x * cos_sin[0] - y * cos_sin[1];
  *b = x * cos_sin[1] + y * cos_sin[0];
}

void RotateNormal(const Rotation& rotation, float* x) {
  int d = 0;
  for (; d + 8 <= rotation.n_rot; d += 8) {
    const __m256 pairs = _mm256_loadu_ps(x + d);
    const __m256 cos_sin = _mm256_loadu_ps(rotation.cos_sin + d);
    const __m256 straight = _mm256_mul_ps(pairs, _mm256_moveldup_ps(cos_sin));
    const __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(pairs, 0xB1), _mm256_movehdup_ps(cos_sin));
    _mm256_storeu_ps(x + d, _mm256_addsub_ps(straight, crossed));
  }
  for (; d < rotation.n_rot; d += 2) RotatePair(rotation.cos_sin + d, x + d, x + d + 1);
}

void RotateNeox(const Rotation& rotation, float* x) {
  const int pairs = rotation.n_rot / 2;
  int i = 0;
  for (; i + 8 <= pairs; i += 8) {
    const __m256 low = _mm256_loadu_ps(rotation.cos_sin + 2 * i);
    const __m256 high = _mm256_loadu_ps(rotation.cos_sin + 2 * i + 8);
    const __m256 cos =
        _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88)), 0xD8));
    const __m256 sin =
        _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xDD)), 0xD8));
    const __m256 a = _mm256_loadu_ps(x + i);
    const __m256 b = _mm256_loadu_ps(x + pairs + i);
    _mm256_storeu_ps(x + i, _mm256_sub_ps(_mm256_mul_ps(a, cos), _mm256_mul_ps(b, sin)));
    _mm256_storeu_ps(x + pairs + i, _mm256_add_ps(_mm256_mul_ps(a, sin), _mm256_mul_ps(b, cos)));
  }
  for (; i < pairs; ++i) RotatePair(rotation.cos_sin + 2 * i, x + i, x + pairs + i);
}

}  // namespace

void Rotate(const Rotation& rotation, float* heads, int count) {
  for (int head = 0; head < count; ++head) {
    float* x = heads + head * rotation.dim;
    if (rotation.norm != nullptr) NormHead(rotation, x);
    if (rotation.rope == RopeKind::kNormal) RotateNormal(rotation, x);
    if (rotation.rope == RopeKind::kNeox) RotateNeox(rotation, x);
    if (rotation.scale != 1) {
      for (int d = 0; d < rotation.dim; ++d) x[d] *= rotation.scale;
    }
  }
}

}  // namespace kvasir::backend::cpu::avx2
