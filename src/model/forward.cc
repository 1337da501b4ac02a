#include "model/forward.h"

#include <algorithm>
#include <cmath>

namespace kvasir::model {

using backend::Activations;
using backend::Buffer;
using backend::CopyDirection;
using backend::CopyItem;
using backend::MemoryKind;

namespace {

// Logits of many rows are computed a few at a time, so that a 256k-token vocabulary does not cost a gigabyte.
constexpr int kLogitRows = 32;

size_t FloatBytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
}

backend::Expert Borrow(const ExpertWeights& expert) {
  return {.gate = expert.gate.get(), .up = expert.up.get(), .down = expert.down.get()};
}

const float* Floats(const Buffer& vector) {
  return vector.as<float>();
}

}  // namespace

Activations Forward::ActivationBuffer::view() const {
  return {.f32 = f32.as<float>(), .codes = codes.as<int8_t>(), .scales = scales.as<float>(), .sums = sums.as<float>()};
}

Forward::Forward(backend::Backend& backend, const ModelConfig& config, const Weights& weights,
                 attention::Executor& executor, int max_rows)
    : backend_(backend), config_(config), weights_(weights), executor_(executor), max_rows_(max_rows) {
  for (const RopeConfig& rope : config.ropes) ropes_.emplace_back(rope);
  for (const LayerWeights& layer : weights.layers) {
    std::vector<backend::Expert>& experts = experts_.emplace_back();
    for (const ExpertWeights& expert : layer.experts) experts.push_back(Borrow(expert));
  }
}

Result<std::unique_ptr<Forward>> Forward::Create(backend::Backend& backend, const ModelConfig& config,
                                                 const Weights& weights, attention::Executor& executor, int max_rows) {
  std::unique_ptr<Forward> forward(new Forward(backend, config, weights, executor, max_rows));
  KVASIR_RETURN_IF_ERROR(forward->Allocate());
  return forward;
}

Result<Forward::ActivationBuffer> Forward::AllocateActivations(int64_t rows, int64_t cols) {
  ActivationBuffer buffer;
  KVASIR_ASSIGN_OR_RETURN(buffer.f32, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, cols)));
  if (backend_.Quantizes(cols)) {
    KVASIR_ASSIGN_OR_RETURN(buffer.codes, backend_.Allocate(MemoryKind::kDevice, static_cast<size_t>(rows * cols)));
    KVASIR_ASSIGN_OR_RETURN(buffer.scales, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, cols / 32)));
    KVASIR_ASSIGN_OR_RETURN(buffer.sums, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, cols / 32)));
  }
  return buffer;
}

Status Forward::Allocate() {
  int64_t q_width = 0, k_width = 0, v_width = 0, out_width = 0, ff_width = 0;
  for (const LayerConfig& layer : config_.layers) {
    q_width = std::max(q_width, int64_t{layer.q_heads} * layer.dk);
    k_width = std::max(k_width, int64_t{layer.kv_heads} * layer.dk);
    v_width = std::max(v_width, int64_t{layer.kv_heads} * layer.dv);
    out_width = std::max(out_width, int64_t{layer.q_heads} * layer.dv);
    ff_width = std::max(ff_width, int64_t{layer.n_ff});
  }
  const int64_t rows = max_rows_, n_embd = config_.n_embd;
  KVASIR_ASSIGN_OR_RETURN(residual_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, n_embd)));
  KVASIR_ASSIGN_OR_RETURN(block_out_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, n_embd)));
  KVASIR_ASSIGN_OR_RETURN(chosen_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(kLogitRows, n_embd)));
  KVASIR_ASSIGN_OR_RETURN(q_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, q_width)));
  KVASIR_ASSIGN_OR_RETURN(k_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, k_width)));
  KVASIR_ASSIGN_OR_RETURN(v_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, v_width)));
  KVASIR_ASSIGN_OR_RETURN(normed_, AllocateActivations(rows, n_embd));
  KVASIR_ASSIGN_OR_RETURN(attended_, AllocateActivations(rows, out_width));
  if (ff_width > 0) {
    KVASIR_ASSIGN_OR_RETURN(hidden_, AllocateActivations(rows, ff_width));
  }
  logit_rows_ = std::min(kLogitRows, max_rows_);
  KVASIR_ASSIGN_OR_RETURN(logits_, backend_.Allocate(MemoryKind::kDevice, FloatBytes(logit_rows_, config_.n_vocab)));
  for (const RopeTable& rope : ropes_) {
    KVASIR_ASSIGN_OR_RETURN(Buffer table, backend_.Allocate(MemoryKind::kDevice, FloatBytes(rows, 2 * rope.pairs())));
    cos_sin_.push_back(std::move(table));
    cos_sin_host_.emplace_back();
  }
  return {};
}

