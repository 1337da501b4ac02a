#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/half.h"

namespace kvasir::model {
namespace {

using backend::Buffer;

// Tensors that a file may carry though nothing reads them: ReadConfig takes the frequency factors, old converters wrote
// rotary tables, and some carry per-layer copies.
bool IsKnownExtra(std::string_view name) {
  return name.starts_with("rope_f") || name.ends_with("rope_freqs.weight") || name.ends_with("attn_rot_embd.weight") ||
         name.ends_with("attn.rotary_emb.inv_freq");
}

class Loader {
 public:
  Loader(backend::Backend& backend, const gguf::GgufFile& file, const LoadProgress& progress)
      : backend_(backend), file_(file), progress_(progress) {
    for (const gguf::TensorInfo& tensor : file.tensors()) total_bytes_ += tensor.bytes.size();
  }

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

  // A tensor of exactly this shape.
  Result<const gguf::TensorInfo*> Find(const std::string& name, int64_t cols, int64_t rows, int64_t slices = 1) {
    const gguf::TensorInfo* tensor = file_.FindTensor(name);
    if (tensor == nullptr) return MakeError(ErrorCode::kNotFound, "tensor {} is missing", name);
    if (tensor->ne[0] != cols || tensor->ne[1] != rows || tensor->ne[2] != slices || tensor->ne[3] != 1) {
      return MakeError(ErrorCode::kCorrupt, "tensor {} is [{}, {}, {}, {}], but the metadata asks for [{}, {}, {}, 1]",
                       name, tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3], cols, rows, slices);
    }
    used_.insert(tensor->name);
    return tensor;
  }

  Result<MatrixPtr> Matrix(const std::string& name, int64_t cols, int64_t rows) {
    KVASIR_ASSIGN_OR_RETURN(const gguf::TensorInfo* tensor, Find(name, cols, rows));
    return Rows(*tensor, 0, rows);
  }

  // Rows [first, first + rows) of a tensor, counted over all its slices.
  Result<MatrixPtr> Rows(const gguf::TensorInfo& tensor, int64_t first, int64_t rows) {
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.rows());
    const auto bytes =
        tensor.bytes.subspan(static_cast<size_t>(first) * row_bytes, static_cast<size_t>(rows) * row_bytes);
    auto matrix = backend_.LoadMatrix({.type = tensor.type, .rows = rows, .cols = tensor.ne[0], .bytes = bytes.data()});
    if (!matrix.ok()) return MakeError(matrix.error().code(), "tensor {}: {}", tensor.name, matrix.error().message());
    KVASIR_RETURN_IF_ERROR(Loaded(bytes.size()));
    return matrix;
  }

