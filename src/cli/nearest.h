// cli/nearest.h
// Which known name a misspelt one probably means.
//
// Thread rule: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir::cli {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment).
int EditDistance(std::string_view a, std::string_view b);

// "; did you mean --json?", or nothing when no name is near.
std::string DidYouMean(std::string_view given, std::span<const std::string_view> known);

}  // namespace kvasir::cli
