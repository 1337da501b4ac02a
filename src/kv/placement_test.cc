#include "kv/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvasir::kv {
namespace {

using backend::KvType;
using backend::PageFormat;
using ::testing::HasSubstr;

constexpr PageFormat kF16 = {.k = KvType::kF16, .v = KvType::kF16, .dk = 64, .dv = 64};

CacheShape TwoLayers() {
  return {.layers = {{.units = 4, .format = kF16}, {.units = 1, .format = kF16}}};
}

std::string Describe(const Placement& placement) {
  std::string text;
  for (const Lane& lane : placement) {
    text +=
        fmt::format("{}:{}-{}{} ", lane.layer, lane.unit_begin, lane.unit_end, lane.home == Tier::kDevice ? "d" : "h");
  }
  return text;
}

TEST(Placement, WholeIsOneLanePerLayer) {
  EXPECT_EQ(Describe(PlaceWhole(TwoLayers(), Tier::kDevice)), "0:0-4d 1:0-1d ");
  EXPECT_EQ(Describe(PlaceWhole(TwoLayers(), Tier::kHost)), "0:0-4h 1:0-1h ");
}

TEST(Placement, SplitRoundsToWholeUnitsAndLeavesEmptyLanesOut) {
  const auto split = [](double fraction) {
    return Describe(PlaceSplit(TwoLayers(), fraction, Tier::kDevice, Tier::kHost));
  };
  EXPECT_EQ(split(0.5), "0:0-2d 0:2-4h 1:0-1d ");
  EXPECT_EQ(split(0.3), "0:0-1d 0:1-4h 1:0-1h ");
  EXPECT_EQ(split(0), "0:0-4h 1:0-1h ");
  EXPECT_EQ(split(1), "0:0-4d 1:0-1d ");
}

TEST(Placement, FractionsOutsideZeroToOneAreTheNearestInside) {
  const auto split = [](double fraction) {
    return Describe(PlaceSplit(TwoLayers(), fraction, Tier::kDevice, Tier::kHost));
  };
  EXPECT_EQ(split(-1), split(0));
  EXPECT_EQ(split(7), split(1));
  EXPECT_EQ(split(std::numeric_limits<double>::quiet_NaN()), split(0));
}

TEST(Placement, EverythingThatThePlannersMakeIsValid) {
  for (const double fraction : {0.0, 0.1, 0.25, 0.5, 0.9, 1.0}) {
    EXPECT_TRUE(ValidatePlacement(TwoLayers(), PlaceSplit(TwoLayers(), fraction, Tier::kHost, Tier::kDevice)).ok());
  }
  CacheShape hybrid = TwoLayers();
  hybrid.layers[0].units = 0;  // a layer without attention
  hybrid.layers[0].format = {};
  EXPECT_TRUE(ValidatePlacement(hybrid, PlaceWhole(hybrid, Tier::kDevice)).ok());
}

TEST(Placement, LanesThatDoNotPartitionAreRefusedWithASentence) {
  const CacheShape shape = TwoLayers();
  const Lane last = {.layer = 1, .unit_begin = 0, .unit_end = 1};
  const auto refusal = [&](const Placement& placement) {
    const Status status = ValidatePlacement(shape, placement);
    EXPECT_FALSE(status.ok()) << Describe(placement);
    if (status.ok()) return std::string();
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
    return status.error().message();
  };
  EXPECT_THAT(refusal({{0, 0, 3}, last}), HasSubstr("cover 3 of its 4 KV heads"));          // too few
  EXPECT_THAT(refusal({{0, 0, 5}, last}), HasSubstr("lane [0, 5) of layer 0"));             // too many
  EXPECT_THAT(refusal({{0, 0, 2}, {0, 3, 4}, last}), HasSubstr("lane [3, 4) of layer 0"));  // a gap
  EXPECT_THAT(refusal({{0, 0, 2}, {0, 1, 4}, last}), HasSubstr("lane [1, 4) of layer 0"));  // an overlap
  EXPECT_THAT(refusal({{0, 0, 4}, {0, 4, 4}, last}), HasSubstr("lane [4, 4) of layer 0"));  // empty
  EXPECT_THAT(refusal({last, {0, 0, 4}}), HasSubstr("cover 0 of its 4 KV heads"));          // out of order
  EXPECT_THAT(refusal({{0, 0, 4}, last, {2, 0, 1}}), HasSubstr("lane 2 is of layer 2"));    // of no layer
  EXPECT_THAT(refusal({}), HasSubstr("layer 0"));
}

TEST(Placement, FormatsThatCannotBeStoredAndEmptyShapesAreRefused) {
  CacheShape odd = TwoLayers();
  odd.layers[1].format.dk = 33;
  const Status status = ValidatePlacement(odd, PlaceWhole(odd, Tier::kDevice));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("layer 1"));
  EXPECT_THAT(status.error().message(), HasSubstr("33"));

  const CacheShape nothing = {.layers = {{.units = 0}}};
  EXPECT_FALSE(ValidatePlacement(nothing, PlaceWhole(nothing, Tier::kDevice)).ok());
  EXPECT_FALSE(ValidatePlacement({}, {}).ok());
}

TEST(Placement, BlockBytesAreTheSumOfItsPages) {
  CacheShape shape = TwoLayers();
  shape.layers[1].format = {.k = KvType::kQ8_0, .v = KvType::kQ8_0, .dk = 64, .dv = 64};
  EXPECT_EQ(shape.block_bytes(), 4u * 8192u + 4352u);
  EXPECT_EQ(shape.token_bytes(), shape.block_bytes() / 32);
}

}  // namespace
}  // namespace kvasir::kv
