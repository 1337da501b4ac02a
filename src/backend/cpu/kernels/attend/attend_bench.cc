// Attention over spans: decode in GB/s of KV read, prefill in Gflop/s (4 dk flops per visible query and key).
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/attend/attend.h"
#include "backend/cpu/kernels/attend/attend_variants.h"
#include "backend/cpu/kernels/page/page.h"
#include "base/thread_pool.h"

namespace kvasir::backend::cpu {
namespace {

struct Model {
  const char* name;
  int dim, group, kv_heads;
};

constexpr Model kModels[] = {{"d64g7", 64, 7, 2}, {"d128g6", 128, 6, 2}, {"d256g4", 256, 4, 1}, {"d128g4", 128, 4, 8}};

// `layers` copies of a layer's KV, used in turn, so that pages come from memory as they do in a model.
struct Fixture {
  Fixture(const AttendVariant& variant, const Model& shape, int key_count, int row_count, int layers)
      : model(shape), keys(key_count), rows(row_count) {
    format = {.k = variant.k, .v = variant.v, .dk = shape.dim, .dv = shape.dim};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(shape.dim));
    layer_pages = static_cast<size_t>(keys / 32 * shape.kv_heads);
    pages.resize(static_cast<size_t>(layers) * layer_pages * format.page_bytes() / 64 + 1);
    for (size_t page = 0; page < layer_pages * static_cast<size_t>(layers); ++page) {
      std::byte* at = reinterpret_cast<std::byte*>(pages.data()) + page * format.page_bytes();
      if (page > 0) {
        std::memcpy(at, pages.data(), format.page_bytes());
        continue;
      }
      for (int p = 0; p < 32; ++p) {
        for (float& value : x) value = normal(random);
        EncodeKey(Level::kRef, variant.k)(x.data(), shape.dim, p, at, at + format.k_scales());
        EncodeValue(Level::kRef, variant.v)(x.data(), shape.dim, p, at + format.v_codes(), at + format.v_scales());
      }
    }
    q.resize(static_cast<size_t>(rows * shape.group * shape.kv_heads * shape.dim), 0.01f);
    const int rows_per_task = 64;
    int64_t records = 0;
    for (int head = 0; head < shape.kv_heads; ++head) {
      for (int begin = 0; begin < rows; begin += rows_per_task) {
        for (int span = 0; span * kSpanTokens < keys; ++span) {
          const int count = std::min(rows_per_task, rows - begin);
          const int64_t q_stride = int64_t{shape.group} * shape.kv_heads * shape.dim;
          SpanTask task{.q = q.data() + begin * q_stride + head * shape.group * shape.dim,
                        .q_stride = q_stride,
                        .rows = count,
                        .group = shape.group,
                        .dk = shape.dim,
                        .dv = shape.dim,
                        .first_position = keys - rows + begin,
                        .span_begin = span * kSpanTokens,
                        .keys = std::min(kSpanTokens, keys - span * kSpanTokens),
                        .k_scales = format.k_scales(),
                        .v_codes = format.v_codes(),
                        .v_scales = format.v_scales(),
                        .partial_stride = PartialStride(shape.dim)};
          first_page.push_back(static_cast<size_t>(head * (keys / 32) + span * kSpanBlocks));
          tasks.push_back(task);
          records += count * shape.group;
        }
      }
    }
    partials.resize(static_cast<size_t>(records * PartialStride(shape.dim)));
    float* at = partials.data();
    for (SpanTask& task : tasks) {
      task.partial = at;
      at += task.rows * task.group * task.partial_stride;
    }
  }

  void Run(ThreadPool& pool, AttendFunction attend, int layer) {
    pool.Run(static_cast<int64_t>(tasks.size()), [&](int64_t index, int) {
      SpanTask task = tasks[static_cast<size_t>(index)];
      const size_t first = static_cast<size_t>(layer) * layer_pages + first_page[static_cast<size_t>(index)];
      for (size_t i = 0; i * 32 < static_cast<size_t>(task.keys); ++i) {
        task.pages[i] = reinterpret_cast<std::byte*>(pages.data()) + (first + i) * format.page_bytes();
      }
      attend(task);
    });
  }

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  Model model;
  int keys, rows;
  PageFormat format;
  size_t layer_pages = 0;
  std::vector<Line> pages;
  std::vector<float> q, partials;
  std::vector<SpanTask> tasks;
  std::vector<size_t> first_page;
};

void Decode(benchmark::State& state, AttendVariant variant, Model model, int threads, int keys) {
  if (!CpuHas(variant.level)) return state.SkipWithError("level missing");
  const PageFormat format{.k = variant.k, .v = variant.v, .dk = model.dim, .dv = model.dim};
  const size_t layer_bytes = static_cast<size_t>(keys / 32 * model.kv_heads) * format.page_bytes();
  const int layers = static_cast<int>(std::max<size_t>(1, (size_t{512} << 20) / layer_bytes));
  Fixture fixture(variant, model, keys, 1, layers);
  ThreadPool pool(threads);
  const AttendFunction attend = AttendSpan(variant.level, variant.k, variant.v);
  int layer = 0;
  for (auto _ : state) {
    fixture.Run(pool, attend, layer);
    layer = (layer + 1) % layers;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(layer_bytes));
}

void Prefill(benchmark::State& state, AttendVariant variant, Model model, int threads, int keys) {
  if (!CpuHas(variant.level)) return state.SkipWithError("level missing");
  constexpr int kRows = 512;
  Fixture fixture(variant, model, keys, kRows, 1);
  ThreadPool pool(threads);
  const AttendFunction attend = AttendSpan(variant.level, variant.k, variant.v);
  for (auto _ : state) fixture.Run(pool, attend, 0);
  const double visible = double{kRows} * (keys - kRows / 2.0) * model.group * model.kv_heads;
  state.counters["Gflop/s"] =
      benchmark::Counter(visible * 4 * model.dim * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

int RegisterAll() {
  for (const AttendVariant& variant : AttendVariants()) {
    for (const Model& model : kModels) {
      for (const int threads : {1, 2}) {
        const std::string tail =
            fmt::format("{}/{}_{}/{}/{}T", Name(variant.level), Name(variant.k), Name(variant.v), model.name, threads);
        for (const int keys : {4096, 16384}) {
          benchmark::RegisterBenchmark(fmt::format("AttendDecode/{}/{}", tail, keys).c_str(), Decode, variant, model,
                                       threads, keys)
              ->UseRealTime();
        }
        benchmark::RegisterBenchmark(fmt::format("AttendPrefill/{}/4096", tail).c_str(), Prefill, variant, model,
                                     threads, 4096)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  return 0;
}

const int kRegistered = RegisterAll();

}  // namespace
}  // namespace kvasir::backend::cpu
