// model/forward.h
// The forward pass: token rows of several sequences in, logits out. Written once, against the fused operations of a
// Backend.
//
// A row's logits are a function of its sequence's tokens alone (docs/numerics.md). What it does not do: reserve pages
// (the caller has), choose tokens, or decide where KV lives (the attention executor does).
//
// Thread rule: engine thread only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "attention/executor.h"
#include "backend/backend.h"
#include "base/result.h"
#include "kv/kv_cache.h"
#include "model/config.h"
#include "model/rope_table.h"
#include "model/weights.h"

namespace kvasir::model {

enum class LogitsOf { kNone, kLastRow, kAllRows };

// Consecutive tokens of one sequence, whose pages are reserved.
struct BatchItem {
  kv::SequenceId sequence{};
  int first_position = 0;
  std::span<const kv::Token> tokens;
  LogitsOf logits = LogitsOf::kLastRow;
};

class Forward {
 public:
  // Work buffers for steps of up to `max_rows` rows. All references must outlive the object. kResourceExhausted.
  static Result<std::unique_ptr<Forward>> Create(backend::Backend& backend, const ModelConfig& config,
                                                 const Weights& weights, attention::Executor& executor, int max_rows);

  // Runs one step. Returns the logits asked for, [rows asked for, n_vocab], in item and row order; valid until the next
  // Run. REQUIRES: 1..max_rows rows in all; every token in the vocabulary.
  std::span<const float> Run(std::span<const BatchItem> items);

  int max_rows() const { return max_rows_; }
  size_t work_bytes() const;  // of the buffers

 private:
  Forward(backend::Backend& backend, const ModelConfig& config, const Weights& weights, attention::Executor& executor,
          int max_rows);
  Status Allocate();

  // An activation buffer with the forms that products of `cols` inputs read.
  struct ActivationBuffer {
    backend::Buffer f32, codes, scales, sums;
    backend::Activations view() const;
  };
  Result<ActivationBuffer> AllocateActivations(int64_t rows, int64_t cols);

  void FillRope(std::span<const BatchItem> items);
  void Attention(size_t layer, int rows);
  void FeedForward(size_t layer, int rows);
  std::span<const float> Logits(std::span<const BatchItem> items);
  // What a block adds to the residual: the product itself, or its norm where the family has post-norms.
  void AddProduct(const backend::Activations& x, int rows, const backend::Matrix& weight, const float* bias,
                  const float* post_norm);

  backend::Backend& backend_;
  const ModelConfig& config_;
  const Weights& weights_;
  attention::Executor& executor_;
  const int max_rows_;
  std::vector<RopeTable> ropes_;
  std::vector<std::vector<backend::Expert>> experts_;  // of each layer; empty where it is dense

  backend::Buffer residual_;              // [max_rows, n_embd]
  backend::Buffer block_out_;             // [max_rows, n_embd]
  backend::Buffer q_, k_, v_;             // [max_rows, heads * head_dim] of the widest layer
  ActivationBuffer normed_;               // n_embd wide
  ActivationBuffer attended_;             // q_heads * dv wide
  ActivationBuffer hidden_;               // n_ff wide
  std::vector<backend::Buffer> cos_sin_;  // per rope: [max_rows, pairs, 2]
  std::vector<std::vector<float>> cos_sin_host_;
  backend::Buffer chosen_;  // rows whose logits are asked for, gathered [max_rows, n_embd]
  backend::Buffer logits_;  // [logit_rows_, n_vocab]
  int logit_rows_ = 0;      // rows that fit logits_ at a time
  std::vector<float> logits_host_;
  std::vector<int32_t> tokens_;
  std::vector<attention::Slice> slices_;
};

}  // namespace kvasir::model
