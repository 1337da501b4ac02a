// GEMV (one row of activations, weights larger than any cache) in GB/s of weights, GEMM (512 rows) in Gop/s, per format
// and level.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/activation_rows.h"
#include "backend/cpu/kernels/matmul/matmul.h"
#include "backend/cpu/kernels/matmul/test_rows.h"
#include "backend/cpu/level.h"
#include "backend/cpu/products.h"
#include "backend/cpu/weights.h"

namespace kvasir::backend::cpu {
namespace {

constexpr int64_t kCols = 4096;

MatMulKernels KernelsOf(Level level) {
  return level == Level::kAvx512 ? avx512::KernelsOfThisCpu()
         : level == Level::kAvx2 ? avx2::kMatMulKernels
                                 : ref::kMatMulKernels;
}

void RunProducts(benchmark::State& state, TensorType type, Level level, int64_t rows, int columns, int threads) {
  // A few random rows, again and again: what is measured does not depend on the values.
  const TestRows sample(type, 32, kCols, 1);
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < rows; row += 32) bytes.insert(bytes.end(), sample.bytes.begin(), sample.bytes.end());
  ThreadPool pool(threads);
  const MatMulKernels kernels = KernelsOf(level);
  auto weight = CpuMatrix::Load({type, rows, kCols, bytes.data()}, kernels, Compute::kFast, pool);
  if (!weight.ok()) return state.SkipWithError(weight.error().message().c_str());
  bytes = {};

  ActivationBuffer buffer;
  const Activations x = buffer.Resize(columns, kCols, true);
  for (int64_t i = 0; i < columns * kCols; ++i) x.f32[i] = static_cast<float>(i % 61 - 30);
  for (int c = 0; c < columns; ++c) {
    const RowOut out = RowAt(x, c, kCols);
    ref::kRowKernels.norm(out.f32, nullptr, 0, kCols, out);
  }
  PackedColumns packed;
  ProductRunner runner(kernels, pool);
  std::vector<float> out(static_cast<size_t>(rows * columns));
  for (auto _ : state) {
    packed.Reset(x, columns, kCols);
    const ProductJob job = {&CpuMatrix::From(weight.value().get()), nullptr, &packed};
    runner.Run({&job, 1}, [&](const ChunkSums& sums) {
      for (int c = 0; c < sums.columns; ++c) {
        std::memcpy(out.data() + (sums.column + c) * rows + sums.row, sums.first + c * kChunkRows,
                    static_cast<size_t>(sums.rows) * sizeof(float));
      }
    });
    benchmark::ClobberMemory();
  }
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(weight.value()->bytes()) * iterations / 1e9, benchmark::Counter::kIsRate);
  state.counters["Gop/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(rows * kCols) * columns * iterations, benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const Level level : {Level::kAvx512, Level::kAvx2}) {
    if (!CpuHas(level)) continue;
    for (const TensorType type : kAllTestTypes) {
      for (const int threads : {1, 2}) {
        const int64_t large = (int64_t{256} << 20) / *TensorBytes(type, kCols) / 32 * 32;
        const std::string suffix =
            std::string(Name(type)) + "/" + std::string(Name(level)) + "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(
            ("Gemv/" + suffix).c_str(),
            [=](benchmark::State& state) { RunProducts(state, type, level, large, 1, threads); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark(
            ("Gemm512/" + suffix).c_str(),
            [=](benchmark::State& state) { RunProducts(state, type, level, 1024, 512, threads); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace kvasir::backend::cpu
