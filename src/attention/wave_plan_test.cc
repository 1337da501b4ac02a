#include "attention/wave_plan.h"

#include <gtest/gtest.h>

namespace kvasir::attention {
namespace {

TEST(PlanWaves, TilesCoverEveryRowOnceAndSeeTheirSpans) {
  const Slice slice{.row_begin = 10, .rows = 100, .first_position = 500};
  const auto waves = PlanWaves({&slice, 1}, 4, 0, 1 << 20);
  ASSERT_EQ(waves.size(), 1u);
  ASSERT_EQ(waves[0].size(), 2u);
  EXPECT_EQ(waves[0][0].rows, 64);
  EXPECT_EQ(waves[0][1].row_begin, 74);
  EXPECT_EQ(waves[0][1].first_position, 564);
  EXPECT_EQ(waves[0][0].span_begin, 0);
  EXPECT_EQ(waves[0][0].span_end, 3);
  EXPECT_EQ(waves[0][1].record, 64 * 3 * 4);
}

TEST(PlanWaves, AWindowSkipsSpansThatNoRowSees) {
  const Slice slice{.rows = 100, .first_position = 500};
  const auto waves = PlanWaves({&slice, 1}, 1, 96, 1 << 20);
  EXPECT_EQ(waves[0][0].span_begin, 1);  // first key 405
  const Slice border{.rows = 1, .first_position = 256 + 95};
  EXPECT_EQ(PlanWaves({&border, 1}, 1, 96, 1 << 20)[0][0].span_begin, 1);
  const Slice before{.rows = 1, .first_position = 256 + 94};
  EXPECT_EQ(PlanWaves({&before, 1}, 1, 96, 1 << 20)[0][0].span_begin, 0);
}

TEST(PlanWaves, StayWithinTheRecordBound) {
  const Slice slices[] = {{.rows = 300, .first_position = 0}, {.row_begin = 300, .rows = 1, .first_position = 5000}};
  for (const int64_t bound : {1, 50, 1000, 100000}) {
    int rows = 0;
    for (const Wave& wave : PlanWaves(slices, 2, 0, bound)) {
      int64_t records = 0;
      for (const Tile& tile : wave) {
        EXPECT_EQ(tile.record, records);
        records += int64_t{tile.rows} * tile.spans() * 2;
        rows += tile.rows;
      }
      EXPECT_TRUE(records <= bound || (wave.size() == 1 && wave[0].rows == 1));
    }
    EXPECT_EQ(rows, 301);
  }
}

}  // namespace
}  // namespace kvasir::attention
