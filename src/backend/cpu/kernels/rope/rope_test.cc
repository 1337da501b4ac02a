#include "backend/cpu/kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace kvasir::backend::cpu {
namespace {

constexpr Level kVariants[] = {
#define KVASIR_ROTATE(level, isa) Level::level,
#include "backend/cpu/kernels/rope/kernels.inc"
#undef KVASIR_ROTATE
};

class RopeTest : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (!CpuHas(GetParam())) GTEST_SKIP() << "this CPU lacks " << Name(GetParam());
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& x : heads_) x = normal(random);
    for (float& x : norm_) x = normal(random);
    for (int i = 0; i < 128; ++i) {
      cos_sin_[2 * i] = std::cos(0.37f * static_cast<float>(i));
      cos_sin_[2 * i + 1] = std::sin(0.37f * static_cast<float>(i));
    }
  }

  std::vector<float> Heads(int count, int dim) const { return {heads_, heads_ + count * dim}; }

  float heads_[8 * 256];
  float norm_[256];
  float cos_sin_[256];
};

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 4e-6 * (1 + std::fabs(want[i]))) << i;
}

TEST_P(RopeTest, FollowsTheFormula) {
  for (const int dim : {4, 64, 80, 100, 128, 256}) {
    for (const int n_rot : {2, 4, 36, dim}) {
      for (const RopeKind rope : {RopeKind::kNone, RopeKind::kNormal, RopeKind::kNeox}) {
        for (const bool norm : {false, true}) {
          if (n_rot > dim) continue;
          const Rotation rotation{.dim = dim,
                                  .norm = norm ? norm_ : nullptr,
                                  .eps = 1e-3f,
                                  .rope = rope,
                                  .n_rot = n_rot,
                                  .cos_sin = cos_sin_,
                                  .scale = 0.3f};
          std::vector<float> got = Heads(3, dim);
          std::vector<double> want(got.begin(), got.end());
          Rotate(GetParam())(rotation, got.data(), 3);
          for (int head = 0; head < 3; ++head) {
            double* x = want.data() + head * dim;
            double squares = 0;
            for (int d = 0; d < dim; ++d) squares += x[d] * x[d];
            for (int d = 0; norm && d < dim; ++d) x[d] *= double{norm_[d]} / std::sqrt(squares / dim + double{1e-3f});
            for (int i = 0; rope != RopeKind::kNone && i < n_rot / 2; ++i) {
              double& a = rope == RopeKind::kNormal ? x[2 * i] : x[i];
              double& b = rope == RopeKind::kNormal ? x[2 * i + 1] : x[i + n_rot / 2];
              const double cos = cos_sin_[2 * i], sin = cos_sin_[2 * i + 1], old = a;
              a = old * cos - b * sin;
              b = old * sin + b * cos;
            }
            for (int d = 0; d < dim; ++d) x[d] *= double{0.3f};
          }
          ExpectNear(got, want);
        }
      }
    }
  }
}

TEST_P(RopeTest, AHeadDoesNotDependOnItsNeighbours) {
  const Rotation rotation{
      .dim = 96, .norm = norm_, .eps = 1e-6f, .rope = RopeKind::kNeox, .n_rot = 64, .cos_sin = cos_sin_};
  std::vector<float> all = Heads(5, 96);
  Rotate(GetParam())(rotation, all.data(), 5);
  for (int head = 0; head < 5; ++head) {
    std::vector<float> one(heads_ + head * 96, heads_ + (head + 1) * 96);
    Rotate(GetParam())(rotation, one.data(), 1);
    EXPECT_EQ(std::memcmp(one.data(), all.data() + head * 96, 96 * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, RopeTest, testing::ValuesIn(kVariants),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace kvasir::backend::cpu
