#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvasir {
namespace {

TEST(Half, EveryFiniteHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<Half>(bits);
    if (std::isnan(HalfToFloat(half))) continue;
    EXPECT_EQ(FloatToHalf(HalfToFloat(half)), half) << bits;
  }
}

TEST(Half, RoundsTiesToEvenAndOverflowsToInfinity) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3C00);      // half way between 1 and its successor: even wins
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3C02);  // half way, odd below: up
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7BFF);             // largest finite
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);             // first that rounds to infinity
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);             // half of the smallest subnormal: even is zero
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(NAN))));
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 3 * 0x1p-8f), 0x3F82);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(NAN))));
}

}  // namespace
}  // namespace kvasir
