#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kvasir::model {
namespace {

using backend::Activation;
using backend::RopeKind;

// One row per architecture. `window_period` n: of n consecutive layers the first n - 1 have a window; 0: none has.
struct Family {
  std::string_view name;
  RopeKind rope = RopeKind::kNormal;
  QkNorm qk_norm = QkNorm::kNone;
  Activation activation = Activation::kSilu;
  bool gemma = false;  // embedding scale, post-norms
  bool moe_required = false;
  bool moe_allowed = false;
  bool moe_normalize = false;  // where the file does not say
  bool shared_expert = false;
  int window_period = 0;
  bool window_everywhere = false;  // every layer has the window that the file names
  float window_rope_base = 0;      // rope base of windowed layers where it differs and the file does not say
  int64_t default_window = 0;
  int layers_of_wide_query = 0;  // the size whose queries are scaled by 1 / sqrt(n_embd / heads)
};

constexpr Family kFamilies[] = {
    {.name = "llama", .moe_allowed = true, .moe_normalize = true},
    {.name = "qwen2", .rope = RopeKind::kNeox},
    {.name = "qwen3", .rope = RopeKind::kNeox, .qk_norm = QkNorm::kPerHead},
    {.name = "phi3", .rope = RopeKind::kNeox, .window_everywhere = true},
    {.name = "gemma2",
     .rope = RopeKind::kNeox,
     .activation = Activation::kGeluTanh,
     .gemma = true,
     .window_period = 2,
     .default_window = 4096,
     .layers_of_wide_query = 46},
    {.name = "gemma3",
     .rope = RopeKind::kNeox,
     .qk_norm = QkNorm::kPerHead,
     .activation = Activation::kGeluTanh,
     .gemma = true,
     .window_period = 6,
     .window_rope_base = 10000,
     .layers_of_wide_query = 62},
    {.name = "qwen2moe", .rope = RopeKind::kNeox, .moe_required = true, .moe_allowed = true, .shared_expert = true},
    {.name = "qwen3moe",
     .rope = RopeKind::kNeox,
     .qk_norm = QkNorm::kPerHead,
     .moe_required = true,
     .moe_allowed = true,
     .moe_normalize = true},
    {.name = "olmoe", .rope = RopeKind::kNeox, .qk_norm = QkNorm::kFull, .moe_required = true, .moe_allowed = true},
};

// Bounds that no real model comes near; they keep products inside int64 and allocations sane.
constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxContext = int64_t{1} << 30;

class Reader {
 public:
  Reader(const gguf::GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {}

  std::string Key(std::string_view suffix) const { return fmt::format("{}.{}", prefix_, suffix); }
  bool Has(std::string_view suffix) const { return file_.Has(Key(suffix)); }
  Result<int64_t> Int(std::string_view suffix, int64_t min, int64_t max) const {
    return file_.GetInt(Key(suffix), min, max);
  }
  Result<int64_t> IntOr(std::string_view suffix, int64_t fallback, int64_t min, int64_t max) const {
    return file_.GetIntOr(Key(suffix), fallback, min, max);
  }
  Result<double> Float(std::string_view suffix) const { return file_.GetFloat(Key(suffix)); }
  Result<double> FloatOr(std::string_view suffix, double fallback) const {
    return file_.GetFloatOr(Key(suffix), fallback);
  }
  Result<std::vector<int64_t>> IntPerLayer(std::string_view suffix, int64_t layers, int64_t min, int64_t max) const {
    return file_.GetIntPerLayer(Key(suffix), layers, min, max);
  }

 private:
  const gguf::GgufFile& file_;
  std::string_view prefix_;
};

Result<RopeConfig> ReadRope(const Reader& reader, const Family& family, const gguf::GgufFile& file, int dk,
                            int64_t context_length, int64_t context) {
  RopeConfig rope{.kind = family.rope};
  KVASIR_ASSIGN_OR_RETURN(const int64_t n_rot, reader.IntOr("rope.dimension_count", dk, 0, dk));
  if (n_rot % 2 != 0) {
    return MakeError(ErrorCode::kCorrupt, "{} is {}, but positions rotate pairs", reader.Key("rope.dimension_count"),
                     n_rot);
  }
  rope.n_rot = static_cast<int>(n_rot);
  KVASIR_ASSIGN_OR_RETURN(const double base, reader.FloatOr("rope.freq_base", 10000));
  if (base <= 0) return MakeError(ErrorCode::kCorrupt, "{} is {}, not positive", reader.Key("rope.freq_base"), base);
  rope.base = static_cast<float>(base);

  KVASIR_ASSIGN_OR_RETURN(const std::string_view scaling, file.GetStringOr(reader.Key("rope.scaling.type"), ""));
  // Old files have only the linear factor, under another name.
  KVASIR_ASSIGN_OR_RETURN(const double old_factor, reader.FloatOr("rope.scale_linear", 1));
  KVASIR_ASSIGN_OR_RETURN(const double factor, reader.FloatOr("rope.scaling.factor", old_factor));
  KVASIR_ASSIGN_OR_RETURN(rope.original_context,
                          reader.IntOr("rope.scaling.original_context_length", context_length, 1, kMaxContext));
  KVASIR_ASSIGN_OR_RETURN(const double attn_factor, reader.FloatOr("rope.scaling.attn_factor", 1));
  rope.attn_factor = static_cast<float>(attn_factor);
  const bool scales = scaling == "linear" || scaling == "yarn" || (scaling.empty() && factor != 1);
  if (scales && factor > 0) rope.freq_scale = static_cast<float>(1 / factor);
  if (scaling == "yarn") {
    KVASIR_ASSIGN_OR_RETURN(const double ext, reader.FloatOr("rope.scaling.yarn_ext_factor", 1));
    KVASIR_ASSIGN_OR_RETURN(const double fast, reader.FloatOr("rope.scaling.yarn_beta_fast", 32));
    KVASIR_ASSIGN_OR_RETURN(const double slow, reader.FloatOr("rope.scaling.yarn_beta_slow", 1));
    rope.ext_factor = static_cast<float>(ext);
    rope.beta_fast = static_cast<float>(fast);
    rope.beta_slow = static_cast<float>(slow);
    // The attention temperature of YaRN, section 3.4 of the paper: 0.1 ln(factor) + 1. Files also name it, in
    // rope.scaling.yarn_attn_factor, but some mean a factor on top of it and others the whole: computing it is right
    // for both.
    const double temperature = factor > 1 ? 1 + 0.1 * std::log(factor) : 1;
    rope.attn_factor *= static_cast<float>(temperature);
  } else if (!scaling.empty() && scaling != "none" && scaling != "linear" && scaling != "longrope") {
    return MakeError(ErrorCode::kUnsupported, "{} is '{}'; known are none, linear, yarn, longrope",
                     reader.Key("rope.scaling.type"), scaling);
  }

  // Frequency factors lie in tensors: one set (Llama 3), or a short and a long one (Phi-3), chosen by the window that
  // is run.
  const bool is_long = context > rope.original_context;
  for (const std::string_view name :
       {std::string_view("rope_freqs.weight"),
        is_long ? std::string_view("rope_factors_long.weight") : std::string_view("rope_factors_short.weight")}) {
    const gguf::TensorInfo* tensor = file.FindTensor(name);
    if (tensor == nullptr) continue;
    if (tensor->type != TensorType::kF32 || tensor->elements() != rope.n_rot / 2) {
      return MakeError(ErrorCode::kCorrupt,
                       "tensor {} must hold {} F32 values, one for each rotated pair; it holds {} {}", name,
                       rope.n_rot / 2, tensor->elements(), Name(tensor->type));
    }
    rope.factors.resize(static_cast<size_t>(tensor->elements()));
    std::copy_n(tensor->bytes.data(), tensor->bytes.size(), reinterpret_cast<std::byte*>(rope.factors.data()));
    if (!std::all_of(rope.factors.begin(), rope.factors.end(), [](float f) { return std::isfinite(f) && f > 0; })) {
      return MakeError(ErrorCode::kCorrupt, "tensor {} holds a factor that is not a positive number", name);
    }
  }
  return rope;
}

Status ReadMoe(const Reader& reader, const Family& family, const gguf::GgufFile& file, ModelConfig& config) {
  KVASIR_ASSIGN_OR_RETURN(const int64_t experts, reader.IntOr("expert_count", 0, 0, kMaxExperts));
  if (experts == 0) {
    if (family.moe_required) return MakeError(ErrorCode::kNotFound, "key {} is missing", reader.Key("expert_count"));
    return {};
  }
  if (!family.moe_allowed) {
    return MakeError(ErrorCode::kUnsupported, "{} is {}, but {} models have no experts", reader.Key("expert_count"),
                     experts, family.name);
  }
  MoeConfig& moe = config.moe;
  moe.experts = static_cast<int>(experts);
  KVASIR_ASSIGN_OR_RETURN(const int64_t used, reader.Int("expert_used_count", 1, experts));
  moe.used = static_cast<int>(used);
  KVASIR_ASSIGN_OR_RETURN(const int64_t n_ff,
                          reader.IntOr("expert_feed_forward_length", config.layers[0].n_ff, 1, kMaxWidth));
  moe.n_ff = static_cast<int>(n_ff);
  KVASIR_ASSIGN_OR_RETURN(moe.normalize, file.GetBoolOr(reader.Key("expert_weights_norm"), family.moe_normalize));
  KVASIR_ASSIGN_OR_RETURN(const double scale, reader.FloatOr("expert_weights_scale", 1));
  moe.weight_scale = scale == 0 ? 1 : static_cast<float>(scale);
  if (family.shared_expert) {
    KVASIR_ASSIGN_OR_RETURN(const int64_t shared,
                            reader.IntOr("expert_shared_feed_forward_length", config.layers[0].n_ff, 1, kMaxWidth));
    moe.n_ff_shared = static_cast<int>(shared);
  }
  for (LayerConfig& layer : config.layers) {
    layer.moe = true;
    layer.n_ff = 0;
  }
  return {};
}

Status ReadWindows(const Reader& reader, const Family& family, ModelConfig& config) {
  if (family.window_period == 0 && !family.window_everywhere) return {};
  KVASIR_ASSIGN_OR_RETURN(const int64_t window,
                          reader.IntOr("attention.sliding_window", family.default_window, 0, kMaxContext));
  if (window == 0) return {};
  KVASIR_ASSIGN_OR_RETURN(const int64_t period, reader.IntOr("attention.sliding_window_pattern",
                                                             std::max(1, family.window_period), 1, kMaxLayers));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (family.window_everywhere || static_cast<int64_t>(i) % period < period - 1)
      config.layers[i].window = static_cast<int>(window);
  }
  if (family.window_rope_base == 0 && !reader.Has("rope.freq_base_swa")) return {};

