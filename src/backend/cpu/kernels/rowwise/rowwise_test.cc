#include "backend/cpu/kernels/rowwise/rowwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/level.h"

namespace kvasir::backend::cpu {
namespace {

struct LevelKernels {
  Level level;
  const RowKernels* rows;
};

std::vector<LevelKernels> Levels() {
  std::vector<LevelKernels> out;
  for (const LevelKernels& level :
       {LevelKernels{Level::kRef, &ref::kRowKernels}, LevelKernels{Level::kAvx2, &avx2::kRowKernels},
        LevelKernels{Level::kAvx512, &avx512::kRowKernels}}) {
    if (CpuHas(level.level)) out.push_back(level);
  }
  return out;
}

std::vector<float> Random(size_t count, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count + 1);  // one more, so that a test can start off alignment
  for (float& x : out) x = normal(random);
  return out;
}

struct Row {
  std::vector<float> f32, scales, sums;
  std::vector<int8_t> codes;
  explicit Row(int cols)
      : f32(static_cast<size_t>(cols)),
        scales(static_cast<size_t>(cols / 32)),
        sums(scales.size()),
        codes(f32.size()) {}
  RowOut out() {
    if (f32.size() % 32 != 0) return {f32.data(), nullptr, nullptr, nullptr};
    return {f32.data(), codes.data(), scales.data(), sums.data()};
  }
};

void ExpectRounded(const Row& row, const char* where) {
  if (row.f32.size() % 32 != 0) return;
  for (size_t block = 0; block < row.scales.size(); ++block) {
    float extreme = 0;
    for (size_t i = 0; i < 32; ++i) extreme = std::max(extreme, std::abs(row.f32[block * 32 + i]));
    ASSERT_EQ(row.scales[block], extreme / 127) << where;
    int sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      const int code = row.codes[block * 32 + i];
      sum += code;
      ASSERT_LE(std::abs(code), 127) << where;
      if (extreme > 0) {
        ASSERT_EQ(code, static_cast<int>(std::nearbyint(row.f32[block * 32 + i] * (127 / extreme)))) << where;
      }
    }
    ASSERT_EQ(row.sums[block], row.scales[block] * static_cast<float>(sum)) << where;
  }
}

TEST(Norm, IsTheFormulaInBothForms) {
  for (const LevelKernels& level : Levels()) {
    for (const int cols : {1, 7, 16, 31, 32, 64, 896, 2080}) {
      const std::vector<float> x = Random(static_cast<size_t>(cols), 3, 1),
                               weight = Random(static_cast<size_t>(cols), 1, 2);
      Row row(cols);
      level.rows->norm(x.data() + 1, weight.data() + 1, 1e-5f, cols, row.out());
      double mean = 0;
      for (int i = 1; i <= cols; ++i) mean += double{x[static_cast<size_t>(i)]} * x[static_cast<size_t>(i)] / cols;
      for (size_t i = 0; i < row.f32.size(); ++i) {
        const double expected = x[i + 1] / std::sqrt(mean + 1e-5) * weight[i + 1];
        ASSERT_NEAR(row.f32[i], expected, 1e-6 * std::abs(expected) + 1e-12) << Name(level.level) << " " << cols;
      }
      ExpectRounded(row, "norm");
      // Without a weight it is a copy, and rounds alike.
      level.rows->norm(x.data() + 1, nullptr, 1e-5f, cols, row.out());
      ASSERT_EQ(std::memcmp(row.f32.data(), x.data() + 1, row.f32.size() * sizeof(float)), 0);
      ExpectRounded(row, "copy");
    }
  }
}

TEST(Norm, RoundsZeroAndTinyBlocksToZero) {
  for (const LevelKernels& level : Levels()) {
    std::vector<float> x(64, 0.0f);
    std::fill(x.begin() + 32, x.end(), 1e-38f);
    Row row(64);
    level.rows->norm(x.data(), nullptr, 0, 64, row.out());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(row.codes[i], 0) << Name(level.level);
    ASSERT_EQ(row.scales, std::vector<float>(2)) << Name(level.level);
    ASSERT_EQ(row.sums, std::vector<float>(2)) << Name(level.level);
  }
}

