#include "backend/cpu/kernels/math/avx512.h"

#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/attend/attend.h"
#include "backend/cpu/kernels/math/avx2.h"

namespace kvasir::backend::cpu::avx512 {
namespace {

#include "backend/cpu/kernels/attend/vector256.inc"

struct Vector512 {
  using Float = __m512;
  static constexpr int kLanes = 16;
  static Float Zero() { return _mm512_setzero_ps(); }
  static Float Set(float x) { return _mm512_set1_ps(x); }
  static Float Load(const float* at) { return _mm512_loadu_ps(at); }
  static void Store(float* at, Float x) { _mm512_storeu_ps(at, x); }
  static Float LoadHalf(const float* at) { return _mm512_zextps256_ps512(_mm256_loadu_ps(at)); }
  static void StoreHalf(float* at, Float x) { _mm256_storeu_ps(at, _mm512_castps512_ps256(x)); }
  static Float Add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float Sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static Float Mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float Div(Float a, Float b) { return _mm512_div_ps(a, b); }
  static Float Fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static Float Max(Float a, Float b) { return _mm512_max_ps(a, b); }
  static Float Abs(Float a) { return _mm512_abs_ps(a); }
  static Float Exp(Float a) { return avx512::Exp(a); }
  static Float Tanh(Float a) { return avx512::Tanh(a); }

  static float ReduceMax(Float a) {
    return Vector256::ReduceMax(Vector256::Max(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
  }
  template <__m256 (*kOp)(__m256, __m256)>
  static __m256 ReduceEach(const Float (&v)[8]) {
    __m256 halves[8];
    for (int i = 0; i < 8; ++i) halves[i] = kOp(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
    return Vector256::ReduceEach<kOp>(halves);
  }
  static __m256 ReduceMaxEach(const Float (&v)[8]) { return ReduceEach<Vector256::Max>(v); }
  static __m256 ReduceAddEach(const Float (&v)[8]) { return ReduceEach<Vector256::Add>(v); }
  static Float AddPairs(Float a, Float b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_add_ps(_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b));
  }
  static Float Between(Float a, int first, int begin, int end) {
    const uint64_t inside = ((uint64_t{1} << end) - 1) & ~((uint64_t{1} << begin) - 1);
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), static_cast<__mmask16>(inside >> first), a);
  }
  static Float LoadHalves(const std::byte* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static Float LoadHalvesTwice(const std::byte* at) {
    const __m512 eight = _mm512_castps256_ps512(Vector256::LoadHalves(at));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), eight);
  }
  static void StoreRounded(const float* a, const float* b, int16_t* out) {
    for (int i = 0; i < kBlockTokens; i += 16) {
      const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(Load(a + i), Load(b + i)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtsepi32_epi16(codes));
    }
  }
};

using Wide = Vector512;
constexpr int kMaxQueries = 8;

struct F16 {
  using Vector = Vector512;
  using Operand = float;
  using Sum = __m512;
  static constexpr bool kScaled = false;
  static constexpr int kGroupValues = 2;
  static constexpr int kLanesPerGroup = 2;
  static constexpr int kGroups = 8;
  static Sum Zero() { return _mm512_setzero_ps(); }
  static Sum Load(const std::byte* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static Sum LoadHalf(const std::byte* at) { return _mm512_zextps256_ps512(Vector256::LoadHalves(at)); }
  static Sum Broadcast(const float* pair) {
    double both;
    std::memcpy(&both, pair, sizeof(both));
    return _mm512_castpd_ps(_mm512_set1_pd(both));
  }
  static Sum MulAdd(Sum group, Sum codes, Sum sum) { return _mm512_fmadd_ps(group, codes, sum); }
  static __m512 ToFloat(Sum sum) { return sum; }
};

struct Q8 {
  using Vector = Vector512;
  using Operand = int16_t;
  using Sum = __m512i;
  static constexpr bool kScaled = true;
  static constexpr int kGroupValues = 4;
  static constexpr int kLanesPerGroup = 2;
  static constexpr int kGroups = 8;
  static Sum Zero() { return _mm512_setzero_si512(); }
  static Sum Load(const std::byte* at) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static Sum LoadHalf(const std::byte* at) {
    return _mm512_cvtepi8_epi16(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
  }
  static Sum Broadcast(const int16_t* four) {
    int64_t all;
    std::memcpy(&all, four, sizeof(all));
    return _mm512_set1_epi64(all);
  }
  static Sum MulAdd(Sum group, Sum codes, Sum sum) { return _mm512_dpwssd_epi32(sum, group, codes); }
  static __m512 ToFloat(Sum sum) { return _mm512_cvtepi32_ps(sum); }
};

// 32 registers hold the sums of all queries (twice for scaled scores), the codes and one broadcast.
template <typename Format>
constexpr int Registers(int queries) {
  return queries > (Format::kScaled ? 3 : 4) ? 2 : 4;
}

#include "backend/cpu/kernels/attend/tile.inc"

}  // namespace

#define KVASIR_ATTEND_AVX512(k, v, K, V)        \
  void Attend_##k##_##v(const SpanTask& task) { \
    Attend<K, V>(task);                         \
  }
KVASIR_ATTEND_AVX512(kF32, kF32, F32, F32)
KVASIR_ATTEND_AVX512(kF32, kF16, F32, F16)
KVASIR_ATTEND_AVX512(kF32, kQ8_0, F32, Q8)
KVASIR_ATTEND_AVX512(kF16, kF32, F16, F32)
KVASIR_ATTEND_AVX512(kF16, kF16, F16, F16)
KVASIR_ATTEND_AVX512(kF16, kQ8_0, F16, Q8)
KVASIR_ATTEND_AVX512(kQ8_0, kF32, Q8, F32)
KVASIR_ATTEND_AVX512(kQ8_0, kF16, Q8, F16)
KVASIR_ATTEND_AVX512(kQ8_0, kQ8_0, Q8, Q8)
#undef KVASIR_ATTEND_AVX512

}  // namespace kvasir::backend::cpu::avx512
