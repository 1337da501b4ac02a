// backend/cpu/kernels/matmul/panel.h
// How the CPU keeps weights: panels of interleaved rows, so that the lanes of a register are rows.
//
// A quantized panel is `lanes` rows (8 for ref and avx2, 16 for avx512; missing rows are zero), cut along K into blocks
// of 32 values; eight blocks (the last time fewer) make a group, and a group is
//
//   d      [lanes] f16                                      only with super scales
//   dmin   [lanes] f16, negated                             only with super minima
//   scales [blocks][lanes f16 | 32/sub x lanes f32 | lanes u8 | 32/sub x lanes i8 (or two nibbles)]
//   minima [blocks][lanes f16 |                               32/sub x lanes u8]
//   codes  [blocks][low plane, then high plane]
//
// A plane of b bits is b vectors of 4 bytes per row: the four values k = 4g .. 4g+3 of a row (group g, 0..7) are the
// bits [b * (g / b), ...) of the four bytes of its lane in vector g % b. So 4-bit codes: vector v holds groups v (low
// nibbles) and v + 4. Example: Q4_K, 16 lanes: a group is 32 + 32 + 8 * 16 + 8 * 16 + 8 * 256 = 2368 bytes for 16 x 256
// weights, 4.625 bits each.
//
// A float panel is kFloatRows rows: [k][kFloatRows] of f32, f16 or bf16.
//
// Kernels of one level include this header, so it holds plain types and constexpr arithmetic only.
//
// Thread rule: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvasir::backend::cpu {

// f16, f32, power of two; f16 x integer, where kNibbles has 4-bit integers: the scale's in the low half of a byte, the
// minimum's in the high half.
enum class ScaleKind : uint8_t { kHalf, kFloat, kExponent, kSuper, kNibbles };
enum class MinKind : uint8_t { kNone, kHalf, kFloat, kSuper, kNibbles };
enum class Codebook : uint8_t { kNone, kNonLinear, kE2M1 };  // IQ4; MXFP4

struct PanelSpec {
  int low_bits;   // 2, 4 or 8
  int high_bits;  // 0, 1 or 2
  int sub;        // values under one scale: 16 or 32
  ScaleKind scale;
  MinKind min;
  int offset_log2;  // kernels multiply code + 2^offset_log2, unsigned, and take the offset back; 0: nothing to take
                    // back
  Codebook codebook;
  int expanded_bits = 0;  // of Expanded(): the range of the codes it was made from

  constexpr int bits() const { return low_bits + high_bits; }
  constexpr int subs() const { return 32 / sub; }
  constexpr bool has_min() const { return min != MinKind::kNone; }
  constexpr bool super_scale() const { return scale == ScaleKind::kSuper || scale == ScaleKind::kNibbles; }
  constexpr bool super_min() const { return min == MinKind::kSuper || min == MinKind::kNibbles; }
  constexpr int offset() const { return offset_log2 == 0 ? 0 : 1 << offset_log2; }
  // The largest unsigned code that a kernel multiplies, in bits.
  constexpr int code_bits() const {
    return expanded_bits != 0 ? expanded_bits : codebook == Codebook::kNone ? bits() : offset_log2 + 1;
  }

  constexpr int head_bytes(int lanes) const { return (super_scale() ? 2 * lanes : 0) + (super_min() ? 2 * lanes : 0); }
  constexpr int scale_bytes(int lanes) const {
    switch (scale) {
      case ScaleKind::kHalf:
        return 2 * lanes;
      case ScaleKind::kFloat:
        return 4 * lanes * subs();
      case ScaleKind::kExponent:
        return lanes;
      case ScaleKind::kSuper:
      case ScaleKind::kNibbles:
        return lanes * subs();
    }
    return 0;
  }
  constexpr int min_bytes(int lanes) const {
    switch (min) {
      case MinKind::kNone:
      case MinKind::kNibbles:
        return 0;
      case MinKind::kHalf:
        return 2 * lanes;
      case MinKind::kFloat:
        return 4 * lanes * subs();
      case MinKind::kSuper:
        return lanes * subs();
    }
    return 0;
  }
  constexpr int code_bytes(int lanes) const { return 4 * bits() * lanes; }
  constexpr int64_t group_bytes(int lanes, int blocks) const {
    return head_bytes(lanes) + int64_t{blocks} * (scale_bytes(lanes) + min_bytes(lanes) + code_bytes(lanes));
  }
  // `blocks` consecutive blocks that start at a group.
  constexpr int64_t bytes(int lanes, int64_t blocks) const {
    return blocks / 8 * group_bytes(lanes, 8) +
           (blocks % 8 != 0 ? group_bytes(lanes, static_cast<int>(blocks % 8)) : 0);
  }
};

#define KVASIR_QUANT_PANEL(name, low, high, sub, scale, min, offset, codebook) \
  constexpr PanelSpec k##name##Panel = {low, high, sub, ScaleKind::scale, MinKind::min, offset, Codebook::codebook};
#include "backend/cpu/kernels/matmul/kernels.inc"
#undef KVASIR_QUANT_PANEL

// What GEMM reads: a stretch of a panel with every code a byte and every scale an f32. Codes keep their range, because
// narrow codes multiply faster without VNNI.
constexpr PanelSpec Expanded(const PanelSpec& spec) {
  return {8,
          0,
          spec.sub,
          ScaleKind::kFloat,
          spec.has_min() ? MinKind::kFloat : MinKind::kNone,
          spec.offset_log2,
          Codebook::kNone,
          spec.code_bits()};
}

enum class FloatKind : uint8_t { kF32, kF16, kBF16 };
constexpr int kFloatRows = 32;

constexpr int kNonLinearCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int kE2M1Codes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

constexpr int kBlock = 32;
constexpr int kGroupBlocks = 8;
constexpr int kSegment = 1024;  // K is reduced in segments of this many values (docs/numerics.md, rule 1)
constexpr int kSegmentBlocks = kSegment / kBlock;

// Columns (rows of activations) are packed side by side for a tile of `columns` of them: for each block of 32 values
//   codes [columns][32] i8, scales [columns] f32, sums [columns] f32 (scale x sum of codes),
//   minus the sum of the codes [columns] i32, the same of the first 16 and of the last 16 values [columns] i32 each.
constexpr int kPackedBytes = 32 + 5 * 4;  // per column and block

}  // namespace kvasir::backend::cpu