  // A vector in f32. Missing: an error, or an empty Buffer where `optional`.
  Result<Buffer> Vector(const std::string& name, int64_t size, bool optional = false) {
    if (optional && !Has(name)) return Buffer();
    KVASIR_ASSIGN_OR_RETURN(const gguf::TensorInfo* tensor, Find(name, size, 1));
    std::vector<float> values(static_cast<size_t>(size));
    if (tensor->type == TensorType::kF32) {
      std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    } else if (tensor->type == TensorType::kF16 || tensor->type == TensorType::kBF16) {
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, tensor->bytes.data() + i * sizeof bits, sizeof bits);
        values[i] = tensor->type == TensorType::kF16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
      }
    } else {
      return MakeError(ErrorCode::kUnsupported, "tensor {} is a vector of type {}; F32, F16 and BF16 are supported",
                       name, Name(tensor->type));
    }
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      return MakeError(ErrorCode::kCorrupt, "tensor {} holds a value that is not a finite number", name);
    }
    const size_t bytes = values.size() * sizeof(float);
    KVASIR_ASSIGN_OR_RETURN(Buffer buffer, backend_.Allocate(backend::MemoryKind::kDevice, bytes));
    const backend::CopyItem item{buffer.address(), reinterpret_cast<const std::byte*>(values.data()), bytes};
    backend_.Wait(backend_.Copy(backend::CopyDirection::kHostToDevice, {&item, 1}));
    backend_.Synchronize();  // `values` ends here
    KVASIR_RETURN_IF_ERROR(Loaded(tensor->bytes.size()));
    return buffer;
  }

  // Fails on a tensor that nothing asked for: it would change what the model computes.
  Status CheckNothingLeft(std::string_view architecture) const {
    for (const gguf::TensorInfo& tensor : file_.tensors()) {
      if (!used_.contains(tensor.name) && !IsKnownExtra(tensor.name)) {
        return MakeError(ErrorCode::kUnsupported, "tensor {} has no place in a {} model as this build knows it",
                         tensor.name, architecture);
      }
    }
    return {};
  }

  void Release() {
    for (const gguf::TensorInfo& tensor : file_.tensors()) {
      if (used_.contains(tensor.name) && !released_.contains(tensor.name)) {
        file_.Release(tensor);
        released_.insert(tensor.name);
      }
    }
  }

 private:
  Status Loaded(size_t bytes) {
    loaded_bytes_ += bytes;
    if (progress_ && !progress_(static_cast<double>(loaded_bytes_) / static_cast<double>(total_bytes_))) {
      return MakeError(ErrorCode::kCancelled, "loading was interrupted");
    }
    return {};
  }

  backend::Backend& backend_;
  const gguf::GgufFile& file_;
  const LoadProgress& progress_;
  std::unordered_set<std::string_view> used_, released_;
  size_t total_bytes_ = 0;
  size_t loaded_bytes_ = 0;
};

Status LoadAttention(Loader& loader, const ModelConfig& config, const LayerConfig& shape, const std::string& prefix,
                     LayerWeights& layer) {
  const int64_t n_embd = config.n_embd;
  const int64_t q_rows = int64_t{shape.q_heads} * shape.dk;
  const int64_t k_rows = int64_t{shape.kv_heads} * shape.dk;
  const int64_t v_rows = int64_t{shape.kv_heads} * shape.dv;
  if (loader.Has(prefix + "attn_qkv.weight")) {
    KVASIR_ASSIGN_OR_RETURN(const gguf::TensorInfo* fused,
                            loader.Find(prefix + "attn_qkv.weight", n_embd, q_rows + k_rows + v_rows));
    KVASIR_ASSIGN_OR_RETURN(layer.q, loader.Rows(*fused, 0, q_rows));
    KVASIR_ASSIGN_OR_RETURN(layer.k, loader.Rows(*fused, q_rows, k_rows));
    KVASIR_ASSIGN_OR_RETURN(layer.v, loader.Rows(*fused, q_rows + k_rows, v_rows));
  } else {
    KVASIR_ASSIGN_OR_RETURN(layer.q, loader.Matrix(prefix + "attn_q.weight", n_embd, q_rows));
    KVASIR_ASSIGN_OR_RETURN(layer.k, loader.Matrix(prefix + "attn_k.weight", n_embd, k_rows));
    KVASIR_ASSIGN_OR_RETURN(layer.v, loader.Matrix(prefix + "attn_v.weight", n_embd, v_rows));
    KVASIR_ASSIGN_OR_RETURN(layer.q_bias, loader.Vector(prefix + "attn_q.bias", q_rows, true));
    KVASIR_ASSIGN_OR_RETURN(layer.k_bias, loader.Vector(prefix + "attn_k.bias", k_rows, true));
    KVASIR_ASSIGN_OR_RETURN(layer.v_bias, loader.Vector(prefix + "attn_v.bias", v_rows, true));
  }
  KVASIR_ASSIGN_OR_RETURN(layer.o,
                          loader.Matrix(prefix + "attn_output.weight", int64_t{shape.q_heads} * shape.dv, n_embd));
  KVASIR_ASSIGN_OR_RETURN(layer.o_bias, loader.Vector(prefix + "attn_output.bias", n_embd, true));
  if (config.qk_norm != QkNorm::kNone) {
    const bool full = config.qk_norm == QkNorm::kFull;
    KVASIR_ASSIGN_OR_RETURN(layer.q_norm, loader.Vector(prefix + "attn_q_norm.weight", full ? q_rows : shape.dk));
    KVASIR_ASSIGN_OR_RETURN(layer.k_norm, loader.Vector(prefix + "attn_k_norm.weight", full ? k_rows : shape.dk));
  }
  return {};
}

