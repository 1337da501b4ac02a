#include "model/sampler_options.h"

#include <cmath>
#include <limits>

namespace kvasir::model {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

struct StageName {
  SamplerStage stage;
  std::string_view name;
};
constexpr StageName kStageNames[] = {
    {SamplerStage::kPenalties, "penalties"},
    {SamplerStage::kDry, "dry"},
    {SamplerStage::kTopNSigma, "top_n_sigma"},
    {SamplerStage::kTopK, "top_k"},
    {SamplerStage::kTypicalP, "typ_p"},
    {SamplerStage::kTopP, "top_p"},
    {SamplerStage::kMinP, "min_p"},
    {SamplerStage::kXtc, "xtc"},
    {SamplerStage::kTemperature, "temperature"},
};

struct Bound {
  std::string_view field;
  double value;
  double min;
  double max;
};

Status CheckBound(const Bound& bound) {
  // Written so that NaN fails.
  if (bound.value >= bound.min && bound.value <= bound.max) return {};
  if (bound.max == kAny && bound.min == -kAny) {
    return MakeError(ErrorCode::kInvalidArgument, "{} must be a finite number, not {}", bound.field, bound.value);
  }
  if (bound.max == kAny) {
    return MakeError(ErrorCode::kInvalidArgument, "{} must be at least {}, not {}", bound.field, bound.min,
                     bound.value);
  }
  return MakeError(ErrorCode::kInvalidArgument, "{} must be between {} and {}, not {}", bound.field, bound.min,
                   bound.max, bound.value);
}

Status CheckTokens(std::string_view field, const std::vector<Token>& tokens, int vocabulary) {
  for (const Token token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return MakeError(ErrorCode::kInvalidArgument, "{} names token {}, but the vocabulary has {} tokens", field, token,
                       vocabulary);
    }
  }
  return {};
}

}  // namespace

std::string_view Name(SamplerStage stage) {
  for (const StageName& entry : kStageNames) {
    if (entry.stage == stage) return entry.name;
  }
  return "?";
}

std::optional<SamplerStage> ParseSamplerStage(std::string_view name) {
  for (const StageName& entry : kStageNames) {
    if (entry.name == name) return entry.stage;
  }
  return std::nullopt;
}

Status SamplerOptions::Validate(int vocabulary) const {
  const Bound bounds[] = {
      {"temperature", temperature, -kAny, kAny},
      {"dynatemp_range", dynatemp_range, 0, kAny},
      {"dynatemp_exponent", dynatemp_exponent, 0, kAny},
      {"top_p", top_p, 0, kAny},
      {"min_p", min_p, 0, 1},
      {"typical_p", typical_p, 0, kAny},
      {"top_n_sigma", top_n_sigma, -kAny, kAny},
      {"xtc_probability", xtc_probability, 0, 1},
      {"xtc_threshold", xtc_threshold, 0, 1},
      {"min_keep", static_cast<double>(min_keep), 0, kAny},
      {"repeat_last_n", static_cast<double>(repeat_last_n), -1, kAny},
      // Below this, dividing a logit by it could leave the range of float.
      {"repeat_penalty", repeat_penalty, 1e-6, 1e6},
      {"presence_penalty", presence_penalty, -kAny, kAny},
      {"frequency_penalty", frequency_penalty, -kAny, kAny},
      {"dry_multiplier", dry_multiplier, 0, kAny},
      {"dry_base", dry_base, 1, kAny},
      {"dry_allowed_length", static_cast<double>(dry_allowed_length), 0, kAny},
      {"dry_penalty_last_n", static_cast<double>(dry_penalty_last_n), -1, kAny},
      {"mirostat", static_cast<double>(mirostat), 0, 2},
      {"mirostat_tau", mirostat_tau, 0, kAny},
      {"mirostat_eta", mirostat_eta, 0, kAny},
      {"n_probs", static_cast<double>(n_probs), 0, kAny},
  };
  for (const Bound& bound : bounds) KVASIR_RETURN_IF_ERROR(CheckBound(bound));

  for (const auto& [token, bias] : logit_bias) {
    KVASIR_RETURN_IF_ERROR(CheckTokens("logit_bias", {token}, vocabulary));
    if (std::isnan(bias) || bias == std::numeric_limits<double>::infinity()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias of token {} must be a finite number or -infinity, not {}", token, bias);
    }
  }
  KVASIR_RETURN_IF_ERROR(CheckTokens("end_tokens", end_tokens, vocabulary));
  for (const std::vector<Token>& breaker : dry_breakers) {
    if (breaker.empty()) return MakeError(ErrorCode::kInvalidArgument, "dry_sequence_breakers has an empty entry");
    KVASIR_RETURN_IF_ERROR(CheckTokens("dry_sequence_breakers", breaker, vocabulary));
  }
  return {};
}

}  // namespace kvasir::model
