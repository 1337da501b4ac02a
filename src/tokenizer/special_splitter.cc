#include "tokenizer/special_splitter.h"

#include <algorithm>
#include <utility>

namespace kvasir::tokenizer {
namespace {

struct Match {
  size_t begin, end;  // without the white space that goes along
  size_t taken_begin, taken_end;
  Token token;
};

// As isspace in the C locale.
bool IsSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The longest name at `at` that is at most `most` bytes long; its length, 0 if there is none.
size_t LongestName(const Trie& trie, std::string_view text, size_t at, size_t most, Token& token) {
  size_t length = 0;
  Trie::Node node = Trie::kRoot;
  const size_t end = std::min(text.size(), at + most);
  for (size_t i = at; i < end; ++i) {
    node = trie.Step(node, text[i]);
    if (node == Trie::kNowhere) break;
    if (trie.Value(node) == Trie::kNone) continue;
    token = trie.Value(node);
    length = i + 1 - at;
  }
  return length;
}

}  // namespace

SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {
  AddNames(kControlToken | kUnknownToken | kUserDefinedToken, all_);
  AddNames(kUserDefinedToken, user_defined_);
  for (const TokenTraits traits : vocabulary.token_traits) strips_ |= (traits & (kStripsLeft | kStripsRight)) != 0;
}

void SpecialSplitter::AddNames(TokenTraits traits, Names& names) const {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  for (Token token = 0; token < vocabulary_->size(); ++token) {
    if (!vocabulary_->Is(token, traits)) continue;
    const bool guarded = vocabulary_->Is(token, kControlToken | kUnknownToken);
    if (guarded && (traits & kControlToken) == 0) continue;
    const std::string_view text = vocabulary_->Text(token);
    texts.emplace_back(text, token);
    size_t& longest = names.longest_by_byte[static_cast<unsigned char>(text[0])];
    longest = std::max(longest, text.size());
    names.longest = std::max(names.longest, text.size());
  }
  names.trie = Trie(std::move(texts));
}

std::vector<Fragment> SpecialSplitter::Split(std::string_view text, bool parse_special) const {
  const Names& names = parse_special ? all_ : user_defined_;
  std::vector<Fragment> fragments;
  if (text.empty()) return fragments;

  // Names that may overlap others, by length, each list from left to right.
  std::vector<std::vector<size_t>> starts(names.longest + 1);
  std::vector<bool> taken;
  std::vector<Match> matches;
  const auto take = [&](const Match& match) {
    if (taken.empty()) taken.resize(text.size());
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(match.taken_begin),
              taken.begin() + static_cast<std::ptrdiff_t>(match.taken_end), true);
    matches.push_back(match);
  };
  size_t open_end = 0;  // of what is in `starts`
  for (size_t at = 0; at < text.size() && names.longest > 0;) {
    Token token = kNoToken;
    const size_t most = names.longest_by_byte[static_cast<unsigned char>(text[at])];
    const size_t length = most > 0 ? LongestName(names.trie, text, at, most, token) : 0;
    if (length == 0) {
      ++at;
      continue;
    }
    size_t rival = 0;
    for (const char byte : text.substr(at + 1, length - 1)) {
      rival = std::max(rival, names.longest_by_byte[static_cast<unsigned char>(byte)]);
    }
    if (at >= open_end && rival <= length && !strips_) {
      take({at, at + length, at, at + length, token});
      at += length;
    } else {
      starts[length].push_back(at);
      open_end = std::max(open_end, at + length);
      ++at;
    }
  }
  if (matches.empty() && open_end == 0) {
    fragments.push_back({kNoToken, text});
    return fragments;
  }
  taken.resize(text.size());

  for (size_t length = names.longest; length > 0; --length) {
    std::vector<size_t>& places = starts[length];
    std::sort(places.begin(), places.end());
    for (const size_t begin : places) {
      if (taken[begin]) continue;
      const size_t end = begin + length;
      Token token = kNoToken;
      // What was taken so far is at least as long as this name, so it cannot lie inside it.
      if (taken[end - 1]) {
        if (const size_t shorter = LongestName(names.trie, text, begin, length - 1, token); shorter > 0) {
          starts[shorter].push_back(begin);
        }
        continue;
      }
      LongestName(names.trie, text, begin, length, token);
      Match match{begin, end, begin, end, token};
      if (vocabulary_->Is(token, kStripsLeft)) {
        while (match.taken_begin > 0 && !taken[match.taken_begin - 1] && IsSpace(text[match.taken_begin - 1])) {
          --match.taken_begin;
        }
      }
      if (vocabulary_->Is(token, kStripsRight)) {
        while (match.taken_end < text.size() && !taken[match.taken_end] && IsSpace(text[match.taken_end])) {
          ++match.taken_end;
        }
      }
      take(match);
    }
  }
  std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.begin < b.begin; });
  size_t at = 0;
  for (const Match& match : matches) {
    if (match.taken_begin > at) fragments.push_back({kNoToken, text.substr(at, match.taken_begin - at)});
    fragments.push_back({match.token, {}});
    at = match.taken_end;
  }
  if (at < text.size()) fragments.push_back({kNoToken, text.substr(at)});
  return fragments;
}

}  // namespace kvasir::tokenizer