  // Windowed layers see short distances: their own base, and no scaling for length.
  KVASIR_ASSIGN_OR_RETURN(const double base, reader.FloatOr("rope.freq_base_swa", family.window_rope_base));
  if (base <= 0)
    return MakeError(ErrorCode::kCorrupt, "{} is {}, not positive", reader.Key("rope.freq_base_swa"), base);
  RopeConfig local = config.ropes[0];
  local.base = static_cast<float>(base);
  local.freq_scale = 1;
  local.ext_factor = 0;
  local.attn_factor = 1;
  config.ropes.push_back(std::move(local));
  for (LayerConfig& layer : config.layers) layer.rope = layer.window > 0 ? 1 : 0;
  return {};
}

}  // namespace

std::vector<std::string_view> SupportedArchitectures() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

Result<ModelConfig> ReadConfig(const gguf::GgufFile& file, int64_t context) {
  KVASIR_ASSIGN_OR_RETURN(const std::string_view architecture, file.GetString("general.architecture"));
  const auto* const family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& f) { return f.name == architecture; });
  if (family == std::end(kFamilies)) {
    return MakeError(ErrorCode::kUnsupported, "general.architecture is '{}', which this build cannot run; it runs {}",
                     architecture, fmt::join(SupportedArchitectures(), ", "));
  }
  const Reader reader(file, family->name);

  ModelConfig config;
  config.architecture = architecture;
  KVASIR_ASSIGN_OR_RETURN(const std::string_view name, file.GetStringOr("general.name", ""));
  config.name = name;
  KVASIR_ASSIGN_OR_RETURN(config.context_length, reader.Int("context_length", 1, kMaxContext));
  KVASIR_ASSIGN_OR_RETURN(const int64_t n_embd, reader.Int("embedding_length", 1, kMaxWidth));
  config.n_embd = static_cast<int>(n_embd);
  KVASIR_ASSIGN_OR_RETURN(const int64_t layers, reader.Int("block_count", 1, kMaxLayers));
  KVASIR_ASSIGN_OR_RETURN(const double eps, reader.Float("attention.layer_norm_rms_epsilon"));
  config.rms_eps = static_cast<float>(eps);
  config.activation = family->activation;
  config.qk_norm = family->qk_norm;
  config.post_norms = family->gemma;
  if (family->gemma) config.embedding_scale = std::sqrt(static_cast<float>(n_embd));

  KVASIR_ASSIGN_OR_RETURN(const auto q_heads, reader.IntPerLayer("attention.head_count", layers, 1, kMaxHeads));
  std::vector<int64_t> kv_heads = q_heads;
  if (reader.Has("attention.head_count_kv")) {
    KVASIR_ASSIGN_OR_RETURN(kv_heads, reader.IntPerLayer("attention.head_count_kv", layers, 1, kMaxHeads));
  }
  KVASIR_ASSIGN_OR_RETURN(const auto n_ff, reader.IntPerLayer("feed_forward_length", layers, 0, kMaxWidth));
  if (!reader.Has("attention.key_length") && n_embd % q_heads[0] != 0) {
    return MakeError(ErrorCode::kCorrupt, "{} is {}, which {} heads do not divide", reader.Key("embedding_length"),
                     n_embd, q_heads[0]);
  }
  KVASIR_ASSIGN_OR_RETURN(const int64_t dk, reader.IntOr("attention.key_length", n_embd / q_heads[0], 1, kMaxWidth));
  KVASIR_ASSIGN_OR_RETURN(const int64_t dv, reader.IntOr("attention.value_length", n_embd / q_heads[0], 1, kMaxWidth));
  for (size_t i = 0; i < static_cast<size_t>(layers); ++i) {
    if (q_heads[i] % kv_heads[i] != 0) {
      return MakeError(ErrorCode::kCorrupt, "layer {}: {} query heads cannot share {} KV heads evenly", i, q_heads[i],
                       kv_heads[i]);
    }
    config.layers.push_back({.q_heads = static_cast<int>(q_heads[i]),
                             .kv_heads = static_cast<int>(kv_heads[i]),
                             .dk = static_cast<int>(dk),
                             .dv = static_cast<int>(dv),
                             .n_ff = static_cast<int>(n_ff[i])});
  }

  const gguf::TensorInfo* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return MakeError(ErrorCode::kNotFound, "tensor token_embd.weight is missing");
  if (embedding->ne[1] > std::numeric_limits<int32_t>::max()) {
    return MakeError(ErrorCode::kCorrupt, "tensor token_embd.weight has {} rows", embedding->ne[1]);
  }
  config.n_vocab = static_cast<int>(embedding->ne[1]);

  KVASIR_ASSIGN_OR_RETURN(RopeConfig rope,
                          ReadRope(reader, *family, file, static_cast<int>(dk), config.context_length, context));
  config.ropes.push_back(std::move(rope));

  KVASIR_ASSIGN_OR_RETURN(const double attention_scale, reader.FloatOr("attention.scale", 0));
  config.attention_scale = static_cast<float>(attention_scale);
  if (attention_scale == 0 && family->layers_of_wide_query == layers) {
    config.attention_scale = 1 / std::sqrt(static_cast<float>(n_embd) / static_cast<float>(q_heads[0]));
  }
  KVASIR_ASSIGN_OR_RETURN(const double attention_cap,
                          reader.FloatOr("attn_logit_softcapping", family->name == "gemma2" ? 50 : 0));
  KVASIR_ASSIGN_OR_RETURN(const double logit_cap,
                          reader.FloatOr("final_logit_softcapping", family->name == "gemma2" ? 30 : 0));
  config.attention_softcap = static_cast<float>(attention_cap);
  config.logit_softcap = static_cast<float>(logit_cap);

  KVASIR_RETURN_IF_ERROR(ReadWindows(reader, *family, config));
  KVASIR_RETURN_IF_ERROR(ReadMoe(reader, *family, file, config));
  return config;
}

kv::CacheShape ModelConfig::CacheShape(backend::KvType k, backend::KvType v) const {
  kv::CacheShape shape;
  for (const LayerConfig& layer : layers) {
    shape.layers.push_back(
        {.units = layer.kv_heads, .format = {.k = k, .v = v, .dk = layer.dk, .dv = layer.dv}, .window = layer.window});
  }
  return shape;
}

}  // namespace kvasir::model