size_t Forward::work_bytes() const {
  size_t sum = 0;
  for (const Buffer* buffer : {&residual_, &block_out_, &chosen_, &q_, &k_, &v_, &logits_}) sum += buffer->bytes();
  for (const ActivationBuffer* buffer : {&normed_, &attended_, &hidden_}) {
    sum += buffer->f32.bytes() + buffer->codes.bytes() + buffer->scales.bytes() + buffer->sums.bytes();
  }
  for (const Buffer& table : cos_sin_) sum += table.bytes();
  return sum;
}

std::span<const float> Forward::Run(std::span<const BatchItem> items) {
  tokens_.clear();
  slices_.clear();
  for (const BatchItem& item : items) {
    slices_.push_back({.sequence = item.sequence,
                       .row_begin = static_cast<int>(tokens_.size()),
                       .rows = static_cast<int>(item.tokens.size()),
                       .first_position = item.first_position});
    tokens_.insert(tokens_.end(), item.tokens.begin(), item.tokens.end());
  }
  const int rows = static_cast<int>(tokens_.size());
  KVASIR_CHECK(rows > 0 && rows <= max_rows_, "a step of {} rows, at most {} fit", rows, max_rows_);

  backend_.Embed({.table = weights_.embedding.get(),
                  .tokens = tokens_,
                  .scale = config_.embedding_scale,
                  .out = residual_.as<float>()});
  FillRope(items);
  executor_.BeginStep(slices_);
  for (size_t layer = 0; layer < config_.layers.size(); ++layer) {
    Attention(layer, rows);
    FeedForward(layer, rows);
  }
  return Logits(items);
}

void Forward::FillRope(std::span<const BatchItem> items) {
  for (size_t r = 0; r < ropes_.size(); ++r) {
    const size_t width = static_cast<size_t>(ropes_[r].pairs()) * 2;
    if (width == 0) continue;
    std::vector<float>& table = cos_sin_host_[r];
    table.resize(tokens_.size() * width);
    size_t row = 0;
    for (const BatchItem& item : items) {
      for (size_t i = 0; i < item.tokens.size(); ++i, ++row) {
        ropes_[r].Fill(item.first_position + static_cast<int>(i), std::span(table).subspan(row * width, width));
      }
    }
    const CopyItem copy{cos_sin_[r].address(), reinterpret_cast<const std::byte*>(table.data()),
                        table.size() * sizeof(float)};
    backend_.Wait(backend_.Copy(CopyDirection::kHostToDevice, {&copy, 1}));
  }
}

void Forward::AddProduct(const Activations& x, int rows, const backend::Matrix& weight, const float* bias,
                         const float* post_norm) {
  float* const out = post_norm != nullptr ? block_out_.as<float>() : residual_.as<float>();
  const backend::Product product{.weight = &weight, .bias = bias, .out = out, .out_stride = config_.n_embd};
  backend_.MatMul({.x = x,
                   .rows = rows,
                   .products = {&product, 1},
                   .store = post_norm != nullptr ? backend::Store::kSet : backend::Store::kAdd});
  if (post_norm != nullptr) {
    backend_.NormAdd({.x = out,
                      .weight = post_norm,
                      .eps = config_.rms_eps,
                      .rows = rows,
                      .cols = config_.n_embd,
                      .residual = residual_.as<float>()});
  }
}

void Forward::Attention(size_t index, int rows) {
  const LayerConfig& shape = config_.layers[index];
  const LayerWeights& layer = weights_.layers[index];
  const int q_width = shape.q_heads * shape.dk, k_width = shape.kv_heads * shape.dk,
            v_width = shape.kv_heads * shape.dv;
  backend_.Norm({.x = residual_.as<float>(),
                 .weight = Floats(layer.attn_norm),
                 .eps = config_.rms_eps,
                 .rows = rows,
                 .cols = config_.n_embd,
                 .out = normed_.view()});
  const backend::Product products[] = {
      {.weight = layer.q.get(), .bias = Floats(layer.q_bias), .out = q_.as<float>(), .out_stride = q_width},
      {.weight = layer.k.get(), .bias = Floats(layer.k_bias), .out = k_.as<float>(), .out_stride = k_width},
      {.weight = layer.v.get(), .bias = Floats(layer.v_bias), .out = v_.as<float>(), .out_stride = v_width}};
  backend_.MatMul({.x = normed_.view(), .rows = rows, .products = products});
  if (config_.qk_norm == QkNorm::kFull) {
    for (const auto& [buffer, norm, width] :
         {std::tuple{&q_, &layer.q_norm, q_width}, std::tuple{&k_, &layer.k_norm, k_width}}) {
      backend_.Norm({.x = buffer->as<float>(),
                     .weight = Floats(*norm),
                     .eps = config_.rms_eps,
                     .rows = rows,
                     .cols = width,
                     .out = {.f32 = buffer->as<float>()}});
    }
  }
  const bool head_norm = config_.qk_norm == QkNorm::kPerHead;
  const float scale =
      config_.attention_scale != 0 ? config_.attention_scale : 1 / std::sqrt(static_cast<float>(shape.dk));
  const auto rope = static_cast<size_t>(shape.rope);
  executor_.Run(static_cast<int>(index),
                {.q = q_.as<float>(),
                 .k = k_.as<float>(),
                 .v = v_.as<float>(),
                 .q_heads = shape.q_heads,
                 .q_norm = head_norm ? Floats(layer.q_norm) : nullptr,
                 .k_norm = head_norm ? Floats(layer.k_norm) : nullptr,
                 .eps = config_.rms_eps,
                 .rope = config_.ropes[rope].kind,
                 .n_rot = config_.ropes[rope].n_rot,
                 .cos_sin = cos_sin_[rope].as<float>(),
                 .q_scale = scale,
                 .softcap = config_.attention_softcap},
                attended_.f32.as<float>());
  backend_.Norm(
      {.x = attended_.f32.as<float>(), .rows = rows, .cols = shape.q_heads * shape.dv, .out = attended_.view()});
  AddProduct(attended_.view(), rows, *layer.o, Floats(layer.o_bias), Floats(layer.post_attn_norm));
}