Status LoadDense(Loader& loader, int64_t n_embd, int64_t n_ff, const std::string& prefix, LayerWeights& layer) {
  if (loader.Has(prefix + "ffn_gate.weight")) {
    KVASIR_ASSIGN_OR_RETURN(layer.gate, loader.Matrix(prefix + "ffn_gate.weight", n_embd, n_ff));
    KVASIR_ASSIGN_OR_RETURN(layer.up, loader.Matrix(prefix + "ffn_up.weight", n_embd, n_ff));
  } else {  // Phi-3 stores gate and up as one
    KVASIR_ASSIGN_OR_RETURN(const gguf::TensorInfo* fused, loader.Find(prefix + "ffn_up.weight", n_embd, 2 * n_ff));
    KVASIR_ASSIGN_OR_RETURN(layer.gate, loader.Rows(*fused, 0, n_ff));
    KVASIR_ASSIGN_OR_RETURN(layer.up, loader.Rows(*fused, n_ff, n_ff));
  }
  KVASIR_ASSIGN_OR_RETURN(layer.down, loader.Matrix(prefix + "ffn_down.weight", n_ff, n_embd));
  return {};
}

// Expert weights are stacked in one tensor per role, or (older files) one tensor per role and expert, or gate and up
// fused.
Status LoadExperts(Loader& loader, const ModelConfig& config, const std::string& prefix, LayerWeights& layer) {
  const MoeConfig& moe = config.moe;
  const int64_t n_embd = config.n_embd, n_ff = moe.n_ff, experts = moe.experts;
  KVASIR_ASSIGN_OR_RETURN(layer.router, loader.Matrix(prefix + "ffn_gate_inp.weight", n_embd, experts));
  layer.experts.resize(static_cast<size_t>(experts));
  const bool split = loader.Has(prefix + "ffn_gate.0.weight");
  const bool fused = loader.Has(prefix + "ffn_gate_up_exps.weight");
  const gguf::TensorInfo *gate = nullptr, *up = nullptr, *down = nullptr;
  if (fused) {
    KVASIR_ASSIGN_OR_RETURN(gate, loader.Find(prefix + "ffn_gate_up_exps.weight", n_embd, 2 * n_ff, experts));
  } else if (!split) {
    KVASIR_ASSIGN_OR_RETURN(gate, loader.Find(prefix + "ffn_gate_exps.weight", n_embd, n_ff, experts));
    KVASIR_ASSIGN_OR_RETURN(up, loader.Find(prefix + "ffn_up_exps.weight", n_embd, n_ff, experts));
  }
  if (!split) {
    KVASIR_ASSIGN_OR_RETURN(down, loader.Find(prefix + "ffn_down_exps.weight", n_ff, n_embd, experts));
  }
  for (int64_t e = 0; e < experts; ++e) {
    ExpertWeights& expert = layer.experts[static_cast<size_t>(e)];
    if (split) {
      KVASIR_ASSIGN_OR_RETURN(expert.gate, loader.Matrix(fmt::format("{}ffn_gate.{}.weight", prefix, e), n_embd, n_ff));
      KVASIR_ASSIGN_OR_RETURN(expert.up, loader.Matrix(fmt::format("{}ffn_up.{}.weight", prefix, e), n_embd, n_ff));
      KVASIR_ASSIGN_OR_RETURN(expert.down, loader.Matrix(fmt::format("{}ffn_down.{}.weight", prefix, e), n_ff, n_embd));
      continue;
    }
    KVASIR_ASSIGN_OR_RETURN(expert.gate, loader.Rows(*gate, fused ? e * 2 * n_ff : e * n_ff, n_ff));
    KVASIR_ASSIGN_OR_RETURN(expert.up,
                            fused ? loader.Rows(*gate, e * 2 * n_ff + n_ff, n_ff) : loader.Rows(*up, e * n_ff, n_ff));
    KVASIR_ASSIGN_OR_RETURN(expert.down, loader.Rows(*down, e * n_embd, n_embd));
  }
  if (moe.n_ff_shared > 0) {
    KVASIR_ASSIGN_OR_RETURN(layer.shared_gate, loader.Matrix(prefix + "ffn_gate_inp_shexp.weight", n_embd, 1));
    KVASIR_ASSIGN_OR_RETURN(layer.shared.gate,
                            loader.Matrix(prefix + "ffn_gate_shexp.weight", n_embd, moe.n_ff_shared));
    KVASIR_ASSIGN_OR_RETURN(layer.shared.up, loader.Matrix(prefix + "ffn_up_shexp.weight", n_embd, moe.n_ff_shared));
    KVASIR_ASSIGN_OR_RETURN(layer.shared.down,
                            loader.Matrix(prefix + "ffn_down_shexp.weight", moe.n_ff_shared, n_embd));
  }
  return {};
}

}  // namespace

