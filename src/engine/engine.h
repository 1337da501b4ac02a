// engine/engine.h
// A loaded model with its KV: everything between a file name and logits.
//
// Owns the backend, weights, KV cache and forward pass, and keeps their contract together: pages are reserved before a
// step runs and committed after it. Commands, tests and (later) the server's scheduler drive it step by step. What it
// does not do: schedule several clients, or choose tokens (model/sampler.h).
//
// Thread rule: one thread, the engine thread, calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention/executor.h"
#include "backend/factory.h"
#include "base/result.h"
#include "gguf/gguf_file.h"
#include "kv/kv_cache.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

namespace kvasir::engine {

// Keeps a fraction of every layer's KV heads in a simulated device's memory and streams the rest from the host: the
// proof that placement changes no bit, runnable without a GPU.
struct SimDevice {
  size_t device_bytes = size_t{1} << 30;
  double device_heads_fraction = 0.5;
};

struct EngineOptions {
  std::string model_path;
  int64_t context = 0;  // tokens of a sequence; 0: as trained, or what memory allows
  int ubatch = 512;     // rows of a step
  backend::CpuOptions cpu;
  backend::KvType type_k = backend::KvType::kF16;
  backend::KvType type_v = backend::KvType::kF16;
  std::optional<SimDevice> sim;
};

class Engine {
 public:
  // Errors name the file, key, tensor or option at fault; kResourceExhausted carries the arithmetic.
  static Result<std::unique_ptr<Engine>> Load(const EngineOptions& options, const model::LoadProgress& progress = {});

  // Evaluates one step of at most ubatch() rows: reserves pages, runs the forward pass, commits. The logits asked for,
  // in item and row order, are valid until the next step. kResourceExhausted leaves every sequence as it was.
  // kInvalidArgument: a sequence would outgrow context().
  Result<std::span<const float>> Step(std::span<const model::BatchItem> items);

  // Evaluates `tokens` behind `sequence` in steps of ubatch() rows and returns the logits of the last one. `progress`
  // is told how many are done after each step; false stops with kCancelled, what is done stays done.
  using PrefillProgress = std::function<bool(size_t done)>;
  Result<std::span<const float>> Prefill(kv::SequenceId sequence, std::span<const kv::Token> tokens,
                                         const PrefillProgress& progress = {});

  kv::KvCache& cache() { return *cache_; }
  const gguf::GgufFile& file() const { return file_; }
  const model::ModelConfig& config() const { return config_; }
  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }
  const backend::BackendProfile& backend_profile() const { return backend_->profile(); }
  int64_t context() const { return context_; }
  int ubatch() const { return options_.ubatch; }
  backend::KvType type_k() const { return options_.type_k; }
  backend::KvType type_v() const { return options_.type_v; }
  size_t weight_bytes() const { return weights_.bytes(); }
  // Of the weights that a decoded token reads: an embedding that is not also the output head is looked up, not read.
  size_t touched_weight_bytes() const {
    return weights_.bytes() - (weights_.output != nullptr ? weights_.embedding->bytes() : 0);
  }
  size_t token_kv_bytes() const { return cache_->shape().token_bytes(); }
  size_t work_bytes() const { return forward_->work_bytes(); }
  double load_ms() const { return load_ms_; }

 private:
  Engine(EngineOptions options, gguf::GgufFile file, model::ModelConfig config, tokenizer::Tokenizer tokenizer,
         int64_t context);
  Status LoadInto(std::unique_ptr<backend::Backend> backend, const model::LoadProgress& progress);

  EngineOptions options_;
  gguf::GgufFile file_;
  model::ModelConfig config_;
  tokenizer::Tokenizer tokenizer_;
  int64_t context_;
  double load_ms_ = 0;
  std::unique_ptr<backend::Backend> backend_;  // outlives what it allocated
  model::Weights weights_;
  std::unique_ptr<kv::KvCache> cache_;
  std::unique_ptr<attention::Executor> executor_;
  std::unique_ptr<model::Forward> forward_;
};

}  // namespace kvasir::engine
