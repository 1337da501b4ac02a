// cli/sampler_flags.h
// The sampling flags, named and defaulted as in llama-server.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/flags.h"
#include "model/sampler_options.h"
#include "tokenizer/tokenizer.h"

namespace kvasir::cli {

struct SamplerFlags {
  model::SamplerOptions options;
  int64_t seed = -1;                    // -1: another one each time
  std::vector<std::string> logit_bias;  // "id+bias", "id-bias"
  std::string chain;                    // stage names separated by ';'
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};

  void AddTo(Flags& flags);

  // The options, with breakers and end tokens as the vocabulary spells them. kInvalidArgument names the flag and the
  // value.
  Result<model::SamplerOptions> ToOptions(const tokenizer::Tokenizer& tokenizer) const;
};

}  // namespace kvasir::cli