TEST(NormAdd, AddsTheNormToTheResidual) {
  for (const LevelKernels& level : Levels()) {
    for (const int cols : {5, 640}) {
      const std::vector<float> x = Random(static_cast<size_t>(cols), 3, 3),
                               weight = Random(static_cast<size_t>(cols), 1, 4);
      std::vector<float> residual = Random(static_cast<size_t>(cols), 1, 5);
      std::vector<float> expected = residual;
      std::vector<float> norm(static_cast<size_t>(cols));
      level.rows->norm(x.data(), weight.data(), 1e-6f, cols, {norm.data(), nullptr, nullptr, nullptr});
      for (size_t i = 0; i < norm.size(); ++i) expected[i] += norm[i];
      level.rows->norm_add(x.data(), weight.data(), 1e-6f, cols, residual.data());
      ASSERT_EQ(residual, expected) << Name(level.level);
    }
  }
}

TEST(Norm, LevelsAgreeInEveryBit) {
  const std::vector<float> x = Random(1111, 3, 6), weight = Random(1111, 1, 7);
  std::vector<float> first;
  for (const LevelKernels& level : Levels()) {
    Row row(1111);
    level.rows->norm(x.data(), weight.data(), 1e-5f, 1111, row.out());
    if (first.empty()) first = row.f32;
    EXPECT_EQ(first, row.f32) << Name(level.level);
  }
}

TEST(Glu, IsTheActivationTimesUp) {
  for (const LevelKernels& level : Levels()) {
    for (const int cols : {3, 32, 100, 128}) {
      std::vector<float> gate = Random(static_cast<size_t>(cols), 4, 8);
      const std::vector<float> up = Random(static_cast<size_t>(cols), 1, 9);
      gate[0] = -200, gate[1] = 200, gate[2] = 0;
      Row silu(cols), gelu(cols);
      level.rows->glu_silu(gate.data(), up.data(), cols, silu.out());
      level.rows->glu_gelu(gate.data(), up.data(), cols, gelu.out());
      for (size_t i = 0; i < silu.f32.size(); ++i) {
        const double g = gate[i], u = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
        const double expected_silu = g / (1 + std::exp(-g)) * up[i];
        const double expected_gelu = g / (1 + std::exp(-2 * u)) * up[i];
        ASSERT_NEAR(silu.f32[i], expected_silu, 2e-6 * std::abs(expected_silu) + 1e-35)
            << Name(level.level) << " gate " << g;
        // The exponent is -2u: where it is large, so is the effect of its rounding.
        ASSERT_NEAR(gelu.f32[i], expected_gelu, (2e-6 + 3e-7 * std::abs(u)) * std::abs(expected_gelu) + 1e-35)
            << Name(level.level) << " gate " << g;
      }
      ExpectRounded(silu, "silu");
      ExpectRounded(gelu, "gelu");
    }
  }
}

TEST(Softcap, SquashesIntoTheCap) {
  for (const LevelKernels& level : Levels()) {
    for (const int count : {1, 15, 16, 129}) {
      std::vector<float> x = Random(static_cast<size_t>(count), 40, 10);
      const std::vector<float> before = x;
      level.rows->softcap(x.data(), count, 30);
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const double expected = 30 * std::tanh(before[i] / 30.0);
        ASSERT_NEAR(x[i], expected, 5e-7 * std::abs(expected)) << Name(level.level);
      }
      ASSERT_EQ(x[static_cast<size_t>(count)], before[static_cast<size_t>(count)]);  // nothing past the end
    }
  }
}

TEST(Sigmoid, IsTheFormula) {
  for (const LevelKernels& level : Levels()) {
    const std::vector<float> x = Random(37, 5, 11);
    std::vector<float> y(37);
    level.rows->sigmoid(x.data(), 37, y.data());
    for (size_t i = 0; i < 37; ++i) ASSERT_NEAR(y[i], 1 / (1 + std::exp(-double{x[i]})), 3e-7) << Name(level.level);
  }
}

}  // namespace
}  // namespace kvasir::backend::cpu
