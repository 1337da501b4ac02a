// backend/cpu/kernels/attend/attend.h
// Attention of some query rows of one KV head over one span: a partial per (row, query head).
//
// A span's accumulator starts empty. Its tiles (one page, 32 keys) are taken in position order with online softmax:
//   s_j = softcap(q . k_j);  m' = max(m, max_j s_j);  O = O e^(m - m') + sum_j e^(s_j - m') v_j;  l likewise
// Row r stands at position first_position + r and sees the keys at positions in (position - window, position] that the
// span holds. A (row, tile) with no visible key is never computed, so skipping tiles moves no bit. A row that sees
// nothing gives (0, -inf, 0).
//
// One arithmetic per (key format, value format, level), whatever the number of rows: lanes are positions for scores and
// channels for outputs, and every query has accumulators of its own.
//
// Thread rule: pure functions; scratch is on the stack, bounded by kMaxHeadDim.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/level.h"
#include "backend/page_format.h"

namespace kvasir::backend::cpu {

struct SpanTask {
  const float* q = nullptr;  // row r, head h of the group: [dk] at q + r * q_stride + h * dk
  int64_t q_stride = 0;
  int rows = 0;
  int group = 0;
  int dk = 0;
  int dv = 0;
  int first_position = 0;
  int span_begin = 0;
  int keys = 0;       // 1..256
  int window = 0;     // 0: no window
  float softcap = 0;  // 0: none
  const std::byte* pages[kSpanBlocks] = {};
  size_t k_scales = 0, v_codes = 0, v_scales = 0;  // offsets in a page
  float* partial = nullptr;                        // row r, head h at partial + (r * group + h) * partial_stride
  int64_t partial_stride = 0;
};

using AttendFunction = void (*)(const SpanTask& task);

AttendFunction AttendSpan(Level level, KvType k, KvType v);

// What rows see of tile `tile`: keys [KeyBegin, KeyEnd) of 0..32, for the rows [row_begin, row_end) that see any.
struct TileView {
  int tile = 0;
  int first_key = 0;  // position
  int keys = 0;
  int row_begin = 0;
  int row_end = 0;
};

static inline TileView ViewTile(const SpanTask& task, int tile) {
  TileView view;
  view.tile = tile;
  view.first_key = task.span_begin + tile * kBlockTokens;
  const int left = task.keys - tile * kBlockTokens;
  view.keys = left < kBlockTokens ? left : kBlockTokens;
  const int begin = view.first_key - task.first_position;
  view.row_begin = begin < 0 ? 0 : begin;
  view.row_end = task.rows;
  if (task.window > 0) {
    const int64_t end = int64_t{begin} + view.keys - 1 + task.window;
    if (end < view.row_end) view.row_end = static_cast<int>(end);
  }
  return view;
}

static inline int KeyBegin(const SpanTask& task, const TileView& view, int row) {
  if (task.window <= 0) return 0;
  const int begin = task.first_position + row - task.window + 1 - view.first_key;
  return begin < 0 ? 0 : begin;
}

static inline int KeyEnd(const SpanTask& task, const TileView& view, int row) {
  const int end = task.first_position + row + 1 - view.first_key;
  return end < view.keys ? end : view.keys;
}

#define KVASIR_ATTEND(level, isa, k, v)        \
  namespace isa {                              \
  void Attend_##k##_##v(const SpanTask& task); \
  }
#include "backend/cpu/kernels/attend/kernels.inc"
#undef KVASIR_ATTEND

}  // namespace kvasir::backend::cpu