size_t Weights::bytes() const {
  size_t sum = output_norm.bytes();
  const auto add = [&sum](const MatrixPtr& matrix) { sum += matrix != nullptr ? matrix->bytes() : 0; };
  const auto add_expert = [&add](const ExpertWeights& expert) {
    add(expert.gate);
    add(expert.up);
    add(expert.down);
  };
  add(embedding);
  add(output);
  for (const LayerWeights& layer : layers) {
    for (const MatrixPtr* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down,
                                    &layer.router, &layer.shared_gate}) {
      add(*matrix);
    }
    for (const ExpertWeights& expert : layer.experts) add_expert(expert);
    add_expert(layer.shared);
    for (const Buffer* vector :
         {&layer.attn_norm, &layer.ffn_norm, &layer.post_attn_norm, &layer.post_ffn_norm, &layer.q_norm, &layer.k_norm,
          &layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.o_bias}) {
      sum += vector->bytes();
    }
  }
  return sum;
}

Result<Weights> LoadWeights(backend::Backend& backend, const gguf::GgufFile& file, const ModelConfig& config,
                            const LoadProgress& progress) {
  Loader loader(backend, file, progress);
  Weights weights;
  const int64_t n_embd = config.n_embd;
  KVASIR_ASSIGN_OR_RETURN(weights.embedding, loader.Matrix("token_embd.weight", n_embd, config.n_vocab));
  KVASIR_ASSIGN_OR_RETURN(weights.output_norm, loader.Vector("output_norm.weight", n_embd));
  if (loader.Has("output.weight")) {
    KVASIR_ASSIGN_OR_RETURN(weights.output, loader.Matrix("output.weight", n_embd, config.n_vocab));
  }
  loader.Release();
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& shape = config.layers[i];
    const std::string prefix = fmt::format("blk.{}.", i);
    LayerWeights& layer = weights.layers.emplace_back();
    KVASIR_ASSIGN_OR_RETURN(layer.attn_norm, loader.Vector(prefix + "attn_norm.weight", n_embd));
    KVASIR_ASSIGN_OR_RETURN(layer.ffn_norm, loader.Vector(prefix + "ffn_norm.weight", n_embd));
    if (config.post_norms) {
      KVASIR_ASSIGN_OR_RETURN(layer.post_attn_norm, loader.Vector(prefix + "post_attention_norm.weight", n_embd));
      KVASIR_ASSIGN_OR_RETURN(layer.post_ffn_norm, loader.Vector(prefix + "post_ffw_norm.weight", n_embd));
    }
    KVASIR_RETURN_IF_ERROR(LoadAttention(loader, config, shape, prefix, layer));
    if (shape.moe) {
      KVASIR_RETURN_IF_ERROR(LoadExperts(loader, config, prefix, layer));
    } else {
      KVASIR_RETURN_IF_ERROR(LoadDense(loader, n_embd, shape.n_ff, prefix, layer));
    }
    loader.Release();
  }
  KVASIR_RETURN_IF_ERROR(loader.CheckNothingLeft(config.architecture));
  return weights;
}

}  // namespace kvasir::model
