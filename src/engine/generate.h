// engine/generate.h
// One generation: evaluate a prompt behind what the sequence already holds, then choose and evaluate token after token.
//
// What is held and equal is not evaluated again: the longest common prefix of the sequence and the prompt stays (less
// one token when that is the whole prompt, because its logits are needed), the rest of the sequence is forgotten. What
// it does not do: batch several generations or render chats.
//
// Thread rule: engine thread only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "model/sampler.h"

namespace kvasir::engine {

enum class FinishReason {
  kStop,       // an end-of-generation token
  kLength,     // max_tokens, or the context is full
  kCancelled,  // a callback said so
};
std::string_view Name(FinishReason reason);  // "eos", "length", "cancelled"

struct GenerateOptions {
  model::SamplerOptions sampler;
  int max_tokens = -1;      // -1: until an end token or the end of the context
  bool stop_at_end = true;  // false: end-of-generation tokens are ordinary
  model::LogitsOf logits =
      model::LogitsOf::kNone;  // which positions on_logits sees: kLastRow the prompt's last, kAllRows all
};

// Each may be empty. False from on_progress or on_token ends the generation with what it has.
struct GenerateCallbacks {
  std::function<bool(size_t done, size_t total)> on_progress;                  // prompt tokens evaluated
  std::function<bool(kv::Token token)> on_token;                               // chosen, end tokens apart
  std::function<void(int position, std::span<const float> logits)> on_logits;  // [n_vocab]
};

struct Timings {
  size_t cached_tokens = 0;  // of the prompt, not evaluated
  size_t prompt_tokens = 0;  // of the prompt, evaluated
  double prompt_ms = 0;
  size_t predicted_tokens = 0;
  double predicted_ms = 0;
};

struct Generation {
  std::vector<kv::Token> tokens;  // the end token apart
  FinishReason finish = FinishReason::kLength;
  Timings timings;
};

// Errors: kInvalidArgument (an empty prompt, one that does not fit the context: both counts), those of Step and Sample.
// The sequence keeps whatever was evaluated.
Result<Generation> Generate(Engine& engine, kv::SequenceId sequence, std::span<const kv::Token> prompt,
                            const GenerateOptions& options, const GenerateCallbacks& callbacks);

}  // namespace kvasir::engine
