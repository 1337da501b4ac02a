// tokenizer/byte_pair.h
// Byte-pair encoding: the pre-tokenizer cuts the text, ranked merges build each piece's tokens.
//
// Merges are looked up as a pair of ids in one open-addressed table, so no text is compared while merging. In
// byte-level vocabularies a piece starts as its bytes; where spaces are visible (Gemma 4) as its characters, and what
// no token covers becomes byte tokens. There a line is one piece, so it is cut again where nothing can merge across
// (neighbours.h). Merges never make a control token: text stays text.
//
// Thread rule: const after Create.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/merge_queue.h"
#include "tokenizer/neighbours.h"
#include "tokenizer/piece_cache.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {

class BytePairEncoder {
 public:
  // `vocabulary` must outlive the encoder. REQUIRES: its kind is kBytePair.
  static Result<BytePairEncoder> Create(const Vocabulary& vocabulary);

  // Buffers of one Encode call, kept over the fragments of a text.
  struct Scratch {
    std::vector<size_t> ends;
    std::vector<Symbol> symbols;
    MergeQueue queue;
    PieceCache cache;
  };
  void Encode(std::string_view text, Scratch& scratch, std::vector<Token>& out) const;

 private:
  struct Slot {
    Token left = kNoToken, right = kNoToken, result = kNoToken;
    uint32_t rank = 0;
  };
  struct Joins;

  BytePairEncoder(const Vocabulary& vocabulary, PreTokenizer pre_tokenizer)
      : vocabulary_(&vocabulary), pre_tokenizer_(std::move(pre_tokenizer)) {}
  void BuildTable();
  Token WholeToken(std::string_view piece) const;
  void EncodePiece(std::string_view piece, Scratch& scratch, std::vector<Token>& out) const;

  const Vocabulary* vocabulary_;
  PreTokenizer pre_tokenizer_;
  std::vector<Slot> slots_;
  int shift_ = 0;
  Neighbours neighbours_;  // filled where spaces are visible
};

}  // namespace kvasir::tokenizer
