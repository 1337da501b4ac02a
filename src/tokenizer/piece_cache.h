// tokenizer/piece_cache.h
// Remembers the tokens of short pieces while one text is encoded: words repeat, code more so.
//
// Direct-mapped: a new piece takes the place of the old one. The piece is kept in the entry and its tokens are a range
// of the output, so an entry is one cache line and nothing is allocated per piece.
//
// Thread rule: one thread; lives as long as the output vector of one text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tokenizer/token_index.h"
#include "tokenizer/tokenizer.h"

namespace kvasir::tokenizer {

class PieceCache {
 public:
  // Appends the remembered tokens of `piece` to `out`, or runs `encode`, which appends them, and remembers.
  // REQUIRES: `out` is the same in every call, and only grows.
  template <typename Encode>
  void Append(std::string_view piece, std::vector<Token>& out, const Encode& encode) {
    if (piece.size() > kLongest || piece.empty()) return encode();
    if (entries_.empty()) {
      // A short text is encoded before the table is cleared.
      if (++calls_ < kCallsBeforeUse) return encode();
      entries_.resize(kEntries);
    }
    const uint64_t hash = TokenIndex::Hash(piece) * 0xD6E8FEB86659FD93u;
    Entry& entry = entries_[hash >> (64 - kBits)];
    if (entry.size == piece.size() && std::memcmp(entry.bytes, piece.data(), piece.size()) == 0) {
      const size_t at = out.size();
      out.resize(at + entry.count);
      for (size_t i = 0; i < entry.count; ++i) out[at + i] = out[entry.begin + i];
      return;
    }
    const size_t begin = out.size();
    encode();
    entry.begin = begin;
    entry.count = static_cast<uint32_t>(out.size() - begin);
    entry.size = static_cast<uint8_t>(piece.size());
    std::memcpy(entry.bytes, piece.data(), piece.size());
  }

 private:
  static constexpr size_t kLongest = 48;
  static constexpr int kBits = 12;
  static constexpr size_t kEntries = size_t{1} << kBits;
  static constexpr int kCallsBeforeUse = 64;
  struct Entry {
    size_t begin = 0;
    uint32_t count = 0;
    uint8_t size = 0;  // 0: empty
    char bytes[kLongest] = {};
  };
  std::vector<Entry> entries_;
  int calls_ = 0;
};

}  // namespace kvasir::tokenizer
