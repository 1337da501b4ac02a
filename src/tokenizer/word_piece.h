// tokenizer/word_piece.h
// BERT's WordPiece: text is cleaned, cut into words and punctuation, and each word covered by the longest tokens from
// the left.
//
// A word begins with U+2581 in these files. A word that cannot be covered is one unknown token. Cleaning loses accents,
// case, white space and control characters, so decoding does not give the text back.
//
// Thread rule: const after construction.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {

class WordPieceEncoder {
 public:
  // `vocabulary` must outlive the encoder. REQUIRES: its kind is kWordPiece.
  explicit WordPieceEncoder(const Vocabulary& vocabulary);

  void Encode(std::string_view text, std::vector<Token>& out) const;

 private:
  void EncodeWord(std::string_view word, std::vector<Token>& out) const;

  const Vocabulary* vocabulary_;
  Trie tokens_;
};

}  // namespace kvasir::tokenizer
