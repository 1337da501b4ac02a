// tokenizer/unigram.h
// SentencePiece unigram ("t5" vocabularies): of all ways to cover the text with tokens, the one with the best sum of
// scores.
//
// Text is normalised first, by the file's own character map: a double array over bytes (XCDA: Kanda 2018, as
// SentencePiece stores it) that finds the longest prefix with a replacement. The map is untrusted; a walk that leaves
// it finds nothing.
//
// Thread rule: const after construction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {

class UnigramEncoder {
 public:
  // `vocabulary` must outlive the encoder. REQUIRES: its kind is kUnigram.
  // Errors: kCorrupt if tokenizer.ggml.precompiled_charsmap is shorter than it says, or no unknown token exists.
  static Result<UnigramEncoder> Create(const Vocabulary& vocabulary);

  void Encode(std::string_view text, std::vector<Token>& out) const;

 private:
  UnigramEncoder() = default;
  std::string Normalise(std::string_view text) const;
  // What the text at `at` becomes, and how many of its bytes that takes.
  std::string_view NormalisePrefix(std::string_view text, size_t at, size_t& taken) const;

  const Vocabulary* vocabulary_ = nullptr;
  Trie tokens_;
  Trie user_defined_;
  double unknown_score_ = 0;
  std::vector<uint32_t> map_nodes_;
  std::string map_texts_;  // replacements, each ended by NUL
};

}  // namespace kvasir::tokenizer
