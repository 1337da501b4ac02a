#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {

std::string StreamDecoder::Push(Token token) {
  const std::string piece = tokenizer_->Piece(token, special_);
  const bool strip_space = first_ && tokenizer_->adds_space() && !piece.empty() && piece[0] == ' ';
  first_ = false;
  held_.append(piece, strip_space ? 1 : 0);
  const size_t whole = held_.size() - UnfinishedTail(held_);
  std::string out = held_.substr(0, whole);
  held_.erase(0, whole);
  return out;
}

std::string StreamDecoder::Finish() {
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace kvasir::tokenizer
