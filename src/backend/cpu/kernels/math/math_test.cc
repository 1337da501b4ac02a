#include "backend/cpu/kernels/math/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvasir::backend::cpu {
namespace {

// The distance of `got` from the real number `want`, in units of the last place of `want` as a float.
double Ulps(float got, double want) {
  const float nearest = std::fabs(static_cast<float>(want));
  const double unit = std::max(static_cast<double>(std::nextafter(nearest, std::numeric_limits<float>::infinity())) -
                                   static_cast<double>(nearest),
                               0x1p-149);
  return std::fabs(static_cast<double>(got) - want) / unit;
}

// Every `stride`-th float bit pattern with magnitude in (0, limit], both signs.
std::vector<float> Sweep(float limit, uint32_t stride) {
  std::vector<float> values = {0.0f, -0.0f};
  for (uint32_t bits = 1; bits <= std::bit_cast<uint32_t>(limit); bits += stride) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  return values;
}

double WorstUlps(ArrayFunction function, double (*truth)(double), const std::vector<float>& values) {
  std::vector<float> got(values.size());
  function(values.data(), got.data(), static_cast<int>(values.size()));
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) worst = std::max(worst, Ulps(got[i], truth(double{values[i]})));
  return worst;
}

double TrueExp(double x) {
  return std::exp(x);
}
double TrueTanh(double x) {
  return std::tanh(x);
}

class MathTest : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (!CpuHas(GetParam())) GTEST_SKIP() << "this CPU lacks " << Name(GetParam());
  }
};

TEST_P(MathTest, ExpIsWithinTwoUlps) {
  const std::vector<float> values = Sweep(88.7f, 4099);
  EXPECT_LE(WorstUlps(ExpArray(GetParam()), TrueExp, values), 2.0);
}

TEST_P(MathTest, ExpReachesSubnormalsZeroAndInfinity) {
  std::vector<float> subnormal;
  for (float x = -87.0f; x > -103.9f; x -= 0.037f) subnormal.push_back(x);
  EXPECT_LE(WorstUlps(ExpArray(GetParam()), TrueExp, subnormal), 2.0);

  const float infinity = std::numeric_limits<float>::infinity();
  const float in[] = {-infinity, -1e30f, -104.5f, 0.0f, 88.8f, 1e30f, infinity, std::nanf("")};
  float out[8];
  ExpArray(GetParam())(in, out, 8);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 0.0f);
  EXPECT_EQ(out[3], 1.0f);
  EXPECT_EQ(out[4], infinity);
  EXPECT_EQ(out[5], infinity);
  EXPECT_EQ(out[6], infinity);
  EXPECT_TRUE(std::isnan(out[7]));
}

TEST_P(MathTest, TanhIsWithinTwoUlpsAndSaturates) {
  EXPECT_LE(WorstUlps(TanhArray(GetParam()), TrueTanh, Sweep(20.0f, 4099)), 2.0);

  const float infinity = std::numeric_limits<float>::infinity();
  const float in[] = {-infinity, infinity, 1e30f, std::nanf("")};
  float out[4];
  TanhArray(GetParam())(in, out, 4);
  EXPECT_EQ(out[0], -1.0f);
  EXPECT_EQ(out[1], 1.0f);
  EXPECT_EQ(out[2], 1.0f);
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST_P(MathTest, AnElementDoesNotDependOnItsNeighbours) {
  const std::vector<float> values = Sweep(80.0f, 20'000'003);
  for (const ArrayFunction function : {ExpArray(GetParam()), TanhArray(GetParam())}) {
    std::vector<float> together(values.size());
    function(values.data(), together.data(), static_cast<int>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      float alone;
      function(&values[i], &alone, 1);
      EXPECT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(together[i])) << values[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, MathTest, testing::ValuesIn(kLevels),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace kvasir::backend::cpu
