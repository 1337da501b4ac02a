#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/matmul/test_rows.h"
#include "backend/factory.h"

namespace kvasir::backend {
namespace {

using cpu::TestRows;

struct Configuration {
  std::string level;
  Compute compute;
  std::unique_ptr<Backend> backend;
  std::string name() const { return backend->profile().numerics; }
};

std::vector<Configuration> Configurations(int threads) {
  std::vector<Configuration> out;
  for (const std::string& level : AvailableCpuLevels()) {
    for (const Compute compute : {Compute::kFast, Compute::kF32}) {
      auto backend = CreateCpuBackend({.level = level, .threads = threads, .compute = compute});
      EXPECT_TRUE(backend.ok());
      out.push_back({level, compute, std::move(backend).value()});
    }
  }
  return out;
}

std::vector<float> Random(int64_t count, uint32_t seed, float spread = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = normal(random);
  return out;
}

// Rows of activations, filled by the backend itself.
struct Rows {
  std::vector<float> f32, scales, sums;
  std::vector<int8_t> codes;
  Activations view;

  Rows(const Backend& backend, int rows, int64_t cols) : f32(static_cast<size_t>(rows * cols)) {
    view.f32 = f32.data();
    if (!backend.Quantizes(cols)) return;
    codes.resize(f32.size());
    scales.resize(f32.size() / 32);
    sums.resize(f32.size() / 32);
    view = {f32.data(), codes.data(), scales.data(), sums.data()};
  }
};

Rows Quantized(Backend& backend, const std::vector<float>& x, int rows, int64_t cols) {
  Rows out(backend, rows, cols);
  backend.Norm({.x = x.data(), .rows = rows, .cols = static_cast<int>(cols), .out = out.view});
  return out;
}

std::unique_ptr<Matrix> Load(Backend& backend, const TestRows& rows) {
  auto matrix = backend.LoadMatrix(rows.source());
  EXPECT_TRUE(matrix.ok());
  return std::move(matrix).value();
}

std::vector<double> Decoded(const TestRows& rows) {
  std::vector<float> values(static_cast<size_t>(rows.rows * rows.cols));
  Decode(rows.type, rows.bytes.data(), rows.rows * rows.cols, values.data());
  return {values.begin(), values.end()};
}

// y = W x in double precision.
std::vector<double> Apply(const std::vector<double>& weight, const double* x, size_t cols) {
  std::vector<double> y(weight.size() / cols);
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t k = 0; k < cols; ++k) y[r] += weight[r * cols + k] * x[k];
  }
  return y;
}

double Norm2(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// 8-bit activations cost about 1/254 of a block's largest value per value; averaged over a product a good deal less.
double Tolerance(const Configuration& c) {
  return c.compute == Compute::kF32 ? 1e-5 : 3e-2;
}

TEST(CpuBackend, NamesItsNumericsClass) {
  for (const Configuration& c : Configurations(1)) {
    EXPECT_EQ(c.name().rfind("cpu/" + c.level + (c.compute == Compute::kFast ? "/fast/" : "/f32/"), 0), 0u) << c.name();
    EXPECT_EQ(c.backend->profile().kind, "cpu");
    EXPECT_TRUE(c.backend->profile().device_is_host);
  }
}

TEST(CpuBackend, AllocatesZeroedAlignedMemory) {
  auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok());
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, (size_t{2} << 20) + 1, size_t{9} << 20}) {
    auto buffer = (*backend)->Allocate(MemoryKind::kDevice, bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->address()) % 64, 0u);
    EXPECT_EQ(buffer->bytes(), bytes);
    for (size_t i = 0; i < bytes; i += 997) ASSERT_EQ(buffer->address()[i], std::byte{0});
    if (bytes > 0) buffer->address()[bytes - 1] = std::byte{1};
    Buffer moved = std::move(*buffer);
    EXPECT_EQ(buffer->address(), nullptr);
  }
}

TEST(CpuBackend, SaysWhenThereIsNoMemory) {
  auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok());
  for (const size_t bytes : {size_t{1} << 60, ~size_t{0}}) {
    auto buffer = (*backend)->Allocate(MemoryKind::kHost, bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code(), ErrorCode::kResourceExhausted);
  }
}

