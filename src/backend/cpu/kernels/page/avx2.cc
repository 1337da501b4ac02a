#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/page/page.h"

namespace kvasir::backend::cpu::avx2 {
namespace {

constexpr int kScaleValues = 32;

// 8 values from x + d on as f16; fewer at the end (dim is a multiple of 4).
__m128i Halves(const float* x, int d, int dim) {
  const __m256 values = d + 8 <= dim ? _mm256_loadu_ps(x + d) : _mm256_castps128_ps256(_mm_loadu_ps(x + d));
  return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
}

// Codes of a block of 32 values, and their scale.
void Quantize(const float* x, int8_t* codes, uint16_t* scale) {
  __m256 top = _mm256_setzero_ps();
  __m256 v[4];
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + i * 8);
    top = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v[i]), top);
  }
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  const float largest = _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
  *scale = static_cast<uint16_t>(
      _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(largest / 127.0f), _MM_FROUND_TO_NEAREST_INT), 0));
  const __m256 inverse = _mm256_set1_ps(largest > 0 ? 127.0f / largest : 0.0f);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    const __m256 capped = _mm256_min_ps(_mm256_mul_ps(v[i], inverse), _mm256_set1_ps(127));
    q[i] = _mm256_cvtps_epi32(_mm256_max_ps(capped, _mm256_set1_ps(-127)));
  }
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i ordered = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), ordered);
}

// Start of row `row` in a K tile whose 8 positions take `groups` 4-byte groups each.
std::byte* KeyRow(std::byte* codes, int groups, int row) {
  return codes + row / 8 * groups * 32 + row % 8 * 4;
}

}  // namespace

void EncodeKey_kF16(const float* x, int dim, int row, std::byte* codes, std::byte*) {
  std::byte* out = KeyRow(codes, dim / 2, row);
  for (int d = 0; d < dim; d += 8) {
    alignas(16) uint16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves), Halves(x, d, dim));
    for (int i = 0; i < 8 && d + i < dim; i += 2) std::memcpy(out + (d + i) / 2 * 32, halves + i, 4);
  }
}

void EncodeValue_kF16(const float* x, int dim, int row, std::byte* codes, std::byte*) {
  std::byte* out = codes + row / 2 * dim * 4 + row % 2 * 2;
  for (int d = 0; d < dim; d += 8) {
    alignas(16) uint16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves), Halves(x, d, dim));
    for (int i = 0; i < 8 && d + i < dim; ++i) std::memcpy(out + (d + i) * 4, halves + i, 2);
  }
}

void EncodeKey_kQ8_0(const float* x, int dim, int row, std::byte* codes, std::byte* scales) {
  std::byte* out = KeyRow(codes, dim / 4, row);
  uint16_t* scale = reinterpret_cast<uint16_t*>(scales) + row;
  for (int d = 0; d < dim; d += kScaleValues, scale += kBlockTokens) {
    alignas(32) int8_t block[kScaleValues];
    Quantize(x + d, block, scale);
    for (int i = 0; i < kScaleValues; i += 4) std::memcpy(out + (d + i) / 4 * 32, block + i, 4);
  }
}

void EncodeValue_kQ8_0(const float* x, int dim, int row, std::byte* codes, std::byte* scales) {
  std::byte* out = codes + row / 4 * dim * 4 + row % 4;
  uint16_t* scale = reinterpret_cast<uint16_t*>(scales) + row;
  for (int d = 0; d < dim; d += kScaleValues, scale += kBlockTokens) {
    alignas(32) int8_t block[kScaleValues];
    Quantize(x + d, block, scale);
    for (int i = 0; i < kScaleValues; ++i) std::memcpy(out + (d + i) * 4, block + i, 1);
  }
}

}  // namespace kvasir::backend::cpu::avx2
