#include "attention/executor.h"

#include <algorithm>
#include <deque>

#include "attention/stream_window.h"

namespace kvasir::attention {

using backend::kBlockTokens;
using backend::kSpanBlocks;
using backend::kSpanTokens;
using backend::PartialStride;

namespace {

// Positions of `span` that some row of `tile` may see, counted from the span's begin.
int KeysOf(const Tile& tile, int span) {
  return std::min(kSpanTokens, tile.first_position + tile.rows - span * kSpanTokens);
}

backend::AttendTask MakeTask(const Tile& tile, int unit, int span, float* partial) {
  return {.row_begin = tile.row_begin,
          .rows = tile.rows,
          .first_position = tile.first_position,
          .unit = unit,
          .span_begin = span * kSpanTokens,
          .keys = KeysOf(tile, span),
          .partial = partial};
}

}  // namespace

float* Executor::Records::Of(const Tile& tile, int unit, int span) const {
  const int64_t of_span = int64_t{tile.rows} * group;
  return first + (tile.record + (int64_t{unit} * tile.spans() + (span - tile.span_begin)) * of_span) * floats;
}

Executor::Executor(backend::Backend& backend, const kv::KvCache& cache, ExecutorLimits limits, backend::Buffer partials)
    : backend_(backend), cache_(cache), limits_(limits), partials_(std::move(partials)) {}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::Create(backend::Backend& backend, const kv::KvCache& cache, int max_q_heads,
                                                   ExecutorLimits limits) {
  // One row of one head must fit with a few spans; beyond that the plan makes waves.
  int widest = 0;
  for (const kv::LayerShape& layer : cache.shape().layers) widest = std::max(widest, PartialStride(layer.format.dv));
  const size_t least = size_t{64} * static_cast<size_t>(widest) * static_cast<size_t>(max_q_heads) * sizeof(float);
  KVASIR_ASSIGN_OR_RETURN(backend::Buffer partials,
                          backend.Allocate(backend::MemoryKind::kDevice, std::max(limits.partial_bytes, least)));
  std::unique_ptr<Executor> executor(new Executor(backend, cache, limits, std::move(partials)));
  const auto& placement = cache.placement();
  if (!std::all_of(placement.begin(), placement.end(), [&](const kv::Lane& lane) { return executor->InPlace(lane); })) {
    KVASIR_ASSIGN_OR_RETURN(executor->stream_, StreamWindow::Create(backend, cache, limits.max_rows,
                                                                    limits.max_sequences, limits.stream_slots));
  }
  return executor;
}

bool Executor::InPlace(const kv::Lane& lane) const {
  return lane.home == kv::Tier::kDevice || backend_.profile().device_is_host;
}

void Executor::BeginStep(std::span<const Slice> slices) {
  slices_.assign(slices.begin(), slices.end());
  rows_ = 0;
  append_rows_.clear();
  plans_.clear();
  for (const Slice& slice : slices_) {
    KVASIR_CHECK(slice.row_begin == rows_ && slice.rows > 0);
    rows_ += slice.rows;
    for (int row = 0; row < slice.rows; ++row) append_rows_.push_back((slice.first_position + row) % kBlockTokens);
  }
  KVASIR_CHECK(rows_ <= limits_.max_rows, "a step of {} rows, but at most {} were planned for", rows_,
               limits_.max_rows);
  if (stream_ != nullptr) stream_->BeginStep(slices_);
}

void Executor::Append(int layer, const LayerInputs& inputs) {
  const kv::LayerShape& shape = cache_.shape().layers[static_cast<size_t>(layer)];
  const auto lanes = cache_.lanes(layer);
  const auto units = static_cast<size_t>(shape.units);
  append_pages_.resize(static_cast<size_t>(rows_) * units);
  for (const kv::Lane& lane : lanes) {
    if (!InPlace(lane)) stream_->StageForAppend(lane);
    for (size_t s = 0; s < slices_.size(); ++s) {
      const Slice& slice = slices_[s];
      const auto blocks = cache_.blocks(slice.sequence);
      for (int row = 0; row < slice.rows; ++row) {
        const int block = (slice.first_position + row) / kBlockTokens;
        std::byte** const pages = append_pages_.data() + static_cast<size_t>(slice.row_begin + row) * units;
        for (int unit = lane.unit_begin; unit < lane.unit_end; ++unit) {
          pages[unit] = InPlace(lane) ? cache_.Page(blocks[static_cast<size_t>(block)], layer, unit)
                                      : stream_->StagedPage(lane, static_cast<int>(s), block, unit);
        }
      }
    }
  }
  backend_.RopeAppend({.rows = rows_,
                       .q_heads = inputs.q_heads,
                       .kv_heads = shape.units,
                       .format = shape.format,
                       .q = inputs.q,
                       .k = inputs.k,
                       .v = inputs.v,
                       .q_norm = inputs.q_norm,
                       .k_norm = inputs.k_norm,
                       .eps = inputs.eps,
                       .rope = inputs.rope,
                       .n_rot = inputs.n_rot,
                       .cos_sin = inputs.cos_sin,
                       .q_scale = inputs.q_scale,
                       .pages = append_pages_,
                       .page_rows = append_rows_});
  for (const kv::Lane& lane : lanes) {
    if (!InPlace(lane)) stream_->WriteBack(lane);
  }
}

const std::vector<Wave>& Executor::WavesFor(const kv::LayerShape& shape, int q_heads) {
  const int dv = shape.format.dv;
  for (const Plan& plan : plans_) {
    if (plan.q_heads == q_heads && plan.window == shape.window && plan.dv == dv) return plan.waves;
  }
  const auto max_records =
      static_cast<int64_t>(partials_.bytes() / (static_cast<size_t>(PartialStride(dv)) * sizeof(float)));
  plans_.push_back({q_heads, shape.window, dv, PlanWaves(slices_, q_heads, shape.window, max_records)});
  return plans_.back().waves;
}

void Executor::Run(int layer, const LayerInputs& inputs, float* out) {
  Append(layer, inputs);
  const kv::LayerShape& shape = cache_.shape().layers[static_cast<size_t>(layer)];
  for (const Wave& wave : WavesFor(shape, inputs.q_heads)) RunWave(layer, inputs, wave, out);
}

void Executor::RunWave(int layer, const LayerInputs& inputs, const Wave& wave, float* out) {
  const kv::LayerShape& shape = cache_.shape().layers[static_cast<size_t>(layer)];
  const int group = inputs.q_heads / shape.units;
  const Records records{.first = partials_.as<float>(), .group = group, .floats = PartialStride(shape.format.dv)};
  tasks_.clear();
  merges_.clear();
  chunks_.clear();
  for (const kv::Lane& lane : cache_.lanes(layer)) {
    const bool in_place = InPlace(lane);
    for (int unit = lane.unit_begin; unit < lane.unit_end; ++unit) {
      for (const Tile& tile : wave) {
        merges_.push_back({.row_begin = tile.row_begin,
                           .rows = tile.rows,
                           .unit = unit,
                           .count = tile.spans(),
                           .partials = records.Of(tile, unit, tile.span_begin),
                           .stride = int64_t{tile.rows} * group * records.floats});
        const auto blocks = cache_.blocks(slices_[static_cast<size_t>(tile.slice)].sequence);
        for (int span = tile.span_begin; span < tile.span_end; ++span) {
          if (!in_place) {
            AddChunk(lane, tile, unit, span);
            continue;
          }
          backend::AttendTask& task = tasks_.emplace_back(MakeTask(tile, unit, span, records.Of(tile, unit, span)));
          for (int i = 0; i * kBlockTokens < task.keys; ++i) {
            task.pages[i] = cache_.Page(blocks[static_cast<size_t>(span * kSpanBlocks + i)], layer, unit);
          }
        }
      }
    }
  }
  const backend::AttendArgs attend{.q = inputs.q,
                                   .q_heads = inputs.q_heads,
                                   .group = group,
                                   .format = shape.format,
                                   .window = shape.window,
                                   .softcap = inputs.softcap,
                                   .tasks = tasks_};
  if (chunks_.empty()) {
    backend_.Attend(attend);
  } else {
    AttendStreamed(attend, wave, records);
  }
  backend_.Merge({.q_heads = inputs.q_heads, .group = group, .dv = shape.format.dv, .tasks = merges_, .out = out});
}

void Executor::AddChunk(const kv::Lane& lane, const Tile& tile, int unit, int span) {
  // Tiles of a slice are neighbours in a wave, and the later ones see more.
  const auto same = std::find_if(chunks_.rbegin(), chunks_.rend(), [&](const Chunk& chunk) {
    return chunk.slice == tile.slice && chunk.unit == unit && chunk.span == span;
  });
  if (same == chunks_.rend()) {
    chunks_.push_back({lane, tile.slice, unit, span, KeysOf(tile, span)});
  } else {
    same->keys = std::max(same->keys, KeysOf(tile, span));
  }
}

void Executor::AttendStreamed(backend::AttendArgs attend, const Wave& wave, const Records& records) {
  std::deque<StreamWindow::Transfer> in_flight;
  size_t started = 0;
  const auto start_next = [&] {
    if (started == chunks_.size()) return;
    const Chunk& chunk = chunks_[started++];
    in_flight.push_back(stream_->Start(chunk.lane, chunk.slice, chunk.unit, chunk.span, chunk.keys));
  };
  // The first copies travel while the resident lanes are attended. One slot less than there are: the last is being
  // read.
  for (int i = 0; i + 1 < stream_->slots(); ++i) start_next();
  if (!tasks_.empty()) backend_.Attend(attend);
  for (const Chunk& chunk : chunks_) {
    const StreamWindow::Transfer transfer = in_flight.front();
    in_flight.pop_front();
    start_next();
    stream_->Await(transfer);
    tasks_.clear();
    for (const Tile& tile : wave) {
      if (tile.slice != chunk.slice || chunk.span < tile.span_begin || chunk.span >= tile.span_end) continue;
      backend::AttendTask& task =
          tasks_.emplace_back(MakeTask(tile, chunk.unit, chunk.span, records.Of(tile, chunk.unit, chunk.span)));
      for (size_t i = 0; i * kBlockTokens < static_cast<size_t>(task.keys); ++i) task.pages[i] = transfer.pages[i];
    }
    attend.tasks = tasks_;
    backend_.Attend(attend);
  }
}

}  // namespace kvasir::attention
