#include "cli/sampler_flags.h"

#include <charconv>
#include <random>
#include <string_view>

namespace kvasir::cli {
namespace {

// "15043+1.5", "15043-0.5", "15043-inf"
Result<std::pair<model::Token, double>> ParseBias(const std::string& text) {
  const size_t sign = text.find_first_of("+-", 1);
  model::Token id = 0;
  const char* const end = text.data() + (sign == std::string::npos ? 0 : sign);
  if (sign != std::string::npos && std::from_chars(text.data(), end, id).ptr == end) {
    char* rest = nullptr;
    const double bias = std::strtod(text.c_str() + sign, &rest);
    if (*rest == 0 && rest != text.c_str() + sign) return std::pair{id, bias};
  }
  return MakeError(ErrorCode::kInvalidArgument, "--logit-bias {}: not of the form ID+BIAS or ID-BIAS", text);
}

Result<std::vector<model::SamplerStage>> ParseChain(std::string_view text) {
  std::vector<model::SamplerStage> stages;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    const auto stage = model::ParseSamplerStage(name);
    if (!stage.has_value()) return MakeError(ErrorCode::kInvalidArgument, "--samplers: there is no sampler '{}'", name);
    stages.push_back(*stage);
  }
  return stages;
}

}  // namespace

void SamplerFlags::AddTo(Flags& flags) {
  flags.Add({"-s --seed", "N", "seed of the random numbers; -1: another one each time"}, &seed, -1);
  flags.Add({"--samplers", "NAMES", "the chain, names separated by ';'"}, &chain);
  flags.Add({"--temp", "X", "temperature; 0: greedy"}, &options.temperature);
  flags.Add({"--dynatemp-range", "X", "temperature +- this, by entropy"}, &options.dynatemp_range);
  flags.Add({"--dynatemp-exp", "X", "exponent of the dynamic temperature"}, &options.dynatemp_exponent);
  flags.Add({"--top-k", "N", "keep the k most likely; 0: all"}, &options.top_k);
  flags.Add({"--top-p", "X", "keep the most likely of this sum; 1: all"}, &options.top_p);
  flags.Add({"--min-p", "X", "keep what is at least this times as likely as the best; 0: all"}, &options.min_p);
  flags.Add({"--typical", "X", "locally typical sampling; 1: off"}, &options.typical_p);
  flags.Add({"--top-n-sigma --top-nsigma", "X", "keep within n standard deviations of the best logit; -1: off"},
            &options.top_n_sigma);
  flags.Add({"--xtc-probability", "X", "chance to exclude top choices; 0: off"}, &options.xtc_probability);
  flags.Add({"--xtc-threshold", "X", "what counts as a top choice"}, &options.xtc_threshold);
  flags.Add({"--repeat-last-n", "N", "tokens that penalties look back; -1: all, 0: off"}, &options.repeat_last_n, -1);
  flags.Add({"--repeat-penalty", "X", "1: off"}, &options.repeat_penalty);
  flags.Add({"--presence-penalty", "X", "0: off"}, &options.presence_penalty);
  flags.Add({"--frequency-penalty", "X", "0: off"}, &options.frequency_penalty);
  flags.Add({"--dry-multiplier", "X", "penalty of repeated sequences; 0: off"}, &options.dry_multiplier);
  flags.Add({"--dry-base", "X", "growth of that penalty"}, &options.dry_base);
  flags.Add({"--dry-allowed-length", "N", "repeats up to this length are free"}, &options.dry_allowed_length, 0);
  flags.Add({"--dry-penalty-last-n", "N", "tokens that DRY looks back; -1: all, 0: off"}, &options.dry_penalty_last_n,
            -1);
  flags.Add({"--dry-sequence-breaker", "TEXTS", "texts that a repeat does not reach across; 'none': no breaker"},
            &dry_breakers);
  flags.Add({"--mirostat", "N", "1 or 2 instead of the chain; 0: off"}, &options.mirostat, 0, 2);
  flags.Add({"--mirostat-ent", "X", "target entropy"}, &options.mirostat_tau);
  flags.Add({"--mirostat-lr", "X", "learning rate"}, &options.mirostat_eta);
  flags.Add({"-l --logit-bias", "BIASES", "ID+BIAS or ID-BIAS"}, &logit_bias);
  flags.Add({"--ignore-eos", "", "do not end at an end-of-generation token"}, &options.ignore_eos);
}

Result<model::SamplerOptions> SamplerFlags::ToOptions(const tokenizer::Tokenizer& tokenizer) const {
  model::SamplerOptions made = options;
  if (seed < -1) return MakeError(ErrorCode::kInvalidArgument, "--seed {} is neither -1 nor a seed", seed);
  made.seed = seed >= 0 ? static_cast<uint64_t>(seed) : std::random_device()();
  if (!chain.empty()) {
    KVASIR_ASSIGN_OR_RETURN(made.chain, ParseChain(chain));
  }
  for (const std::string& text : logit_bias) {
    KVASIR_ASSIGN_OR_RETURN(const auto bias, ParseBias(text));
    made.logit_bias.push_back(bias);
  }
  if (made.dry_multiplier > 0) {
    for (const std::string& breaker : dry_breakers) {
      if (breaker != "none") made.dry_breakers.push_back(tokenizer.Encode(breaker, {.add_special = false}));
    }
  }
  made.end_tokens.assign(tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end());
  return made;
}

}  // namespace kvasir::cli
