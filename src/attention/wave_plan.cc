#include "attention/wave_plan.h"

#include <algorithm>

namespace kvasir::attention {
namespace {

Tile MakeTile(int slice_index, const Slice& slice, int first_row, int rows, int window) {
  const int first = slice.first_position + first_row;
  const int first_key = window > 0 ? std::max(0, first - window + 1) : 0;
  return {.slice = slice_index,
          .row_begin = slice.row_begin + first_row,
          .rows = rows,
          .first_position = first,
          .span_begin = first_key / backend::kSpanTokens,
          .span_end = (first + rows - 1) / backend::kSpanTokens + 1};
}

}  // namespace

std::vector<Wave> PlanWaves(std::span<const Slice> slices, int heads, int window, int64_t max_records) {
  std::vector<Wave> waves;
  int64_t used = max_records;  // the first tile opens the first wave
  for (size_t s = 0; s < slices.size(); ++s) {
    const Slice& slice = slices[s];
    for (int row = 0; row < slice.rows;) {
      int rows = std::min(kTileRows, slice.rows - row);
      Tile tile = MakeTile(static_cast<int>(s), slice, row, rows, window);
      const auto records = [&] { return int64_t{tile.rows} * tile.spans() * heads; };
      while (records() > max_records && rows > 1) {
        rows /= 2;
        tile = MakeTile(static_cast<int>(s), slice, row, rows, window);
      }
      if (waves.empty() || used + records() > max_records) {
        waves.emplace_back();
        used = 0;
      }
      tile.record = used;
      used += records();
      waves.back().push_back(tile);
      row += rows;
    }
  }
  return waves;
}

}  // namespace kvasir::attention