TEST(CpuBackend, RefusesRowsThatAreNotWholeBlocks) {
  auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok());
  const std::vector<std::byte> bytes(1000);
  auto matrix = (*backend)->LoadMatrix({TensorType::kQ4_K, 1, 300, bytes.data()});
  ASSERT_FALSE(matrix.ok());
  EXPECT_EQ(matrix.error().code(), ErrorCode::kCorrupt);
}

TEST(CreateCpuBackend, RefusesLevelsThatDoNotExist) {
  auto backend = CreateCpuBackend({.level = "sse9"});
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(backend.error().message().find("sse9"), std::string::npos);
}

TEST(CreateCpuBackend, TakesTheLevelOfAutoFromTheEnvironment) {
  setenv("KVASIR_ISA", "ref", 1);
  auto chosen = CreateCpuBackend({.level = "auto", .threads = 1});
  auto named = CreateCpuBackend({.level = AvailableCpuLevels().back(), .threads = 1});
  setenv("KVASIR_ISA", "nonsense", 1);
  auto refused = CreateCpuBackend({.level = "auto", .threads = 1});
  unsetenv("KVASIR_ISA");
  ASSERT_TRUE(chosen.ok() && named.ok());
  EXPECT_EQ((*chosen)->profile().level, "ref");
  EXPECT_EQ((*named)->profile().level, AvailableCpuLevels().back());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("KVASIR_ISA"), std::string::npos);
}

TEST(CreateCpuBackend, UsesOneThreadPerPhysicalCoreByDefault) {
  EXPECT_GE(PhysicalCores(), 1);
  auto backend = CreateCpuBackend({.threads = 0});
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ((*backend)->profile().threads, PhysicalCores());
  EXPECT_FALSE(CreateCpuBackend({.threads = -1}).ok());
}

TEST(Embed, LooksUpRowsAndScalesThem) {
  const TestRows table(TensorType::kQ5_0, 50, 96, 1);
  const std::vector<double> values = Decoded(table);
  for (Configuration& c : Configurations(2)) {
    const auto matrix = Load(*c.backend, table);
    const std::vector<int32_t> tokens = {49, 0, 17, 17, 8};
    std::vector<float> out(tokens.size() * 96);
    c.backend->Embed({.table = matrix.get(), .tokens = tokens, .scale = 8, .out = out.data()});
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], 8 * values[static_cast<size_t>(tokens[i / 96]) * 96 + i % 96]) << c.name();
    }
  }
}

TEST(MatMulOp, AppliesBiasScaleSoftcapAndResidual) {
  const TestRows a(TensorType::kQ4_K, 70, 256, 2), b(TensorType::kF32, 33, 256, 3);
  const std::vector<double> wa = Decoded(a), wb = Decoded(b);
  const std::vector<float> x = Random(3 * 256, 4), bias = Random(70, 5);
  for (Configuration& c : Configurations(2)) {
    const auto ma = Load(*c.backend, a), mb = Load(*c.backend, b);
    Rows input = Quantized(*c.backend, x, 3, 256);
    constexpr size_t kStride = 110;
    std::vector<float> out(3 * kStride, 7);
    const Product products[] = {{ma.get(), bias.data(), out.data(), kStride},
                                {mb.get(), nullptr, out.data() + 72, kStride}};
    const MatMulArgs args = {.x = input.view, .rows = 3, .products = products};
    std::vector<double> plain[3];
    for (size_t row = 0; row < 3; ++row) {
      const std::vector<double> xd(x.begin() + static_cast<int64_t>(row) * 256,
                                   x.begin() + static_cast<int64_t>(row + 1) * 256);
      plain[row] = Apply(wa, xd.data(), 256);
      for (size_t r = 0; r < 70; ++r) plain[row][r] += bias[r];
      for (const double y : Apply(wb, xd.data(), 256)) plain[row].push_back(y);
    }
    const auto expect = [&](auto expected, const char* what) {
      for (size_t row = 0; row < 3; ++row) {
        const double tolerance = Tolerance(c) * 3 * Norm2(plain[row]);
        for (size_t i = 0; i < 103; ++i) {
          const size_t at = row * kStride + (i < 70 ? i : i + 2);
          ASSERT_NEAR(out[at], expected(plain[row][i], at), tolerance)
              << c.name() << " " << what << " row " << row << " " << i;
        }
        for (const size_t gap : {size_t{70}, size_t{71}, size_t{105}, kStride - 1})
          ASSERT_EQ(out[row * kStride + gap], 7);
      }
    };
    c.backend->MatMul(args);
    expect([](double y, size_t) { return y; }, "plain");
    MatMulArgs changed = args;
    changed.scale = 0.5f;
    changed.softcap = 3;
    c.backend->MatMul(changed);
    expect([](double y, size_t) { return 3 * std::tanh(0.5 * y / 3); }, "scale and softcap");
    const std::vector<float> before = out;
    changed = args;
    changed.store = Store::kAdd;
    c.backend->MatMul(changed);
    expect([&](double y, size_t at) { return y + before[at]; }, "residual");
    changed.rows = 0;
    c.backend->MatMul(changed);
  }
}

