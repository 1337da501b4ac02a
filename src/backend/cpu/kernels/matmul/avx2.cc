#include <immintrin.h>

#include <utility>

#include "backend/cpu/kernels/matmul/matmul.h"

namespace kvasir::backend::cpu::avx2 {
namespace {

// Codebooks plus their offset, as every unsigned code.
alignas(16) constexpr uint8_t kNonLinearTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                     129, 141, 153, 166, 181, 197, 217, 241};
alignas(16) constexpr uint8_t kE2M1Table[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

struct Isa {
  static constexpr int kLanes = 8;
  static constexpr int kQuantColumns = 6;
  static constexpr int kFloatColumns = 3;
  static constexpr bool kHasAmx = false;
  using F = __m256;
  using I = __m256i;

  static void Prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
  static F Zero() { return _mm256_setzero_ps(); }
  static F Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, F a) { _mm256_storeu_ps(p, a); }
  static F Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static F BroadcastInt(const int32_t* p) { return _mm256_cvtepi32_ps(_mm256_set1_epi32(*p)); }
  static F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F Fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }

  static __m128i Load8(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
  static __m128i Load16(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static F LoadFloats(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static F LoadHalves(const std::byte* p) { return _mm256_cvtph_ps(Load16(p)); }
  static F LoadBFloats(const std::byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load16(p)), 16));
  }
  static F LoadSigned(const std::byte* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(Load8(p))); }
  static F LoadLowNibbles(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_cvtepu8_epi32(Load8(p)), _mm256_set1_epi32(15)));
  }
  static F LoadHighNibbles(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_cvtepu8_epi32(Load8(p)), 4));
  }
  // 2^(e - 128): below 2 a subnormal.
  static F LoadExponents(const std::byte* p) {
    const I e = _mm256_cvtepu8_epi32(Load8(p));
    const I normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const I subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
  }

  static I LoadCodes(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void StoreCodes(std::byte* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
  static I SubtractBytes(I a, int value) { return _mm256_sub_epi8(a, _mm256_set1_epi8(static_cast<char>(value))); }
  template <int kShift>
  static I ShiftRight(I a) {
    if constexpr (kShift > 0) return _mm256_srli_epi16(a, kShift);
    if constexpr (kShift < 0) return _mm256_slli_epi16(a, -kShift);
    return a;
  }
  template <int kShift, int kMask>
  static I Field(I a) {
    return _mm256_and_si256(ShiftRight<kShift>(a), _mm256_set1_epi8(kMask));
  }
  template <int kShift, int kMask>
  static I OrField(I code, I plane) {
    return _mm256_or_si256(code, Field<kShift, kMask>(plane));
  }
  static I Lookup(const uint8_t* table, I nibbles) {
    const __m128i entries = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), nibbles);
  }

  static I BroadcastFour(const std::byte* x) {
    int32_t four;
    __builtin_memcpy(&four, x, 4);
    return _mm256_set1_epi32(four);
  }

  // The exact dot of kGroups x 4 codes of each lane with one column, as f32. `minus` points to minus the sum of x.
  //
  // maddubs adds two products into an int16. With |x| <= 127, sums of 8, 4 or 2 of them still fit for codes of 4, 5 or
  // 6 bits, which saves widening. Codes of 8 bits go in as magnitudes, their signs on x: 128 * 127 * 2 fits.
  template <int kBits, int kOffsetLog2, int kGroups>
  static F Dot(const I* codes, const std::byte* x, const int32_t* minus) {
    const I ones = _mm256_set1_epi16(1);
    if constexpr (kBits == 8) {
      static_assert(kOffsetLog2 == 7);
      I dot = _mm256_setzero_si256();
      for (int g = 0; g < kGroups; ++g) {
        const I code = _mm256_xor_si256(codes[g], _mm256_set1_epi8(-128));
        const I pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(BroadcastFour(x + 4 * g), code));
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, ones));
      }
      return _mm256_cvtepi32_ps(dot);
    } else {
      constexpr int kFit = kBits <= 4 ? 8 : kBits == 5 ? 4 : 2;
      constexpr int kRun = kFit < kGroups ? kFit : kGroups;
      I dot = kOffsetLog2 == 0 ? _mm256_setzero_si256() : _mm256_slli_epi32(_mm256_set1_epi32(*minus), kOffsetLog2);
      for (int run = 0; run < kGroups; run += kRun) {
        I pairs = _mm256_maddubs_epi16(codes[run], BroadcastFour(x + 4 * run));
        for (int g = run + 1; g < run + kRun; ++g) {
          pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(codes[g], BroadcastFour(x + 4 * g)));
        }
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, ones));
      }
      return _mm256_cvtepi32_ps(dot);
    }
  }
};

}  // namespace

#include "backend/cpu/kernels/matmul/tile.inc"

const MatMulKernels kMatMulKernels = kTable;

}  // namespace kvasir::backend::cpu::avx2
