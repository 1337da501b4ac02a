#include "tokenizer/sentence_piece.h"

#include <algorithm>
#include <functional>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr size_t kLongestPiece = size_t{64} << 20;  // as in byte_pair.cc

}  // namespace

struct SentencePieceEncoder::Joins {
  const SentencePieceEncoder& encoder;
  std::string_view piece;
  const uint64_t* hashes;  // of the prefixes of `piece`

  bool Find(const Symbol& left, const Symbol& right, uint32_t& rank, Token& merged) const {
    const size_t size = size_t{left.size} + right.size;
    if (size >= encoder.powers_.size()) return false;
    const uint64_t hash = hashes[left.begin + size] - hashes[left.begin] * encoder.powers_[size];
    merged = encoder.vocabulary_->index.Find(piece.substr(left.begin, size), hash);
    if (merged == kNoToken || encoder.vocabulary_->Is(merged, kControlToken | kUnknownToken)) return false;
    rank = encoder.rank_of_[static_cast<size_t>(merged)];
    return true;
  }
};

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {
  std::vector<float> scores = vocabulary.scores;
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  ranks_ = scores.size();
  for (const float score : vocabulary.scores) {
    const auto place = std::lower_bound(scores.begin(), scores.end(), score, std::greater<>());
    rank_of_.push_back(static_cast<uint32_t>(place - scores.begin()));
  }
  powers_.resize(vocabulary.longest_text + 1);
  powers_[0] = 1;
  for (size_t i = 1; i < powers_.size(); ++i) powers_[i] = powers_[i - 1] * TokenIndex::kBase;

  for (Token token = 0; token < vocabulary.size(); ++token) {
    if (!vocabulary.Is(token, kControlToken | kUnknownToken)) neighbours_.Add(vocabulary.Text(token));
  }
}

void SentencePieceEncoder::Encode(std::string_view text, bool space_first, Scratch& scratch,
                                  std::vector<Token>& out) const {
  std::string& spaced = scratch.text;
  spaced.clear();
  spaced.reserve(text.size() + text.size() / 2 + 4);
  if (space_first) spaced += kVisibleSpace;
  for (const char c : text) c == ' ' ? spaced += kVisibleSpace : spaced += c;

  const std::string_view all = spaced;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = neighbours_.PieceEnd(all, begin, kLongestPiece);
    const std::string_view piece = all.substr(begin, end - begin);
    scratch.cache.Append(piece, out, [&] { EncodePiece(piece, scratch, out); });
    begin = end;
  }
}

void SentencePieceEncoder::EncodePiece(std::string_view piece, Scratch& scratch, std::vector<Token>& out) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  scratch.hashes.resize(piece.size() + 1);
  scratch.hashes[0] = 0;
  for (size_t i = 0; i < piece.size(); ++i) scratch.hashes[i + 1] = TokenIndex::Extend(scratch.hashes[i], piece[i]);
  for (size_t at = 0; at < piece.size();) {
    const size_t size = AnnouncedCharacter(piece, at).size();
    // Only what is left at the end needs an id; merged symbols get theirs from the merge.
    symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(size), kNoToken});
    at += size;
  }
  scratch.queue.Merge(symbols, Joins{*this, piece, scratch.hashes.data()}, ranks_);
  for (const Symbol& symbol : symbols) {
    const std::string_view text = piece.substr(symbol.begin, symbol.size);
    Token token = symbol.token != kNoToken ? symbol.token : vocabulary_->index.Find(text);
    if (token != kNoToken && !vocabulary_->Is(token, kControlToken | kUnknownToken)) {
      out.push_back(token);
      continue;
    }
    for (const char byte : text) {
      token = vocabulary_->ByteToken(static_cast<unsigned char>(byte));
      if (token == kNoToken) token = vocabulary_->special.unk;
      if (token != kNoToken) out.push_back(token);
    }
  }
}

}  // namespace kvasir::tokenizer
