#include "model/sampler_dry.h"

#include <algorithm>

namespace kvasir::model {
namespace {

bool EndsWith(std::span<const Token> tokens, const std::vector<Token>& ending) {
  return tokens.size() >= ending.size() && std::equal(ending.begin(), ending.end(), tokens.last(ending.size()).begin());
}

// How many tokens stand after the last breaker.
size_t TokensSinceBreaker(std::span<const Token> history, const std::vector<std::vector<Token>>& breakers) {
  for (size_t since = 0; since < history.size(); ++since) {
    const auto upto = history.first(history.size() - since);
    if (std::any_of(breakers.begin(), breakers.end(), [&](const auto& breaker) { return EndsWith(upto, breaker); }))
      return since;
  }
  return history.size();
}

}  // namespace

std::unordered_map<Token, int> FindRepetitions(std::span<const Token> history, int allowed_length,
                                               const std::vector<std::vector<Token>>& breakers) {
  std::unordered_map<Token, int> repetitions;
  const size_t n = history.size();
  const size_t shortest = static_cast<size_t>(std::max(1, allowed_length));
  const size_t longest = TokensSinceBreaker(history, breakers);
  if (n <= shortest || longest < shortest) return repetitions;

  // Read backwards, "the last tokens stand earlier too" is "a later position starts like the whole": the Z function.
  // matches[i] is the length that r[i..] and r share, for r = history reversed; [left, right) is the known match that
  // reaches furthest.
  const auto r = [&](size_t i) { return history[n - 1 - i]; };
  std::vector<size_t> matches(n, 0);
  size_t left = 0;
  size_t right = 0;
  for (size_t i = 1; i < n; ++i) {
    size_t length = i < right ? std::min(right - i, matches[i - left]) : 0;
    while (i + length < n && r(length) == r(i + length)) ++length;
    matches[i] = length;
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    const size_t counted = std::min(length, longest);
    if (counted < shortest) continue;
    int& best = repetitions[r(i - 1)];
    best = std::max(best, static_cast<int>(counted));
  }

  for (const std::vector<Token>& breaker : breakers) {
    if (breaker.size() == 1) repetitions.erase(breaker.front());
  }
  return repetitions;
}

}  // namespace kvasir::model
