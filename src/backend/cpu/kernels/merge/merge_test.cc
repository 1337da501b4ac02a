#include "backend/cpu/kernels/merge/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/backend.h"

namespace kvasir::backend::cpu {
namespace {

constexpr Level kVariants[] = {
#define KVASIR_MERGE(level, isa) Level::level,
#include "backend/cpu/kernels/merge/kernels.inc"
#undef KVASIR_MERGE
};

class MergeTest : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (!CpuHas(GetParam())) GTEST_SKIP() << "this CPU lacks " << Name(GetParam());
  }

  static std::vector<float> Random(int count, int dv) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> partials(static_cast<size_t>(count * PartialStride(dv)));
    for (float& x : partials) x = normal(random);
    for (int i = 0; i < count; ++i) {
      float* record = partials.data() + i * PartialStride(dv);
      record[dv] = normal(random) * 4;
      record[dv + 1] = 1 + std::fabs(normal(random)) * 50;
    }
    return partials;
  }

  static void MakeEmpty(std::vector<float>& partials, int index, int dv) {
    float* record = partials.data() + index * PartialStride(dv);
    std::fill(record, record + PartialStride(dv), 0.0f);
    record[dv] = -std::numeric_limits<float>::infinity();
  }

  static std::vector<float> Merge(const std::vector<float>& partials, int count, int dv) {
    std::vector<float> out(static_cast<size_t>(dv), -5.0f);
    MergePartials(GetParam())(partials.data(), PartialStride(dv), count, dv, out.data());
    return out;
  }
};

TEST_P(MergeTest, AgreesWithDoubles) {
  for (const int dv : {4, 12, 64, 80, 128, 256}) {
    for (const int count : {1, 2, 5, 33}) {
      const std::vector<float> partials = Random(count, dv);
      const std::vector<float> got = Merge(partials, count, dv);
      double weight = 0;
      std::vector<double> o(static_cast<size_t>(dv));
      for (int i = 0; i < count; ++i) {
        const float* record = partials.data() + i * PartialStride(dv);
        weight += std::exp(double{record[dv]}) * double{record[dv + 1]};
        for (int c = 0; c < dv; ++c) o[static_cast<size_t>(c)] += std::exp(double{record[dv]}) * double{record[c]};
      }
      for (int c = 0; c < dv; ++c) {
        ASSERT_NEAR(got[static_cast<size_t>(c)], o[static_cast<size_t>(c)] / weight, 2e-6) << count << " " << dv;
      }
    }
  }
}

TEST_P(MergeTest, EmptyPartialsChangeNoBit) {
  std::vector<float> partials = Random(6, 64);
  const std::vector<float> packed = [&] {
    std::vector<float> few(partials.begin() + PartialStride(64), partials.begin() + 2 * PartialStride(64));
    few.insert(few.end(), partials.begin() + 4 * PartialStride(64), partials.begin() + 5 * PartialStride(64));
    return few;
  }();
  for (const int empty : {0, 2, 3, 5}) MakeEmpty(partials, empty, 64);
  const std::vector<float> got = Merge(partials, 6, 64);
  const std::vector<float> want = Merge(packed, 2, 64);
  EXPECT_EQ(std::memcmp(got.data(), want.data(), 64 * sizeof(float)), 0);
}

TEST_P(MergeTest, NothingVisibleGivesZero) {
  std::vector<float> partials = Random(3, 80);
  for (const int i : {0, 1, 2}) MakeEmpty(partials, i, 80);
  for (const int count : {0, 1, 3}) {
    for (const float x : Merge(partials, count, 80)) EXPECT_EQ(x, 0.0f);
  }
}

// The maximum may rise or fall by more than exp can hold.
TEST_P(MergeTest, FarApartMaximaStayFinite) {
  std::vector<float> partials = Random(2, 64);
  partials[64] = -400;
  partials[static_cast<size_t>(PartialStride(64) + 64)] = 500;
  const std::vector<float> rising = Merge(partials, 2, 64);
  partials[64] = 500;
  partials[static_cast<size_t>(PartialStride(64) + 64)] = -400;
  const std::vector<float> falling = Merge(partials, 2, 64);
  for (size_t c = 0; c < 64; ++c) {
    EXPECT_FLOAT_EQ(rising[c], partials[static_cast<size_t>(PartialStride(64)) + c] /
                                   partials[static_cast<size_t>(PartialStride(64)) + 65]);
    EXPECT_FLOAT_EQ(falling[c], partials[c] / partials[65]);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, MergeTest, testing::ValuesIn(kVariants),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace kvasir::backend::cpu
