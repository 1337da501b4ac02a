// The expanded tiles of matmul.h on AMX: one instruction multiplies the codes of 16 columns with those of 16 rows,
// exactly, so the bits are those of the vpdpbusd tiles. A block of an expanded panel already is a tile (8 groups of [16
// rows][4 codes]), and so is a block of a packed tile of 16 columns ([16][32 codes]).
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/kernels/matmul/matmul.h"

namespace kvasir::backend::cpu::avx512 {
namespace {

constexpr int kLanes = 16;

constexpr int kAhead = 4;  // products in flight

// Sums in tiles 0..3, columns in 4 and 5, weights in 6 and 7: neighbouring products share no register.
template <int kSub>
struct TileShapes {
  alignas(64) uint8_t bytes[64] = {};
  TileShapes() {
    bytes[0] = 1;  // palette
    for (int tile = 0; tile < 8; ++tile) {
      bytes[16 + 2 * tile] = tile == 4 || tile == 5 ? kSub : 4 * kLanes;
      bytes[48 + tile] = tile < 6 ? kAmxColumns : kSub / 4;
    }
  }
};

// Registers are named by constants.
#define KVASIR_MULTIPLY(sum, column, weight) \
  _tile_zero(sum);                           \
  _tile_loadd(column, x, 32);                \
  _tile_loadd(weight, weights, 4 * kLanes);  \
  _tile_dpbssd(sum, column, weight);         \
  _tile_stored(sum, sums, 4 * kLanes);       \
  return

// sums [16 columns][16 rows] = x [16][kSub] times weights [kSub / 4][16 rows][4].
inline void Multiply(int slot, const std::byte* x, const std::byte* weights, int32_t* sums) {
  switch (slot) {
    case 0:
      KVASIR_MULTIPLY(0, 4, 6);
    case 1:
      KVASIR_MULTIPLY(1, 5, 7);
    case 2:
      KVASIR_MULTIPLY(2, 4, 6);
    default:
      KVASIR_MULTIPLY(3, 5, 7);
  }
}
#undef KVASIR_MULTIPLY

// A panel's segment as a list of steps: one (half) block each.
template <int kSub, bool kMin>
struct Steps {
  static constexpr PanelSpec kSpec = {
      8, 0, kSub, ScaleKind::kFloat, kMin ? MinKind::kFloat : MinKind::kNone, 0, Codebook::kNone, 8};
  static constexpr int kSubs = 32 / kSub;
  const std::byte* weights;
  int blocks;

  const std::byte* group(int step) const {
    return weights + step / (kGroupBlocks * kSubs) * kSpec.group_bytes(kLanes, kGroupBlocks);
  }
  // Blocks of the step's group.
  int count(int step) const {
    const int rest = blocks - step / (kGroupBlocks * kSubs) * kGroupBlocks;
    return rest < kGroupBlocks ? rest : kGroupBlocks;
  }
  const float* scale(int step) const {
    return reinterpret_cast<const float*>(group(step)) + step % (kGroupBlocks * kSubs) * kLanes;
  }
  const float* min(int step) const { return scale(step) + count(step) * kSubs * kLanes; }
  const std::byte* codes(int step) const {
    return group(step) + count(step) * (kSpec.scale_bytes(kLanes) + kSpec.min_bytes(kLanes)) +
           step % (kGroupBlocks * kSubs) * kSub * kLanes;
  }
};

template <int kSub, bool kMin>
void AmxTile(const std::byte* weights, int64_t panel_bytes, int panels, int blocks, const std::byte* x, int columns,
             float* out, int64_t stride) {
  using PanelSteps = Steps<kSub, kMin>;
  constexpr int kSubs = PanelSteps::kSubs;
  const TileShapes<kSub> shapes;
  _tile_loadconfig(shapes.bytes);
  // Products are stored kAhead steps before they are read: a register's load waits for a tile's store to leave the
  // core's queue.
  alignas(64) int32_t sums[2 * kAhead][kAmxColumns * kLanes];
  const int steps = blocks * kSubs;
  for (int panel = 0; panel < panels; ++panel) {
    const PanelSteps at = {weights + panel * panel_bytes, blocks};
    const auto column_block = [&](int step) { return x + int64_t{step / kSubs} * kAmxColumns * kPackedBytes; };
    const auto multiply = [&](int step) __attribute__((always_inline)) {
      Multiply(step % kAhead, column_block(step) + step % kSubs * kSub, at.codes(step), sums[step % (2 * kAhead)]);
    };
    __m512 total[kAmxColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kAmxColumns; ++c) total[c] = _mm512_setzero_ps();
    for (int step = 0; step < kAhead && step < steps; ++step) multiply(step);
    for (int step = 0; step < steps; ++step) {
      if (step + kAhead < steps) multiply(step + kAhead);

      const int32_t* dots = sums[step % (2 * kAhead)];
      const auto* x_scale = reinterpret_cast<const float*>(column_block(step) + kAmxColumns * 32);
      const float* x_sum = x_scale + kAmxColumns;
      const auto* x_minus = reinterpret_cast<const int32_t*>(x_sum + kAmxColumns) + (1 + step % kSubs) * kAmxColumns;
      const __m512 scale = _mm512_loadu_ps(at.scale(step));
      const __m512 min = kMin ? _mm512_loadu_ps(at.min(step)) : scale;
#pragma GCC unroll 16
      for (int c = 0; c < kAmxColumns; ++c) {
        const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots + c * kLanes));
        const __m512 column_scale = _mm512_set1_ps(x_scale[c]);
        total[c] = _mm512_fmadd_ps(dot, _mm512_mul_ps(scale, column_scale), total[c]);
        if constexpr (kMin && kSubs == 1) total[c] = _mm512_fmadd_ps(min, _mm512_set1_ps(x_sum[c]), total[c]);
        if constexpr (kMin && kSubs == 2) {
          const __m512 minus_sum = _mm512_mul_ps(column_scale, _mm512_cvtepi32_ps(_mm512_set1_epi32(x_minus[c])));
          total[c] = _mm512_fnmadd_ps(min, minus_sum, total[c]);
        }
      }
    }
#pragma GCC unroll 16
    for (int c = 0; c < kAmxColumns; ++c) {
      if (c < columns) {
        float* to = out + c * stride + panel * kLanes;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), total[c]));
      }
    }
  }
  _tile_release();
}

// Linux hands out the 8 KiB of tile state on request only.
bool HasAmx() {
  if (!__builtin_cpu_supports("avx512vnni")) return false;
  uint32_t eax = 7, ebx = 0, ecx = 0, edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  constexpr uint32_t kTile = 1u << 24, kInt8 = 1u << 25;
  if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

MatMulKernels KernelsOfThisCpu() {
  MatMulKernels kernels = kMatMulKernels;
  if (!HasAmx()) return kernels;
  kernels.amx[0][0] = AmxTile<32, false>;
  kernels.amx[0][1] = AmxTile<32, true>;
  kernels.amx[1][0] = AmxTile<16, false>;
  kernels.amx[1][1] = AmxTile<16, true>;
  return kernels;
}

}  // namespace kvasir::backend::cpu::avx512
