#include "engine/generate.h"

#include <algorithm>
#include <chrono>

namespace kvasir::engine {
namespace {

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Evaluates `rows` tokens at the end of the sequence and hands out what logits the caller asked for.
Result<std::span<const float>> Evaluate(Engine& engine, kv::SequenceId sequence, std::span<const kv::Token> tokens,
                                        bool last, const GenerateOptions& options, const GenerateCallbacks& callbacks) {
  const bool all = options.logits == model::LogitsOf::kAllRows;
  const int first = engine.cache().length(sequence);
  const model::BatchItem item{.sequence = sequence,
                              .first_position = first,
                              .tokens = tokens,
                              .logits = all    ? model::LogitsOf::kAllRows
                                        : last ? model::LogitsOf::kLastRow
                                               : model::LogitsOf::kNone};
  KVASIR_ASSIGN_OR_RETURN(const std::span<const float> logits, engine.Step({&item, 1}));
  const auto vocabulary = static_cast<size_t>(engine.config().n_vocab);
  if (all && callbacks.on_logits) {
    for (size_t row = 0; row < tokens.size(); ++row) {
      callbacks.on_logits(first + static_cast<int>(row), logits.subspan(row * vocabulary, vocabulary));
    }
  }
  return logits.empty() ? logits : logits.last(vocabulary);
}

}  // namespace

std::string_view Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "eos";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "length";
}

Result<Generation> Generate(Engine& engine, kv::SequenceId sequence, std::span<const kv::Token> prompt,
                            const GenerateOptions& options, const GenerateCallbacks& callbacks) {
  if (prompt.empty()) return MakeError(ErrorCode::kInvalidArgument, "the prompt has no tokens");
  if (static_cast<int64_t>(prompt.size()) > engine.context()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the prompt has {} tokens but the context holds {}; raise -c or shorten the prompt", prompt.size(),
                     engine.context());
  }
  KVASIR_ASSIGN_OR_RETURN(model::Sampler sampler, model::Sampler::Create(options.sampler, engine.config().n_vocab));

  Generation generation;
  Timings& timings = generation.timings;
  const auto held = engine.cache().tokens(sequence);
  const auto parted = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end());
  timings.cached_tokens = std::min(static_cast<size_t>(parted.first - held.begin()), prompt.size() - 1);
  engine.cache().Truncate(sequence, static_cast<int>(timings.cached_tokens));
  for (const kv::Token token : prompt) sampler.Accept(token);

  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits;
  for (size_t done = timings.cached_tokens; done < prompt.size();) {
    const size_t rows = std::min(prompt.size() - done, static_cast<size_t>(engine.ubatch()));
    const bool last = done + rows == prompt.size();
    KVASIR_ASSIGN_OR_RETURN(logits, Evaluate(engine, sequence, prompt.subspan(done, rows), last, options, callbacks));
    done += rows;
    timings.prompt_tokens += rows;
    timings.prompt_ms = MillisecondsSince(start);
    if (callbacks.on_progress && !callbacks.on_progress(done, prompt.size())) {
      generation.finish = FinishReason::kCancelled;
      return generation;
    }
  }
  if (options.logits == model::LogitsOf::kLastRow && callbacks.on_logits) {
    callbacks.on_logits(static_cast<int>(prompt.size()) - 1, logits);
  }

  start = std::chrono::steady_clock::now();
  while (options.max_tokens < 0 || generation.tokens.size() < static_cast<size_t>(options.max_tokens)) {
    KVASIR_ASSIGN_OR_RETURN(const model::Choice choice, sampler.Sample(logits));
    if (options.stop_at_end && engine.tokenizer().IsEndOfGeneration(choice.id)) {
      generation.finish = FinishReason::kStop;
      break;
    }
    generation.tokens.push_back(choice.id);
    sampler.Accept(choice.id);
    timings.predicted_tokens = generation.tokens.size();
    if (callbacks.on_token && !callbacks.on_token(choice.id)) {
      generation.finish = FinishReason::kCancelled;
      break;
    }
    const bool enough = options.max_tokens >= 0 && generation.tokens.size() == static_cast<size_t>(options.max_tokens);
    if (enough || engine.cache().length(sequence) >= engine.context()) break;
    KVASIR_ASSIGN_OR_RETURN(logits,
                            Evaluate(engine, sequence, {&generation.tokens.back(), 1}, true, options, callbacks));
  }
  timings.predicted_ms = MillisecondsSince(start);
  return generation;
}

}  // namespace kvasir::engine
