// What every backend promises, operation by operation, on each level that this CPU has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/contract_machine.h"

namespace kvasir::backend::contract {
namespace {

// y = W x of one row, in double.
std::vector<double> Multiply(const std::vector<float>& w, int rows, const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(rows));
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) y[r] += double{w[r * x.size() + c]} * x[c];
  }
  return y;
}

std::vector<double> Row(const std::vector<float>& x, int row, int cols) {
  return {x.begin() + row * cols, x.begin() + (row + 1) * cols};
}

double Act(Activation activation, double g) {
  if (activation == Activation::kSilu) return g / (1 + std::exp(-g));
  return 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
}

class BackendContract : public testing::TestWithParam<Kind> {
 protected:
  // Products on 8-bit activations are close only as far as 8 bits go: relative to the size of the terms of the sum.
  double ProductTolerance(Backend& backend, int64_t cols, double size) const {
    return backend.Quantizes(cols) ? size * 0.03 * std::sqrt(static_cast<double>(cols)) : 1e-4 * size;
  }
};

TEST_P(BackendContract, MemoryIsZeroedAndAligned) {
  Machine machine(GetParam());
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{70'000}}) {
    for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost}) {
      Buffer buffer = std::move(machine->Allocate(kind, bytes)).value();
      EXPECT_EQ(buffer.bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.address()) % 64, 0u);
    }
  }
  for (const uint8_t byte : machine.Download(machine.Zeros<uint8_t>(5000), 5000)) ASSERT_EQ(byte, 0);
}