void Forward::FeedForward(size_t index, int rows) {
  const LayerConfig& shape = config_.layers[index];
  const LayerWeights& layer = weights_.layers[index];
  backend_.Norm({.x = residual_.as<float>(),
                 .weight = Floats(layer.ffn_norm),
                 .eps = config_.rms_eps,
                 .rows = rows,
                 .cols = config_.n_embd,
                 .out = normed_.view()});
  if (!shape.moe) {
    backend_.Glu({.x = normed_.view(),
                  .rows = rows,
                  .gate = layer.gate.get(),
                  .up = layer.up.get(),
                  .activation = config_.activation,
                  .out = hidden_.view()});
    AddProduct(hidden_.view(), rows, *layer.down, nullptr, Floats(layer.post_ffn_norm));
    return;
  }
  const backend::Expert shared = Borrow(layer.shared);
  backend_.MoeFfn({.x = normed_.view(),
                   .rows = rows,
                   .router = layer.router.get(),
                   .experts = experts_[index],
                   .top_k = config_.moe.used,
                   .normalize = config_.moe.normalize,
                   .weight_scale = config_.moe.weight_scale,
                   .activation = config_.activation,
                   .shared = shared.gate != nullptr ? &shared : nullptr,
                   .shared_gate = layer.shared_gate.get(),
                   .out = residual_.as<float>()});
}

std::span<const float> Forward::Logits(std::span<const BatchItem> items) {
  std::vector<int> wanted;
  for (size_t i = 0; i < items.size(); ++i) {
    const attention::Slice& slice = slices_[i];
    const int first = items[i].logits == LogitsOf::kAllRows   ? 0
                      : items[i].logits == LogitsOf::kLastRow ? slice.rows - 1
                                                              : slice.rows;
    for (int row = first; row < slice.rows; ++row) wanted.push_back(slice.row_begin + row);
  }
  const auto n_vocab = static_cast<size_t>(config_.n_vocab);
  const size_t row_bytes = FloatBytes(1, config_.n_embd);
  logits_host_.resize(wanted.size() * n_vocab);
  for (size_t begin = 0; begin < wanted.size(); begin += static_cast<size_t>(logit_rows_)) {
    const size_t count = std::min(wanted.size() - begin, static_cast<size_t>(logit_rows_));
    std::vector<CopyItem> gather;
    for (size_t i = 0; i < count; ++i) {
      gather.push_back({chosen_.address() + i * row_bytes,
                        residual_.address() + static_cast<size_t>(wanted[begin + i]) * row_bytes, row_bytes});
    }
    backend_.Wait(backend_.Copy(CopyDirection::kDeviceToDevice, gather));
    backend_.Norm({.x = chosen_.as<float>(),
                   .weight = Floats(weights_.output_norm),
                   .eps = config_.rms_eps,
                   .rows = static_cast<int>(count),
                   .cols = config_.n_embd,
                   .out = normed_.view()});
    const backend::Product product{
        .weight = &weights_.head(), .out = logits_.as<float>(), .out_stride = config_.n_vocab};
    backend_.MatMul({.x = normed_.view(),
                     .rows = static_cast<int>(count),
                     .products = {&product, 1},
                     .scale = config_.logit_scale,
                     .softcap = config_.logit_softcap});
    const CopyItem down{reinterpret_cast<std::byte*>(logits_host_.data() + begin * n_vocab), logits_.address(),
                        FloatBytes(static_cast<int64_t>(count), config_.n_vocab)};
    backend_.Wait(backend_.Copy(CopyDirection::kDeviceToHost, {&down, 1}));
  }
  backend_.Synchronize();
  return logits_host_;
}

}  // namespace kvasir::model
