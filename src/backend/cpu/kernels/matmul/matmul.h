// backend/cpu/kernels/matmul/matmul.h
// The inner kernels of matrix products, for one level each. Columns are rows of activations; lanes are rows of weights.
//
// Quantized tile: for each column c and lane r, over the blocks b of one segment of K, in order, and the sub-blocks s
// of a block:
//   sum = fma(f32(dot of the codes, an exact integer), scale(w) * scale(x), sum);  with minima: sum = fma(min(w),
//   sum(x), sum)
// then out[c][r] += sum. Where sub-blocks are halves with minima, sum(x) is scale(x) * f32(the half's code sum).
// Float tile: sum = fma(w[k][r], x[c][k], sum) over one segment, then out[c][r] += sum.
// A column's bits depend neither on the tile's width nor on its neighbours, and all levels agree.
//
// A CPU with AMX runs the expanded tiles of `avx512` on it: the integers are the same, so the bits are.
//
// What it does not do: loop over segments and tiles, or spread them over threads (backend/cpu/products.h).
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/matmul/panel.h"

namespace kvasir::backend::cpu {

constexpr int kMaxColumns = 8;
constexpr int kDirectColumns = 4;  // up to so many columns read the packed form directly; more expand a segment first
constexpr int kAmxColumns = 16;

// weights: `blocks` blocks from the start of a group; x: the packed tile; out: [columns] at `stride` floats, [lanes]
// each.
using QuantTile = void (*)(const std::byte* weights, int blocks, const std::byte* x, float* out, int64_t stride);
// Rewrites `blocks` blocks into the expanded form.
using ExpandSegment = void (*)(const std::byte* weights, int blocks, std::byte* out);
// A tile of `columns` columns times `panels` expanded segments, `panel_bytes` apart; out: [columns] at `stride`,
// [panels][lanes].
using ExpandedTile = void (*)(const std::byte* weights, int64_t panel_bytes, int panels, int blocks, const std::byte* x,
                              int columns, float* out, int64_t stride);
// weights: [count][kFloatRows]; x: [count][columns].
using FloatTile = void (*)(const std::byte* weights, int count, const float* x, float* out, int64_t stride);

struct QuantKernels {
  PanelSpec spec;
  QuantTile direct[kDirectColumns];  // by columns - 1
  ExpandSegment expand;
  ExpandedTile expanded;
  ExpandSegment expand_signed;  // for AMX: the offset taken off the codes; null but for avx512
};

struct FloatKernels {
  FloatTile tile[kMaxColumns];  // by columns - 1; null above the level's widest
};

struct MatMulKernels {
  int lanes;
  int quant_columns;          // the widest expanded tile
  int float_columns;          // the widest float tile
  const QuantKernels* quant;  // in the order of kernels.inc
  FloatKernels f32, f16, bf16;
  // Fills a packed tile of `slots` columns; those from `columns` on are zero. Scales and sums have cols / 32 entries a
  // row.
  void (*pack)(const int8_t* codes, const float* scales, const float* sums, int cols, int columns, int slots,
               std::byte* out);
  // Null without AMX; otherwise the expanded tiles, by [values per scale == 16][has minima], for tiles of kAmxColumns
  // slots.
  ExpandedTile amx[2][2] = {};
};

namespace ref {
extern const MatMulKernels kMatMulKernels;
}
namespace avx2 {
extern const MatMulKernels kMatMulKernels;
}
namespace avx512 {
extern const MatMulKernels kMatMulKernels;
// With AMX where the CPU and the operating system let this process use it.
MatMulKernels KernelsOfThisCpu();
}  // namespace avx512

}  // namespace kvasir::backend::cpu
