// backend/contract_machine.h
// What the contract tests of backends share: a backend of each kind and level, with uploads and downloads through Copy,
// as everyone has to do them; and one layer's attention run through it.
//
// Thread rule: one thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/factory.h"
#include "backend/quant.h"
#include "base/check.h"

namespace kvasir::backend::contract {

struct Kind {
  std::string name;  // "cpu" or "sim"
  std::string level;
  int threads = 2;
  Compute compute = Compute::kFast;
};

inline std::unique_ptr<Backend> Create(const Kind& kind) {
  const CpuOptions cpu{.level = kind.level, .threads = kind.threads, .compute = kind.compute};
  auto created = kind.name == "cpu" ? CreateCpuBackend(cpu) : CreateSimBackend({.cpu = cpu});
  KVASIR_CHECK(created.ok(), "{}", created.error().message());
  return std::move(created).value();
}

// The RMS norm of one row, the plain way.
inline std::vector<double> Normed(const std::vector<double>& x, const std::vector<float>& weight, double eps) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / std::sqrt(squares / static_cast<double>(x.size()) + eps) * double{weight[i]};
  }
  return y;
}

// Uploads and downloads through Copy, as everyone has to.
class Machine {
 public:
  explicit Machine(const Kind& kind) : backend_(Create(kind)) {}
  Backend& operator*() { return *backend_; }
  Backend* operator->() { return backend_.get(); }

  // Device memory that lives as long as the machine.
  template <typename T>
  T* Upload(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    T* device = Zeros<T>(values.size());
    Buffer host = std::move(backend_->Allocate(MemoryKind::kHost, bytes)).value();
    std::memcpy(host.address(), values.data(), bytes);
    const CopyItem item{.to = reinterpret_cast<std::byte*>(device), .from = host.address(), .bytes = bytes};
    backend_->Wait(backend_->Copy(CopyDirection::kHostToDevice, {&item, 1}));
    backend_->Synchronize();
    return device;
  }

  template <typename T>
  T* Zeros(size_t count) {
    buffers_.push_back(std::move(backend_->Allocate(MemoryKind::kDevice, count * sizeof(T))).value());
    return buffers_.back().template as<T>();
  }

  template <typename T>
  std::vector<T> Download(const T* device, size_t count) {
    Buffer host = std::move(backend_->Allocate(MemoryKind::kHost, count * sizeof(T))).value();
    const CopyItem item{
        .to = host.address(), .from = reinterpret_cast<const std::byte*>(device), .bytes = count * sizeof(T)};
    backend_->Wait(backend_->Copy(CopyDirection::kDeviceToHost, {&item, 1}));
    backend_->Synchronize();
    return {host.as<T>(), host.as<T>() + count};
  }

  std::unique_ptr<Matrix> Load(TensorType type, const std::vector<float>& values, int64_t rows, int64_t cols) {
    std::vector<std::byte> bytes(static_cast<size_t>(*TensorBytes(type, rows * cols)));
    KVASIR_CHECK(Encode(type, values, bytes.data()).ok());
    return std::move(backend_->LoadMatrix({.type = type, .rows = rows, .cols = cols, .bytes = bytes.data()})).value();
  }

  // Room for activations in the forms that this backend's products read.
  Activations NewActivations(int rows, int cols) {
    const auto n = static_cast<size_t>(rows * cols);
    Activations x{.f32 = Zeros<float>(n)};
    if (backend_->Quantizes(cols)) {
      x.codes = Zeros<int8_t>(n);
      x.scales = Zeros<float>(n / 32);
      x.sums = Zeros<float>(n / 32);
    }
    return x;
  }

  Activations Upload(const std::vector<float>& values, int rows, int cols) {
    const Activations x = NewActivations(rows, cols);
    backend_->Norm({.x = Upload(values), .rows = rows, .cols = cols, .out = x});
    return x;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
};

inline std::vector<float> Random(size_t count, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random) * scale;
  return values;
}

inline std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  for (const std::string& level : AvailableCpuLevels()) {
    kinds.push_back({.name = "cpu", .level = level});
    kinds.push_back({.name = "sim", .level = level});
    kinds.push_back({.name = "cpu", .level = level, .compute = Compute::kF32});
  }
  return kinds;
}

inline std::string NameOf(const Kind& kind) {
  return fmt::format("{}_{}_{}", kind.name, kind.level, kind.compute == Compute::kFast ? "fast" : "f32");
}

inline void PrintTo(const Kind& kind, std::ostream* out) {
  *out << NameOf(kind);
}

// A whole attention of one layer: rows of one sequence appended in chunks to pages, spans attended, partials merged.
struct AttentionCase {
  PageFormat format = {.k = KvType::kF32, .v = KvType::kF32, .dk = 64, .dv = 96};
  int q_heads = 6, kv_heads = 2;
  int tokens = 300;
  int window = 0;
  float softcap = 0;
  std::vector<int> chunks = {300};
};