TEST(GluOp, IsActivationOfGateTimesUp) {
  const TestRows gate(TensorType::kQ4_1, 96, 128, 6), up(TensorType::kQ8_0, 96, 128, 7);
  const std::vector<double> wg = Decoded(gate), wu = Decoded(up);
  const std::vector<float> x = Random(7 * 128, 8);
  for (Configuration& c : Configurations(2)) {
    const auto mg = Load(*c.backend, gate), mu = Load(*c.backend, up);
    Rows input = Quantized(*c.backend, x, 7, 128);
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      Rows out(*c.backend, 7, 96);
      c.backend->Glu(
          {.x = input.view, .rows = 7, .gate = mg.get(), .up = mu.get(), .activation = activation, .out = out.view});
      for (size_t row = 0; row < 7; ++row) {
        const std::vector<double> xd(x.begin() + static_cast<int64_t>(row) * 128,
                                     x.begin() + static_cast<int64_t>(row + 1) * 128);
        const std::vector<double> g = Apply(wg, xd.data(), 128), u = Apply(wu, xd.data(), 128);
        std::vector<double> y(96);
        for (size_t i = 0; i < 96; ++i) {
          const double inner =
              activation == Activation::kSilu ? g[i] : 2 * std::sqrt(2 / M_PI) * (g[i] + 0.044715 * std::pow(g[i], 3));
          y[i] = g[i] / (1 + std::exp(-inner)) * u[i];
        }
        for (size_t i = 0; i < 96; ++i)
          ASSERT_NEAR(out.f32[row * 96 + i], y[i], Tolerance(c) * 3 * Norm2(y)) << c.name();
      }
      // The 8-bit form is the f32 form rounded.
      for (size_t i = 0; i < out.codes.size(); ++i) {
        ASSERT_NEAR(out.codes[i] * out.scales[i / 32], out.f32[i], out.scales[i / 32] * 0.501) << c.name();
      }
    }
  }
}

struct MoeWeights {
  static constexpr int kExperts = 6;
  std::vector<TestRows> rows;  // router, gates, ups, downs, then the shared expert and its gate
  MoeWeights() {
    rows.emplace_back(TensorType::kF32, kExperts, 64, 10);
    for (int i = 0; i < kExperts; ++i) rows.emplace_back(TensorType::kQ4_0, 96, 64, 20 + i);
    for (int i = 0; i < kExperts; ++i) rows.emplace_back(TensorType::kQ5_1, 96, 64, 30 + i);
    for (int i = 0; i < kExperts; ++i) rows.emplace_back(TensorType::kQ8_0, 64, 96, 40 + i);
    rows.emplace_back(TensorType::kQ4_0, 32, 64, 50);
    rows.emplace_back(TensorType::kQ4_0, 32, 64, 51);
    rows.emplace_back(TensorType::kQ8_0, 64, 32, 52);
    rows.emplace_back(TensorType::kF32, 1, 64, 53);
  }
};

struct LoadedMoe {
  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<Expert> experts;
  Expert shared;

  LoadedMoe(Backend& backend, const MoeWeights& weights) {
    constexpr size_t n = MoeWeights::kExperts;
    for (const TestRows& rows : weights.rows) matrices.push_back(Load(backend, rows));
    for (size_t i = 0; i < n; ++i) {
      experts.push_back({matrices[1 + i].get(), matrices[1 + n + i].get(), matrices[1 + 2 * n + i].get()});
    }
    shared = {matrices[1 + 3 * n].get(), matrices[2 + 3 * n].get(), matrices[3 + 3 * n].get()};
  }
  MoeArgs args(const Activations& x, int rows, float* out) const {
    return {.x = x,
            .rows = rows,
            .router = matrices[0].get(),
            .experts = experts,
            .top_k = 2,
            .normalize = true,
            .weight_scale = 1.5f,
            .activation = Activation::kSilu,
            .shared = &shared,
            .shared_gate = matrices.back().get(),
            .out = out};
  }
};

