// tokenizer/sentence_piece.h
// SentencePiece BPE ("llama" vocabularies): neighbouring symbols whose joined text is a token merge, best score first.
//
// Text is first cut where nothing can merge across (neighbours.h): in practice before every space, which makes pieces
// short and lets the cache work, with the result of merging the whole text at once. A joined text is looked up by a
// hash that follows from prefix hashes. Merges never make a control token.
//
// Thread rule: const after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/merge_queue.h"
#include "tokenizer/neighbours.h"
#include "tokenizer/piece_cache.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {

class SentencePieceEncoder {
 public:
  // `vocabulary` must outlive the encoder. REQUIRES: its kind is kSentencePiece.
  explicit SentencePieceEncoder(const Vocabulary& vocabulary);

  // Buffers of one Encode call, kept over the fragments of a text.
  struct Scratch {
    std::string text;
    std::vector<uint64_t> hashes;
    std::vector<Symbol> symbols;
    MergeQueue queue;
    PieceCache cache;
  };
  // `space_first`: as if a space stood before the text. Any bytes; characters are what their lead bytes announce.
  void Encode(std::string_view text, bool space_first, Scratch& scratch, std::vector<Token>& out) const;

 private:
  struct Joins;
  void EncodePiece(std::string_view piece, Scratch& scratch, std::vector<Token>& out) const;

  const Vocabulary* vocabulary_;
  std::vector<uint32_t> rank_of_;  // by token; equal scores have equal ranks
  size_t ranks_ = 0;
  std::vector<uint64_t> powers_;  // of TokenIndex::kBase, up to the longest token
  Neighbours neighbours_;
};

}  // namespace kvasir::tokenizer