struct AttentionInput {
  explicit AttentionInput(const AttentionCase& c)
      : q(Random(static_cast<size_t>(c.tokens * c.q_heads * c.format.dk), 31)),
        k(Random(static_cast<size_t>(c.tokens * c.kv_heads * c.format.dk), 32)),
        v(Random(static_cast<size_t>(c.tokens * c.kv_heads * c.format.dv), 33)),
        norm(Random(static_cast<size_t>(c.format.dk), 34)) {
    for (int t = 0; t < c.tokens; ++t) {
      for (int i = 0; i < c.format.dk / 2; ++i) {
        const double angle = t * std::pow(10000.0, -2.0 * i / c.format.dk);
        cos_sin.push_back(static_cast<float>(std::cos(angle)));
        cos_sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  std::vector<float> q, k, v, norm, cos_sin;
};

inline std::vector<float> RunAttention(Machine& machine, const AttentionCase& c) {
  const AttentionInput input(c);
  const int group = c.q_heads / c.kv_heads;
  const int blocks = (c.tokens + kBlockTokens - 1) / kBlockTokens, spans = (c.tokens + kSpanTokens - 1) / kSpanTokens;
  const size_t page_bytes = c.format.page_bytes();
  std::byte* pages = machine.Zeros<std::byte>(static_cast<size_t>(blocks * c.kv_heads) * page_bytes);
  const auto page = [&](int block, int head) {
    return pages + static_cast<size_t>(block * c.kv_heads + head) * page_bytes;
  };
  float* q = machine.Upload(input.q);
  float* k = machine.Upload(input.k);
  const float* v = machine.Upload(input.v);
  const float* norm = machine.Upload(input.norm);
  const float* cos_sin = machine.Upload(input.cos_sin);
  float* out = machine.Zeros<float>(static_cast<size_t>(c.tokens * c.q_heads * c.format.dv));
  int begin = 0;
  for (const int chunk : c.chunks) {
    std::vector<std::byte*> row_pages;
    std::vector<int32_t> page_rows;
    for (int t = begin; t < begin + chunk; ++t) {
      page_rows.push_back(t % kBlockTokens);
      for (int head = 0; head < c.kv_heads; ++head) row_pages.push_back(page(t / kBlockTokens, head));
    }
    machine->RopeAppend({.rows = chunk,
                         .q_heads = c.q_heads,
                         .kv_heads = c.kv_heads,
                         .format = c.format,
                         .q = q + begin * c.q_heads * c.format.dk,
                         .k = k + begin * c.kv_heads * c.format.dk,
                         .v = v + begin * c.kv_heads * c.format.dv,
                         .q_norm = norm,
                         .k_norm = norm,
                         .eps = 1e-5f,
                         .rope = RopeKind::kNeox,
                         .n_rot = c.format.dk,
                         .cos_sin = cos_sin + begin * c.format.dk,
                         .q_scale = 1 / std::sqrt(static_cast<float>(c.format.dk)),
                         .pages = row_pages,
                         .page_rows = page_rows});
    const int64_t stride = int64_t{chunk} * group * PartialStride(c.format.dv);
    float* partials = machine.Zeros<float>(static_cast<size_t>(stride * spans * c.kv_heads));
    std::vector<AttendTask> tasks;
    std::vector<MergeTask> merges;
    for (int head = 0; head < c.kv_heads; ++head) {
      float* first = partials + head * spans * stride;
      merges.push_back(
          {.row_begin = begin, .rows = chunk, .unit = head, .count = spans, .partials = first, .stride = stride});
      for (int span = 0; span < spans; ++span) {
        AttendTask task{.row_begin = begin,
                        .rows = chunk,
                        .first_position = begin,
                        .unit = head,
                        .span_begin = span * kSpanTokens,
                        .keys = std::min(kSpanTokens, begin + chunk - span * kSpanTokens),
                        .partial = first + span * stride};
        for (int i = 0; i * kBlockTokens < task.keys; ++i) task.pages[i] = page(span * kSpanBlocks + i, head);
        if (task.keys > 0) tasks.push_back(task);
      }
      merges.back().count = (begin + chunk + kSpanTokens - 1) / kSpanTokens;
    }
    machine->Attend({.q = q,
                     .q_heads = c.q_heads,
                     .group = group,
                     .format = c.format,
                     .window = c.window,
                     .softcap = c.softcap,
                     .tasks = tasks});
    machine->Merge({.q_heads = c.q_heads, .group = group, .dv = c.format.dv, .tasks = merges, .out = out});
    begin += chunk;
  }
  return machine.Download(out, static_cast<size_t>(c.tokens * c.q_heads * c.format.dv));
}

inline std::vector<AttentionCase> FormatCases() {
  constexpr std::pair<KvType, KvType> kPairs[] = {{KvType::kF32, KvType::kF32},
                                                  {KvType::kF16, KvType::kF16},
                                                  {KvType::kQ8_0, KvType::kQ8_0},
                                                  {KvType::kF16, KvType::kQ8_0}};
  std::vector<AttentionCase> cases;
  for (const auto& [k, v] : kPairs) {
    cases.push_back(
        {.format = {.k = k, .v = v, .dk = 64, .dv = 32}, .q_heads = 3, .kv_heads = 1, .tokens = 270, .chunks = {270}});
  }
  return cases;
}

}  // namespace kvasir::backend::contract
