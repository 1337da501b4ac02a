#include "backend/cpu/kernels/math/avx2.h"

#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/attend/attend.h"

namespace kvasir::backend::cpu::avx2 {
namespace {

#include "backend/cpu/kernels/attend/vector256.inc"

using Wide = Vector256;
constexpr int kMaxQueries = 6;

struct F16 {
  using Vector = Vector256;
  using Operand = float;
  using Sum = __m256;
  static constexpr bool kScaled = false;
  static constexpr int kGroupValues = 2;
  static constexpr int kLanesPerGroup = 2;
  static constexpr int kGroups = 4;
  static Sum Zero() { return _mm256_setzero_ps(); }
  static Sum Load(const std::byte* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Sum LoadHalf(const std::byte* at) { return Load(at); }
  static Sum Broadcast(const float* pair) {
    double both;
    std::memcpy(&both, pair, sizeof(both));
    return _mm256_castpd_ps(_mm256_set1_pd(both));
  }
  static Sum MulAdd(Sum group, Sum codes, Sum sum) { return _mm256_fmadd_ps(group, codes, sum); }
  static __m256 ToFloat(Sum sum) { return sum; }
};

struct Q8 {
  using Vector = Vector256;
  using Operand = int16_t;
  using Sum = __m256i;
  static constexpr bool kScaled = true;
  static constexpr int kGroupValues = 4;
  static constexpr int kLanesPerGroup = 2;
  static constexpr int kGroups = 4;
  static Sum Zero() { return _mm256_setzero_si256(); }
  static Sum Load(const std::byte* at) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Sum LoadHalf(const std::byte* at) { return Load(at); }
  static Sum Broadcast(const int16_t* four) {
    int64_t all;
    std::memcpy(&all, four, sizeof(all));
    return _mm256_set1_epi64x(all);
  }
  static Sum MulAdd(Sum group, Sum codes, Sum sum) { return _mm256_add_epi32(sum, _mm256_madd_epi16(group, codes)); }
  static __m256 ToFloat(Sum sum) { return _mm256_cvtepi32_ps(sum); }
};

// 16 registers hold the sums of all queries (twice for scaled scores), the codes and one broadcast.
template <typename Format>
constexpr int Registers(int queries) {
  if (Format::kScaled) return queries > 3 ? 1 : 2;
  return queries > 3 ? 2 : 4;
}

#include "backend/cpu/kernels/attend/tile.inc"

}  // namespace

#define KVASIR_ATTEND_AVX2(k, v, K, V)          \
  void Attend_##k##_##v(const SpanTask& task) { \
    Attend<K, V>(task);                         \
  }
KVASIR_ATTEND_AVX2(kF32, kF32, F32, F32)
KVASIR_ATTEND_AVX2(kF32, kF16, F32, F16)
KVASIR_ATTEND_AVX2(kF32, kQ8_0, F32, Q8)
KVASIR_ATTEND_AVX2(kF16, kF32, F16, F32)
KVASIR_ATTEND_AVX2(kF16, kF16, F16, F16)
KVASIR_ATTEND_AVX2(kF16, kQ8_0, F16, Q8)
KVASIR_ATTEND_AVX2(kQ8_0, kF32, Q8, F32)
KVASIR_ATTEND_AVX2(kQ8_0, kF16, Q8, F16)
KVASIR_ATTEND_AVX2(kQ8_0, kQ8_0, Q8, Q8)
#undef KVASIR_ATTEND_AVX2

}  // namespace kvasir::backend::cpu::avx2
