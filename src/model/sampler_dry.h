// model/sampler_dry.h
// DRY ("don't repeat yourself"): which tokens would continue a repetition, and how long it already is.
//
// Method by p-e-w, first in github.com/oobabooga/text-generation-webui. If the last n tokens stand somewhere
// earlier too, the token that came after them there would make the repetition longer.
//
//   history  a b c x a b c    ->    x continues a repetition of 3
//
// A breaker (a newline, a colon, ...) ends what counts: nothing before the last one in the history belongs to the
// repetition, and a breaker of one token is never held against.
//
// Thread rule: pure function.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "model/sampler_options.h"

namespace kvasir::model {

// Token -> length of the longest repetition it would continue, for lengths >= max(1, allowed_length). Linear in
// `history`.
std::unordered_map<Token, int> FindRepetitions(std::span<const Token> history, int allowed_length,
                                               const std::vector<std::vector<Token>>& breakers);

}  // namespace kvasir::model
