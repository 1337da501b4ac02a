// model/sampler_options.h
// What a request may say about choosing tokens: llama-server's fields, defaults and chain order.
//
// Defaults and order are those of `common_params_sampling` in llama.cpp's common/common.h (0c1e57098), so that a client
// which moves here sees the same distribution. Seeds do not carry over: the generator is our own.
//
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kvasir::model {

using Token = int32_t;

enum class SamplerStage : uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
};

// "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature", as llama-server spells
// them.
std::string_view Name(SamplerStage stage);
std::optional<SamplerStage> ParseSamplerStage(std::string_view name);

struct SamplerOptions {
  uint64_t seed = 0;  // who wants a different text each time chooses a different seed

  double temperature = 0.8;   // <= 0: greedy
  double dynatemp_range = 0;  // > 0: temperature +- range, by the entropy of what is left
  double dynatemp_exponent = 1;
  int top_k = 40;           // <= 0: off
  double top_p = 0.95;      // >= 1: off
  double min_p = 0.05;      // 0: off
  double typical_p = 1;     // >= 1: off
  double top_n_sigma = -1;  // <= 0: off
  double xtc_probability = 0;
  double xtc_threshold = 0.1;  // > 0.5: off
  int min_keep = 0;            // top_p, min_p, typical_p and XTC leave at least so many

  int repeat_last_n = 64;  // tokens that the three penalties look back; -1: all, 0: off
  double repeat_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;

  double dry_multiplier = 0;  // 0: off
  double dry_base = 1.75;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;                   // -1: all, 0: off
  std::vector<std::vector<Token>> dry_breakers;  // spelled as tokens; a repetition does not reach across one

  int mirostat = 0;  // 1, 2: only the temperature is applied before it
  double mirostat_tau = 5;
  double mirostat_eta = 0.1;

  std::vector<std::pair<Token, double>> logit_bias;  // added to raw logits; -infinity bans
  bool ignore_eos = false;                           // bans `end_tokens`
  std::vector<Token> end_tokens;  // the vocabulary's end-of-generation tokens; read for ignore_eos only

  int n_probs = 0;                   // how many alternatives to report
  bool post_sampling_probs = false;  // report what the chain left instead of the model's own distribution

  std::vector<SamplerStage> chain = {SamplerStage::kPenalties, SamplerStage::kDry,      SamplerStage::kTopNSigma,
                                     SamplerStage::kTopK,      SamplerStage::kTypicalP, SamplerStage::kTopP,
                                     SamplerStage::kMinP,      SamplerStage::kXtc,      SamplerStage::kTemperature};

  // kInvalidArgument, naming the field as a request spells it, and the value.
  Status Validate(int vocabulary) const;
};

}  // namespace kvasir::model
