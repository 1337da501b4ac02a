// model/config.h
// A model family as data: everything the one forward pass needs to know, read and range-checked from GGUF metadata.
//
// A family (the value of general.architecture) is a row of traits in config.cc: rope order, norms, activation, what is
// scaled and capped. A family with different maths adds a field here and a branch in forward.cc, not a subclass. What
// it does not hold: weights (weights.h) or anything about where they live.
//
// Thread rule: const after load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "gguf/gguf_file.h"
#include "kv/placement.h"

namespace kvasir::model {

// How positions become angles. Frequencies of pair i: base^(-2i / n_rot) / factor_i, interpolated by `freq_scale`
// (linear scaling) and, when ext_factor > 0, blended between interpolated and original by YaRN's ramp (Peng et al.,
// arXiv 2309.00071).
struct RopeConfig {
  backend::RopeKind kind = backend::RopeKind::kNone;
  int n_rot = 0;
  float base = 10000;
  float freq_scale = 1;   // 1 / factor
  float ext_factor = 0;   // 1: YaRN
  float attn_factor = 1;  // multiplies cos and sin
  float beta_fast = 32;
  float beta_slow = 1;
  int64_t original_context = 0;  // the trained length that scaling starts from
  std::vector<float> factors;    // [n_rot / 2] divisors of the frequencies, or empty
};

enum class QkNorm { kNone, kPerHead, kFull };  // kFull: one norm over all heads of a row (OLMoE)

struct LayerConfig {
  int q_heads = 0;
  int kv_heads = 0;
  int dk = 0;
  int dv = 0;
  int n_ff = 0;    // of the dense feed-forward; 0 in a mixture layer
  int window = 0;  // > 0: sliding window
  int rope = 0;    // index into ModelConfig::ropes
  bool moe = false;
};

struct MoeConfig {
  int experts = 0;
  int used = 0;            // experts per token
  int n_ff = 0;            // of one expert
  int n_ff_shared = 0;     // of the shared expert; 0: none
  bool normalize = false;  // weights of the chosen experts sum to one
  float weight_scale = 1;
};

struct ModelConfig {
  std::string architecture;
  std::string name;
  int64_t context_length = 0;  // trained
  int n_embd = 0;
  int n_vocab = 0;
  float rms_eps = 1e-5f;
  float embedding_scale = 1;
  float attention_scale = 0;  // of q; 0: 1 / sqrt(dk)
  float attention_softcap = 0;
  float logit_scale = 1;
  float logit_softcap = 0;
  backend::Activation activation = backend::Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool post_norms = false;        // a norm after attention and after the feed-forward, before the residual (Gemma)
  std::vector<RopeConfig> ropes;  // [0] global, [1] of windowed layers where they differ
  MoeConfig moe;
  std::vector<LayerConfig> layers;

  // KV shape with one pair of types for all layers.
  kv::CacheShape CacheShape(backend::KvType k, backend::KvType v) const;
};

// `context` is the window that will be run: some families pick frequency factors by it.
// Errors: kUnsupported (architecture, named), kNotFound / kCorrupt (key, named).
Result<ModelConfig> ReadConfig(const gguf::GgufFile& file, int64_t context);

// Architectures that ReadConfig knows, for messages.
std::vector<std::string_view> SupportedArchitectures();

}  // namespace kvasir::model