TEST_P(BackendContract, CopiesArriveInEveryDirection) {
  Machine machine(GetParam());
  const std::vector<float> values = Random(5000, 1);
  const float* first = machine.Upload(values);
  float* second = machine.Zeros<float>(5000);
  // Two pieces, swapped.
  const CopyItem items[] = {
      {reinterpret_cast<std::byte*>(second), reinterpret_cast<const std::byte*>(first + 2000), 12'000},
      {reinterpret_cast<std::byte*>(second + 3000), reinterpret_cast<const std::byte*>(first), 8'000}};
  machine->Wait(machine->Copy(CopyDirection::kDeviceToDevice, items));
  const std::vector<float> got = machine.Download(second, 5000);
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(got[i], values[(i + 2000) % 5000]);
}

TEST_P(BackendContract, EmbedReadsScaledRows) {
  Machine machine(GetParam());
  const std::vector<float> table = Random(10 * 64, 2);
  const auto matrix = machine.Load(TensorType::kF32, table, 10, 64);
  float* out = machine.Zeros<float>(3 * 64);
  const std::vector<int32_t> tokens = {9, 0, 4};
  machine->Embed({.table = matrix.get(), .tokens = tokens, .scale = 2, .out = out});
  const std::vector<float> got = machine.Download(out, 3 * 64);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], 2 * table[static_cast<size_t>(tokens[i / 64]) * 64 + i % 64]);
}

TEST_P(BackendContract, NormFollowsTheFormulaAndRoundsEveryBlock) {
  Machine machine(GetParam());
  constexpr int kRows = 3, kCols = 96;
  const std::vector<float> x = Random(kRows * kCols, 3), weight = Random(kCols, 4);
  const Activations out = machine.NewActivations(kRows, kCols);
  machine->Norm({.x = machine.Upload(x),
                 .weight = machine.Upload(weight),
                 .eps = 1e-2f,
                 .rows = kRows,
                 .cols = kCols,
                 .out = out});
  const std::vector<float> got = machine.Download(out.f32, kRows * kCols);
  for (int row = 0; row < kRows; ++row) {
    const std::vector<double> want = Normed(Row(x, row, kCols), weight, double{1e-2f});
    for (int c = 0; c < kCols; ++c)
      ASSERT_NEAR(got[static_cast<size_t>(row * kCols + c)], want[static_cast<size_t>(c)], 1e-5);
  }
  if (out.codes == nullptr) return;
  const std::vector<int8_t> codes = machine.Download(out.codes, kRows * kCols);
  const std::vector<float> scales = machine.Download(out.scales, kRows * kCols / 32);
  const std::vector<float> sums = machine.Download(out.sums, kRows * kCols / 32);
  for (size_t block = 0; block < scales.size(); ++block) {
    int sum = 0;
    for (size_t i = block * 32; i < block * 32 + 32; ++i) {
      sum += codes[i];
      ASSERT_NEAR(scales[block] * static_cast<float>(codes[i]), got[i], scales[block] * 0.501f);
    }
    ASSERT_NEAR(sums[block], scales[block] * static_cast<float>(sum), 1e-4);
  }
}

TEST_P(BackendContract, NormAddAddsToTheResidual) {
  Machine machine(GetParam());
  constexpr int kRows = 2, kCols = 48;
  const std::vector<float> x = Random(kRows * kCols, 5), weight = Random(kCols, 6), residual = Random(kRows * kCols, 7);
  float* sum = machine.Upload(residual);
  machine->NormAdd({.x = machine.Upload(x),
                    .weight = machine.Upload(weight),
                    .eps = 1e-5f,
                    .rows = kRows,
                    .cols = kCols,
                    .residual = sum});
  const std::vector<float> got = machine.Download(sum, kRows * kCols);
  for (int row = 0; row < kRows; ++row) {
    const std::vector<double> want = Normed(Row(x, row, kCols), weight, double{1e-5f});
    for (int c = 0; c < kCols; ++c) {
      const auto i = static_cast<size_t>(row * kCols + c);
      ASSERT_NEAR(got[i], double{residual[i]} + want[static_cast<size_t>(c)], 1e-5);
    }
  }
}

TEST_P(BackendContract, MatMulAppliesBiasScaleSoftcapAndStore) {
  Machine machine(GetParam());
  constexpr int kRows = 5, kCols = 128, kFirst = 40, kSecond = 8;
  const std::vector<float> x = Random(kRows * kCols, 8);
  const std::vector<float> w1 = Random(kFirst * kCols, 9), w2 = Random(kSecond * kCols, 10), bias = Random(kFirst, 11);
  const auto m1 = machine.Load(TensorType::kF32, w1, kFirst, kCols),
             m2 = machine.Load(TensorType::kF32, w2, kSecond, kCols);
  const Activations in = machine.Upload(x, kRows, kCols);
  const double tolerance = ProductTolerance(*machine, kCols, 1);
  for (const Store store : {Store::kSet, Store::kAdd}) {
    for (const float softcap : {0.0f, 3.0f}) {
      constexpr int kStride = kFirst + kSecond + 3;  // side by side, with a gap
      const std::vector<float> before = Random(kRows * kStride, 12);
      float* out = machine.Upload(before);
      const Product products[] = {{m1.get(), machine.Upload(bias), out, kStride},
                                  {m2.get(), nullptr, out + kFirst, kStride}};
      machine->MatMul(
          {.x = in, .rows = kRows, .products = products, .store = store, .scale = 0.5f, .softcap = softcap});
      const std::vector<float> got = machine.Download(out, kRows * kStride);
      for (int row = 0; row < kRows; ++row) {
        std::vector<double> want = Multiply(w1, kFirst, Row(x, row, kCols));
        for (size_t i = 0; i < kFirst; ++i) want[i] += double{bias[i]};
        const std::vector<double> second = Multiply(w2, kSecond, Row(x, row, kCols));
        want.insert(want.end(), second.begin(), second.end());
        for (size_t i = 0; i < kStride; ++i) {
          const size_t at = static_cast<size_t>(row) * kStride + i;
          if (i >= want.size()) {
            ASSERT_EQ(got[at], before[at]);
            continue;
          }
          double y = want[i] * 0.5;
          if (softcap > 0) y = double{softcap} * std::tanh(y / double{softcap});
          if (store == Store::kAdd) y += double{before[at]};
          ASSERT_NEAR(got[at], y, tolerance) << "row " << row << " column " << i;
        }
      }
    }
  }
}

TEST_P(BackendContract, GluGatesTheSecondProduct) {
  Machine machine(GetParam());
  constexpr int kRows = 3, kCols = 64, kHidden = 96;
  const std::vector<float> x = Random(kRows * kCols, 13);
  const std::vector<float> gate = Random(kHidden * kCols, 14, 0.2f), up = Random(kHidden * kCols, 15, 0.2f);
  const auto gate_matrix = machine.Load(TensorType::kF32, gate, kHidden, kCols),
             up_matrix = machine.Load(TensorType::kF32, up, kHidden, kCols);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    const Activations out = machine.NewActivations(kRows, kHidden);
    machine->Glu({.x = machine.Upload(x, kRows, kCols),
                  .rows = kRows,
                  .gate = gate_matrix.get(),
                  .up = up_matrix.get(),
                  .activation = activation,
                  .out = out});
    const std::vector<float> got = machine.Download(out.f32, kRows * kHidden);
    for (int row = 0; row < kRows; ++row) {
      const std::vector<double> g = Multiply(gate, kHidden, Row(x, row, kCols)),
                                u = Multiply(up, kHidden, Row(x, row, kCols));
      for (size_t i = 0; i < kHidden; ++i) {
        ASSERT_NEAR(got[static_cast<size_t>(row) * kHidden + i], Act(activation, g[i]) * u[i],
                    ProductTolerance(*machine, kCols, 0.5));
      }
    }
  }
}