TEST(MoeFfnOp, SumsTheChosenExpertsAndTheSharedOne) {
  const MoeWeights weights;
  std::vector<std::vector<double>> w;
  for (const TestRows& rows : weights.rows) w.push_back(Decoded(rows));
  constexpr size_t n = MoeWeights::kExperts;
  const std::vector<float> x = Random(5 * 64, 60, 3), residual = Random(5 * 64, 61);
  const auto ffn = [&](const std::vector<double>& gate, const std::vector<double>& up, const std::vector<double>& down,
                       const double* input) {
    std::vector<double> h = Apply(gate, input, 64);
    const std::vector<double> u = Apply(up, input, 64);
    for (size_t i = 0; i < h.size(); ++i) h[i] = h[i] / (1 + std::exp(-h[i])) * u[i];
    return Apply(down, h.data(), h.size());
  };
  for (Configuration& c : Configurations(2)) {
    const LoadedMoe moe(*c.backend, weights);
    Rows input = Quantized(*c.backend, x, 5, 64);
    for (const bool normalize : {false, true}) {
      for (const bool shared : {false, true}) {
        std::vector<float> out = residual;
        MoeArgs args = moe.args(input.view, 5, out.data());
        args.normalize = normalize;
        if (!shared) args.shared = nullptr;
        c.backend->MoeFfn(args);
        for (size_t row = 0; row < 5; ++row) {
          const std::vector<double> xd(x.begin() + static_cast<int64_t>(row) * 64,
                                       x.begin() + static_cast<int64_t>(row + 1) * 64);
          std::vector<double> p = Apply(w[0], xd.data(), 64);
          double total = 0;
          for (double& v : p) total += v = std::exp(v);
          size_t best = 0, second = 1;
          if (p[1] > p[0]) std::swap(best, second);
          for (size_t e = 2; e < n; ++e) {
            if (p[e] > p[best]) {
              second = best, best = e;
            } else if (p[e] > p[second]) {
              second = e;
            }
          }
          const double divisor = normalize ? p[best] + p[second] : total;
          std::vector<double> y(64);
          for (const size_t e : {best, second}) {
            const std::vector<double> part = ffn(w[1 + e], w[1 + n + e], w[1 + 2 * n + e], xd.data());
            for (size_t i = 0; i < 64; ++i) y[i] += 1.5 * p[e] / divisor * part[i];
          }
          if (shared) {
            const double gate = 1 / (1 + std::exp(-Apply(w.back(), xd.data(), 64)[0]));
            const std::vector<double> part = ffn(w[1 + 3 * n], w[2 + 3 * n], w[3 + 3 * n], xd.data());
            for (size_t i = 0; i < 64; ++i) y[i] += gate * part[i];
          }
          for (size_t i = 0; i < 64; ++i) {
            ASSERT_NEAR(out[row * 64 + i], residual[row * 64 + i] + y[i], Tolerance(c) * 4 * Norm2(y) + 1e-6)
                << c.name() << " row " << row << " normalize " << normalize << " shared " << shared;
          }
        }
      }
    }
  }
}

TEST(MoeFfnOp, TiesGoToTheLowerExpert) {
  MoeWeights weights;
  std::fill(weights.rows[0].bytes.begin(), weights.rows[0].bytes.end(), std::byte{0});  // every expert is as likely
  for (Configuration& c : Configurations(1)) {
    const LoadedMoe moe(*c.backend, weights);
    const std::vector<float> x = Random(64, 62);
    Rows input = Quantized(*c.backend, x, 1, 64);
    std::vector<float> out(64), only(64);
    MoeArgs args = moe.args(input.view, 1, out.data());
    args.shared = nullptr;
    c.backend->MoeFfn(args);
    // The same with nothing but the first two experts to choose from.
    TestRows router(TensorType::kF32, 2, 64, 1);
    std::fill(router.bytes.begin(), router.bytes.end(), std::byte{0});
    const auto small = Load(*c.backend, router);
    args.router = small.get();
    args.experts = {moe.experts.data(), 2};
    args.out = only.data();
    c.backend->MoeFfn(args);
    EXPECT_EQ(out, only) << c.name();
  }
}

