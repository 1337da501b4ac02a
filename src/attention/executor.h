// attention/executor.h
// Attention of one layer: new K and V go to their pages, then every query row attends the pages it sees, wherever they
// live.
//
// Each (row, head, span) gives one partial, computed where the span's pages are: in place for lanes whose home the
// backend can read, otherwise from pages copied through a few device slots (stream_window.h). Partials fold left in
// span order, so the bits do not depend on the placement. What it does not do: choose placements, grow sequences, or
// know what q, k and v mean.
//
// Thread rule: engine thread only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "attention/wave_plan.h"
#include "backend/backend.h"
#include "base/result.h"
#include "kv/kv_cache.h"

namespace kvasir::attention {

struct ExecutorLimits {
  int max_rows = 512;      // query rows of a step
  int max_sequences = 64;  // slices of a step
  size_t partial_bytes =
      size_t{32} << 20;  // device memory for partials; a long context makes more waves, not more memory
  int stream_slots = 4;  // spans in flight per streamed lane
};

// What a layer asks for. Pointers are device memory.
struct LayerInputs {
  float* q = nullptr;        // [rows, q_heads, dk]; rotated in place
  float* k = nullptr;        // [rows, kv_heads, dk]
  const float* v = nullptr;  // [rows, kv_heads, dv]
  int q_heads = 0;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float eps = 0;
  backend::RopeKind rope = backend::RopeKind::kNone;
  int n_rot = 0;
  const float* cos_sin = nullptr;  // [rows, n_rot / 2, 2]
  float q_scale = 1;
  float softcap = 0;
};

class StreamWindow;

class Executor {
 public:
  // kResourceExhausted when the partials or the stream slots do not fit the device.
  static Result<std::unique_ptr<Executor>> Create(backend::Backend& backend, const kv::KvCache& cache, int max_q_heads,
                                                  ExecutorLimits limits);
  ~Executor();

  // The rows of the step. Each slice's sequence has pages reserved for its positions.
  // REQUIRES: slices are disjoint and in row order; within the limits.
  void BeginStep(std::span<const Slice> slices);

  // out: [rows, q_heads, dv].
  void Run(int layer, const LayerInputs& inputs, float* out);

 private:
  Executor(backend::Backend& backend, const kv::KvCache& cache, ExecutorLimits limits, backend::Buffer partials);

  // A span of a streamed lane: one transfer serves every tile of the wave that sees it.
  struct Chunk {
    kv::Lane lane;
    int slice = 0;
    int unit = 0;
    int span = 0;  // index
    int keys = 0;
  };
  // The waves of the step for layers of one shape.
  struct Plan {
    int q_heads = 0;
    int window = 0;
    int dv = 0;
    std::vector<Wave> waves;
  };
  // Where a wave's partial records lie: [tile][unit][span][row][head of the group].
  struct Records {
    float* first = nullptr;
    int group = 0;
    int64_t floats = 0;  // of one record

    float* Of(const Tile& tile, int unit, int span) const;
  };

  bool InPlace(const kv::Lane& lane) const;
  const std::vector<Wave>& WavesFor(const kv::LayerShape& shape, int q_heads);
  void Append(int layer, const LayerInputs& inputs);
  void RunWave(int layer, const LayerInputs& inputs, const Wave& wave, float* out);
  void AddChunk(const kv::Lane& lane, const Tile& tile, int unit, int span);
  void AttendStreamed(backend::AttendArgs attend, const Wave& wave, const Records& records);

  backend::Backend& backend_;
  const kv::KvCache& cache_;
  ExecutorLimits limits_;
  backend::Buffer partials_;
  std::unique_ptr<StreamWindow> stream_;  // null when every lane is read in place
  std::vector<Slice> slices_;
  int rows_ = 0;
  std::vector<Plan> plans_;  // of this step
  // Scratch of a call, kept to allocate nothing in the steady state.
  std::vector<std::byte*> append_pages_;  // [rows, kv_heads]
  std::vector<int32_t> append_rows_;      // [rows]
  std::vector<backend::AttendTask> tasks_;
  std::vector<backend::MergeTask> merges_;
  std::vector<Chunk> chunks_;
};

}  // namespace kvasir::attention
