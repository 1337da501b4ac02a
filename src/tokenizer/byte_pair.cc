#include "tokenizer/byte_pair.h"

#include <bit>
#include <string>
#include <utility>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

// Symbols hold 32-bit offsets, and their buffers are some 40 bytes each: a longer piece is cut here, between
// characters.
constexpr size_t kLongestPiece = size_t{64} << 20;

size_t SlotOf(Token left, Token right, int shift) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  return static_cast<size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15u >> shift);
}

}  // namespace

struct BytePairEncoder::Joins {
  const std::vector<Slot>& slots;
  int shift;

  bool Find(const Symbol& left, const Symbol& right, uint32_t& rank, Token& merged) const {
    if (left.token < 0 || right.token < 0) return false;
    for (size_t i = SlotOf(left.token, right.token, shift);; i = (i + 1) & (slots.size() - 1)) {
      const Slot& slot = slots[i];
      if (slot.left == left.token && slot.right == right.token) {
        rank = slot.rank;
        merged = slot.result;
        return true;
      }
      if (slot.left == kNoToken) return false;
    }
  }
};

Result<BytePairEncoder> BytePairEncoder::Create(const Vocabulary& vocabulary) {
  KVASIR_ASSIGN_OR_RETURN(auto pre_tokenizer, PreTokenizer::Create(*vocabulary.rules));
  BytePairEncoder encoder(vocabulary, std::move(pre_tokenizer));
  encoder.BuildTable();
  return encoder;
}

void BytePairEncoder::BuildTable() {
  slots_.assign(std::bit_ceil(vocabulary_->merges.size() * 2 + 2), Slot{});
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t rank = 0; rank < vocabulary_->merges.size(); ++rank) {
    const Merge& merge = vocabulary_->merges[rank];
    if (vocabulary_->Is(merge.result, kControlToken | kUnknownToken)) continue;
    if (vocabulary_->rules->visible_spaces) neighbours_.Add(vocabulary_->Text(merge.result));
    for (size_t i = SlotOf(merge.left, merge.right, shift_);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.left == merge.left && slot.right == merge.right) break;  // said twice: the better rank stays
      if (slot.left == kNoToken) {
        slot = {merge.left, merge.right, merge.result, static_cast<uint32_t>(rank)};
        break;
      }
    }
  }
}

void BytePairEncoder::Encode(std::string_view text, Scratch& scratch, std::vector<Token>& out) const {
  std::string repaired, spaced;
  text = RepairUtf8(text, vocabulary_->covers_all_bytes, repaired);
  if (vocabulary_->rules->visible_spaces) {
    spaced.reserve(text.size() * 2);
    for (const char c : text) c == ' ' ? spaced += kVisibleSpace : spaced += c;
    text = spaced;
  }
  scratch.ends.clear();
  pre_tokenizer_.Split(text, scratch.ends);
  size_t begin = 0;
  for (const size_t end : scratch.ends) {
    const std::string_view whole = text.substr(begin, end - begin);
    if (const Token token = WholeToken(whole); token != kNoToken) {
      out.push_back(token);
      begin = end;
      continue;
    }
    while (begin < end) {
      size_t size = end - begin;
      if (vocabulary_->rules->visible_spaces) {
        size = neighbours_.PieceEnd(text.substr(0, end), begin, kLongestPiece) - begin;
      } else if (size > kLongestPiece) {
        size = kLongestPiece;
        while ((static_cast<unsigned char>(text[begin + size]) & 0xC0) == 0x80) --size;
      }
      const std::string_view piece = text.substr(begin, size);
      scratch.cache.Append(piece, out, [&] { EncodePiece(piece, scratch, out); });
      begin += size;
    }
  }
}

// The token that a piece is without any merging; kNoToken where it is to be merged.
Token BytePairEncoder::WholeToken(std::string_view piece) const {
  const bool byte_level = !vocabulary_->rules->visible_spaces;
  if (byte_level && piece.size() == 1) return vocabulary_->ByteToken(static_cast<unsigned char>(piece[0]));
  // A run of newlines is one token in Gemma 4 where there is one of that length, though no merges lead to it.
  const bool as_a_whole = vocabulary_->rules->whole_words || (!byte_level && piece[0] == '\n');
  if (!as_a_whole || piece.size() > vocabulary_->longest_text) return kNoToken;
  const Token token = vocabulary_->index.Find(byte_level ? std::string_view(BytesToPrintable(piece)) : piece);
  return token != kNoToken && vocabulary_->Is(token, kControlToken | kUnknownToken) ? kNoToken : token;
}

void BytePairEncoder::EncodePiece(std::string_view piece, Scratch& scratch, std::vector<Token>& out) const {
  const bool byte_level = !vocabulary_->rules->visible_spaces;
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (size_t at = 0; at < piece.size();) {
    const size_t size = byte_level ? 1 : std::min(AnnouncedSize(piece[at]), piece.size() - at);
    const Token token = byte_level ? vocabulary_->ByteToken(static_cast<unsigned char>(piece[at]))
                                   : vocabulary_->index.Find(piece.substr(at, size));
    symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(size), token});
    at += size;
  }
  scratch.queue.Merge(symbols, Joins{slots_, shift_}, vocabulary_->merges.size());
  for (const Symbol& symbol : symbols) {
    if (symbol.token != kNoToken) {
      out.push_back(symbol.token);
      continue;
    }
    // A byte that no token covers is left out, as the reference does; loading has said that there are such bytes.
    for (const char byte : piece.substr(symbol.begin, symbol.size)) {
      const Token token = vocabulary_->ByteToken(static_cast<unsigned char>(byte));
      if (token != kNoToken) out.push_back(token);
    }
  }
}

}  // namespace kvasir::tokenizer