TEST_P(BackendContract, MoeFfnAddsTheChosenExpertsAndTheSharedOne) {
  Machine machine(GetParam());
  constexpr int kRows = 4, kCols = 64, kHidden = 32, kExperts = 5, kTop = 2;
  const std::vector<float> x = Random(kRows * kCols, 16), before = Random(kRows * kCols, 17);
  const std::vector<float> router = Random(kExperts * kCols, 18), shared_gate = Random(kCols, 19, 0.1f);
  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<std::vector<float>> values;
  const auto load = [&](std::vector<float> w, int rows, int cols) {
    values.push_back(std::move(w));
    matrices.push_back(machine.Load(TensorType::kF32, values.back(), rows, cols));
    return matrices.back().get();
  };
  std::vector<Expert> experts;
  for (uint32_t e = 0; e <= kExperts; ++e) {  // the last one is the shared expert
    const Matrix* gate = load(Random(kHidden * kCols, 20 + 3 * e, 0.2f), kHidden, kCols);
    const Matrix* up = load(Random(kHidden * kCols, 21 + 3 * e, 0.2f), kHidden, kCols);
    const Matrix* down = load(Random(kHidden * kCols, 22 + 3 * e, 0.2f), kCols, kHidden);
    experts.push_back({gate, up, down});
  }
  const auto router_matrix = machine.Load(TensorType::kF32, router, kExperts, kCols),
             gate_matrix = machine.Load(TensorType::kF32, shared_gate, 1, kCols);
  float* out = machine.Upload(before);
  machine->MoeFfn({.x = machine.Upload(x, kRows, kCols),
                   .rows = kRows,
                   .router = router_matrix.get(),
                   .experts = std::span(experts).first(kExperts),
                   .top_k = kTop,
                   .normalize = true,
                   .weight_scale = 1.5f,
                   .shared = &experts.back(),
                   .shared_gate = gate_matrix.get(),
                   .out = out});
  const std::vector<float> got = machine.Download(out, kRows * kCols);
  for (int row = 0; row < kRows; ++row) {
    const std::vector<double> in = Row(x, row, kCols);
    const auto ffn = [&](size_t e) {
      const std::vector<double> g = Multiply(values[3 * e], kHidden, in), u = Multiply(values[3 * e + 1], kHidden, in);
      std::vector<double> h(kHidden);
      for (size_t i = 0; i < h.size(); ++i) h[i] = Act(Activation::kSilu, g[i]) * u[i];
      return Multiply(values[3 * e + 2], kCols, h);
    };
    const std::vector<double> logits = Multiply(router, kExperts, in);
    std::vector<size_t> rank = {0, 1, 2, 3, 4};
    std::sort(rank.begin(), rank.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    std::vector<double> want = Row(before, row, kCols);
    const double total = std::exp(logits[rank[0]]) + std::exp(logits[rank[1]]);
    for (int i = 0; i < kTop; ++i) {
      const std::vector<double> y = ffn(rank[static_cast<size_t>(i)]);
      for (size_t c = 0; c < want.size(); ++c)
        want[c] += 1.5 * std::exp(logits[rank[static_cast<size_t>(i)]]) / total * y[c];
    }
    const std::vector<double> y = ffn(kExperts);
    const double share = 1 / (1 + std::exp(-Multiply(shared_gate, 1, in)[0]));
    for (size_t c = 0; c < want.size(); ++c) want[c] += share * y[c];
    for (size_t c = 0; c < want.size(); ++c) {
      ASSERT_NEAR(got[static_cast<size_t>(row * kCols) + c], want[c], ProductTolerance(*machine, kCols, 0.5)) << row;
    }
  }
}

// Every operation in a row, on weights of several types; all results as bytes.
std::vector<float> RunEverything(const Kind& kind) {
  Machine machine(kind);
  constexpr int kRows = 9, kCols = 128, kHidden = 64;
  std::vector<float> all;
  const auto keep = [&](const float* device, size_t count) {
    const std::vector<float> values = machine.Download(device, count);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_0}) {
    const auto square = machine.Load(type, Random(kCols * kCols, 50), kCols, kCols);
    const auto gate = machine.Load(type, Random(kHidden * kCols, 51), kHidden, kCols),
               up = machine.Load(type, Random(kHidden * kCols, 52), kHidden, kCols);
    const auto down = machine.Load(type, Random(kHidden * kCols, 53), kCols, kHidden),
               router = machine.Load(type, Random(4 * kCols, 54), 4, kCols);
    float* residual = machine.Zeros<float>(kRows * kCols);
    const std::vector<int32_t> tokens = {1, 5, 9, 100, 3, 3, 77, 0, 127};
    machine->Embed({.table = square.get(), .tokens = tokens, .out = residual});
    keep(residual, kRows * kCols);
    const Activations x = machine.NewActivations(kRows, kCols);
    machine->Norm({.x = residual,
                   .weight = machine.Upload(Random(kCols, 55)),
                   .eps = 1e-5f,
                   .rows = kRows,
                   .cols = kCols,
                   .out = x});
    keep(x.f32, kRows * kCols);
    const Product product{square.get(), machine.Upload(Random(kCols, 56)), residual, kCols};
    machine->MatMul(
        {.x = x, .rows = kRows, .products = {&product, 1}, .store = Store::kAdd, .scale = 0.1f, .softcap = 20});
    const Activations h = machine.NewActivations(kRows, kHidden);
    machine->Glu({.x = x, .rows = kRows, .gate = gate.get(), .up = up.get(), .out = h});
    keep(h.f32, kRows * kHidden);
    const Expert expert{gate.get(), up.get(), down.get()};
    const std::vector<Expert> experts(4, expert);
    machine->MoeFfn({.x = x,
                     .rows = kRows,
                     .router = router.get(),
                     .experts = experts,
                     .top_k = 2,
                     .activation = Activation::kGeluTanh,
                     .shared = &expert,
                     .out = residual});
    machine->NormAdd({.x = x.f32,
                      .weight = machine.Upload(Random(kCols, 57)),
                      .eps = 1e-5f,
                      .rows = kRows,
                      .cols = kCols,
                      .residual = residual});
    keep(residual, kRows * kCols);
  }
  for (const AttentionCase& c : FormatCases()) {
    const std::vector<float> out = RunAttention(machine, c);
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

TEST_P(BackendContract, BitsDoNotDependOnThreads) {
  Kind kind = GetParam();
  kind.threads = 1;
  const std::vector<float> one = RunEverything(kind);
  kind.threads = 3;
  const std::vector<float> three = RunEverything(kind);
  ASSERT_EQ(one.size(), three.size());
  EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BackendContract, testing::ValuesIn(Kinds()),
                         [](const auto& test) { return NameOf(test.param); });

class SimAgainstCpu : public testing::TestWithParam<std::string> {};

TEST_P(SimAgainstCpu, ResultsAreTheSameBits) {
  const std::vector<float> cpu = RunEverything({.name = "cpu", .level = GetParam()});
  const std::vector<float> sim = RunEverything({.name = "sim", .level = GetParam()});
  ASSERT_EQ(cpu.size(), sim.size());
  EXPECT_EQ(std::memcmp(cpu.data(), sim.data(), cpu.size() * sizeof(float)), 0);
  for (const float x : cpu) ASSERT_TRUE(std::isfinite(x));
}

INSTANTIATE_TEST_SUITE_P(Levels, SimAgainstCpu, testing::ValuesIn(AvailableCpuLevels()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kvasir::backend::contract
