#include <immintrin.h>

#include <utility>

#include "backend/cpu/kernels/matmul/matmul.h"

namespace kvasir::backend::cpu::avx512 {
namespace {

// Codebooks plus their offset, as the unsigned operand of vpdpbusd.
alignas(16) constexpr uint8_t kNonLinearTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                     129, 141, 153, 166, 181, 197, 217, 241};
alignas(16) constexpr uint8_t kE2M1Table[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

struct Isa {
  static constexpr int kLanes = 16;
  static constexpr int kQuantColumns = 8;
  static constexpr int kFloatColumns = 8;
  static constexpr bool kHasAmx = true;
  using F = __m512;
  using I = __m512i;

  static void Prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
  static F Zero() { return _mm512_setzero_ps(); }
  static F Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static F Broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static F BroadcastInt(const int32_t* p) { return _mm512_cvtepi32_ps(_mm512_set1_epi32(*p)); }
  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }

  static __m128i Load16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static __m256i Load32(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static F LoadFloats(const std::byte* p) { return _mm512_loadu_ps(p); }
  static F LoadHalves(const std::byte* p) { return _mm512_cvtph_ps(Load32(p)); }
  static F LoadBFloats(const std::byte* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Load32(p)), 16));
  }
  static F LoadSigned(const std::byte* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(Load16(p))); }
  static F LoadLowNibbles(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvtepu8_epi32(Load16(p)), _mm512_set1_epi32(15)));
  }
  static F LoadHighNibbles(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(Load16(p)), 4));
  }
  // 2^(e - 128): below 2 a subnormal.
  static F LoadExponents(const std::byte* p) {
    const I e = _mm512_cvtepu8_epi32(Load16(p));
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const I subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(
        _mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), normal, subnormal));
  }

  static I LoadCodes(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void StoreCodes(std::byte* p, I a) { _mm512_storeu_si512(p, a); }
  static I SubtractBytes(I a, int value) { return _mm512_sub_epi8(a, _mm512_set1_epi8(static_cast<char>(value))); }
  template <int kShift>
  static I ShiftRight(I a) {
    if constexpr (kShift > 0) return _mm512_srli_epi16(a, kShift);
    if constexpr (kShift < 0) return _mm512_slli_epi16(a, -kShift);
    return a;
  }
  template <int kShift, int kMask>
  static I Field(I a) {
    return _mm512_and_si512(ShiftRight<kShift>(a), _mm512_set1_epi8(kMask));
  }
  template <int kShift, int kMask>
  static I OrField(I code, I plane) {
    constexpr int kAndThenOr = 0xF8;  // a | (b & c)
    return _mm512_ternarylogic_epi32(code, ShiftRight<kShift>(plane), _mm512_set1_epi8(kMask), kAndThenOr);
  }
  static I Lookup(const uint8_t* table, I nibbles) {
    const __m128i entries = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), nibbles);
  }

  // The exact dot of kGroups x 4 codes of each lane with one column, as f32. `minus` points to minus the sum of x.
  template <int kBits, int kOffsetLog2, int kGroups>
  static F Dot(const I* codes, const std::byte* x, const int32_t* minus) {
    I dot = kOffsetLog2 == 0 ? _mm512_setzero_si512() : _mm512_slli_epi32(_mm512_set1_epi32(*minus), kOffsetLog2);
    for (int g = 0; g < kGroups; ++g) {
      int32_t four;
      __builtin_memcpy(&four, x + 4 * g, 4);
      dot = _mm512_dpbusd_epi32(dot, codes[g], _mm512_set1_epi32(four));
    }
    return _mm512_cvtepi32_ps(dot);
  }
};

}  // namespace

#include "backend/cpu/kernels/matmul/tile.inc"

const MatMulKernels kMatMulKernels = kTable;

}  // namespace kvasir::backend::cpu::avx512
