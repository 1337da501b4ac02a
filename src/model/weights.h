// model/weights.h
// The tensors of a model, loaded into a backend and named by what they do.
//
// Loading checks every tensor's shape against the configuration, says which is missing or has no place in the family,
// and releases the file's pages as it goes. Fused tensors (attn_qkv, gate_up) are cut by rows: a product never knows
// how the file stored its weights. What it does not do: compute.
//
// Thread rule: const after load.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "gguf/gguf_file.h"
#include "model/config.h"

namespace kvasir::model {

using MatrixPtr = std::unique_ptr<backend::Matrix>;

struct ExpertWeights {
  MatrixPtr gate, up, down;
};

// Vectors (norm weights, biases) are f32 in device memory; an empty Buffer means that the model has none.
struct LayerWeights {
  backend::Buffer attn_norm, ffn_norm;            // [n_embd]
  backend::Buffer post_attn_norm, post_ffn_norm;  // [n_embd]
  backend::Buffer q_norm, k_norm;                 // [dk], or all heads where the norm is over the full row
  MatrixPtr q, k, v, o;
  backend::Buffer q_bias, k_bias, v_bias, o_bias;
  MatrixPtr gate, up, down;  // dense feed-forward
  MatrixPtr router;          // [experts, n_embd]
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  MatrixPtr shared_gate;  // [1, n_embd]
};

struct Weights {
  MatrixPtr embedding;  // [n_vocab, n_embd]
  MatrixPtr output;     // null: tied to the embedding
  backend::Buffer output_norm;
  std::vector<LayerWeights> layers;

  const backend::Matrix& head() const { return output != nullptr ? *output : *embedding; }
  size_t bytes() const;  // resident in the backend
};

// Called with the fraction of the file that is loaded; false stops the load with kCancelled.
using LoadProgress = std::function<bool(double fraction)>;

// Errors: kNotFound, kCorrupt, kUnsupported (each names the tensor), kResourceExhausted, kCancelled.
Result<Weights> LoadWeights(backend::Backend& backend, const gguf::GgufFile& file, const ModelConfig& config,
                            const LoadProgress& progress);

}  // namespace kvasir::model
