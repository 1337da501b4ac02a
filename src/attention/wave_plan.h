// attention/wave_plan.h
// Cuts the query rows of a step into tiles and the tiles into waves whose partials fit a bounded buffer.
//
// A tile is up to 64 consecutive rows of one sequence; it needs one partial record per (row, query head, visible span).
// The cut changes no bit of any result (docs/numerics.md, rule 5), only memory and how work spreads over threads.
//
// Worked example: 100 rows at positions 500..599, no window: tiles of 64 and 36 rows. The first sees positions 0..563,
// so spans 0, 1, 2; the second 0..599, spans 0, 1, 2. With a window of 96 the first tile starts at position 500 - 95 =
// 405: spans 1, 2.
//
// Pure: same inputs, same plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_cache.h"

namespace kvasir::attention {

// The rows that one sequence contributes to a step: at consecutive positions, behind each other in the batch.
struct Slice {
  kv::SequenceId sequence{};
  int row_begin = 0;
  int rows = 0;
  int first_position = 0;
};

struct Tile {
  int slice = 0;  // index into the step's slices
  int row_begin = 0;
  int rows = 0;
  int first_position = 0;
  int span_begin = 0;  // index of the first span that any row sees
  int span_end = 0;    // one past the last
  int64_t record = 0;  // index of the tile's first partial record in the wave's buffer

  int spans() const { return span_end - span_begin; }
};

using Wave = std::vector<Tile>;

constexpr int kTileRows = 64;

// `heads` query heads need a record each. A wave holds at most `max_records` records, but at least one tile: tiles
// shrink to one row before that bound is broken.
std::vector<Wave> PlanWaves(std::span<const Slice> slices, int heads, int window, int64_t max_records);

}  // namespace kvasir::attention
