// model/sampler.h
// Chooses the next token of one sequence from its logits.
//
// A chain of filters in llama-server's order, then one draw. Deterministic: the choice is a function of options,
// history and logits alone. Every random number belongs to a place (seed, token index, stage), so equal seeds give
// equal text on every machine, whatever else runs beside. What it does not do: know the model or the grammar, or stop
// at an end token.
//
// Cost: one pass over the logits and a short list, with the default options; a pass per filter that has to see all
// tokens.
//
// Thread rule: one thread at a time. Copies are independent and go on alike.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/sampler_candidates.h"
#include "model/sampler_options.h"

namespace kvasir::model {

struct TokenLogprob {
  Token id = 0;
  double logprob = 0;  // natural logarithm
};

struct Choice {
  Token id = 0;
  // For n_probs > 0: the chosen token, and the n_probs most likely ones, best first. By the model's own distribution
  // before any filter or bias, or with post_sampling_probs by what the draw was made from.
  double logprob = 0;
  std::vector<TokenLogprob> top;
};

class Sampler {
 public:
  // Errors: those of SamplerOptions::Validate.
  static Result<Sampler> Create(SamplerOptions options, int vocabulary);

  // Makes `token` part of what penalties and DRY look back on: first the prompt's tokens, then each that was chosen.
  void Accept(Token token);

  // The token to come after the accepted ones. Asking again gives another draw. NaN counts as -infinity, +infinity as
  // the largest float. kCorrupt when no token is left to choose. REQUIRES: logits.size() is the vocabulary's.
  Result<Choice> Sample(std::span<const float> logits);

  const SamplerOptions& options() const { return options_; }

 private:
  Sampler(SamplerOptions options, int vocabulary);

  void RunStage(SamplerStage stage);
  void Penalize();
  void PenalizeRepetitions();
  void KeepWithinSigmas();
  void KeepTypical();
  void KeepTopP();
  void ExcludeTopChoices();
  void ApplyTemperature();
  size_t Draw();
  size_t DrawMirostat();
  double Uniform(uint64_t stream) const;
  std::span<const Token> Last(int count) const;  // -1: all

  SamplerOptions options_;
  int vocabulary_;
  std::unordered_map<Token, double> bias_;
  std::vector<Token> history_;
  std::unordered_map<Token, int> counts_;  // of the last repeat_last_n tokens
  uint64_t drawn_ = 0;                     // calls of Sample
  double mirostat_mu_;
  Candidates candidates_;  // kept between calls for its memory
};

}  // namespace kvasir::model