// numerics.md: the bits of a row depend on that row alone.
TEST(CpuBackend, EveryOpGivesARowTheSameBitsAloneAndInABatch) {
  constexpr int kRows = 13;
  constexpr int64_t kCols = 64;
  const MoeWeights weights;
  const TestRows proj(TensorType::kQ6_K, 300, 256, 70);
  const std::vector<float> x = Random(kRows * kCols, 71, 2), wide = Random(kRows * 256, 72),
                           norm_weight = Random(kCols, 73);
  std::vector<Configuration> one = Configurations(1), two = Configurations(2);
  for (size_t i = 0; i < one.size(); ++i) {
    const auto run = [&](Backend& backend, int first, int rows) {
      const LoadedMoe moe(backend, weights);
      const auto matrix = Load(backend, proj);
      std::vector<float> result;
      const auto keep = [&](const auto& values) {
        for (int row = 0; row < rows; ++row) {
          const size_t width = values.size() / static_cast<size_t>(rows);
          for (size_t k = 0; k < width; ++k)
            result.push_back(static_cast<float>(values[static_cast<size_t>(row) * width + k]));
        }
      };
      Rows normed(backend, rows, kCols);
      backend.Norm({.x = x.data() + first * kCols,
                    .weight = norm_weight.data(),
                    .eps = 1e-5f,
                    .rows = rows,
                    .cols = kCols,
                    .out = normed.view});
      keep(normed.f32);
      if (!normed.codes.empty()) keep(normed.codes);
      std::vector<float> residual(static_cast<size_t>(rows * kCols), 1);
      backend.NormAdd({.x = x.data() + first * kCols,
                       .weight = norm_weight.data(),
                       .eps = 1e-5f,
                       .rows = rows,
                       .cols = kCols,
                       .residual = residual.data()});
      keep(residual);
      backend.MoeFfn(moe.args(normed.view, rows, residual.data()));
      keep(residual);
      Rows hidden(backend, rows, 96);
      backend.Glu({.x = normed.view,
                   .rows = rows,
                   .gate = moe.experts[0].gate,
                   .up = moe.experts[0].up,
                   .activation = Activation::kGeluTanh,
                   .out = hidden.view});
      keep(hidden.f32);
      std::vector<float> batch(wide.begin() + first * 256, wide.begin() + (first + rows) * 256);
      Rows input = Quantized(backend, batch, rows, 256);
      std::vector<float> out(static_cast<size_t>(rows * 300));
      const Product product = {matrix.get(), nullptr, out.data(), 300};
      backend.MatMul({.x = input.view, .rows = rows, .products = {&product, 1}, .softcap = 5});
      keep(out);
      return result;
    };
    const std::vector<float> all = run(*two[i].backend, 0, kRows);
    ASSERT_EQ(all.size() % kRows, 0u);
    EXPECT_EQ(std::memcmp(all.data(), run(*one[i].backend, 0, kRows).data(), all.size() * sizeof(float)), 0)
        << one[i].name() << ": one and two threads differ";
    // Sections of `all` are [rows, width]; row by row the same sections are [1, width].
    std::vector<size_t> widths = {64};
    if (two[i].backend->Quantizes(kCols)) widths.push_back(64);
    for (const size_t width : {64, 64, 96, 300}) widths.push_back(width);
    for (const int row : {0, 5, kRows - 1}) {
      const std::vector<float> alone = run(*two[i].backend, row, 1);
      size_t section = 0, at = 0;
      for (const size_t width : widths) {
        ASSERT_EQ(std::memcmp(alone.data() + at, all.data() + section + static_cast<size_t>(row) * width,
                              width * sizeof(float)),
                  0)
            << one[i].name() << " row " << row << ", the section of width " << width << " at " << at;
        at += width;
        section += width * kRows;
      }
      ASSERT_EQ(at, alone.size());
    }
  }
}

TEST(CpuBackend, CopiesAreDoneWhenCopyReturns) {
  auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok());
  std::vector<std::byte> from(100, std::byte{5}), to(100);
  const CopyItem items[] = {{to.data(), from.data(), 40}, {to.data() + 60, from.data(), 40}};
  (*backend)->Wait((*backend)->Copy(CopyDirection::kHostToDevice, items));
  EXPECT_EQ(to[39], std::byte{5});
  EXPECT_EQ(to[40], std::byte{0});
  EXPECT_EQ(to[99], std::byte{5});
  (*backend)->Synchronize();
}

}  // namespace
}  // namespace kvasir::backend
