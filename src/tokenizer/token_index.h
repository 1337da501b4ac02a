// tokenizer/token_index.h
// The texts of a vocabulary in one block, and the way from a text to its id.
//
// The hash is a polynomial of the bytes, so that the hash of any part of a text follows from prefix hashes in constant
// time; that is what the SentencePiece merges need (spm.h). Bytes decide: the hash only finds.
//
// Thread rule: const after the last Add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::tokenizer {

// Strings side by side, numbered from 0.
class TextPool {
 public:
  void Reserve(size_t texts, size_t bytes);
  void Add(std::string_view text);
  size_t size() const { return ends_.size() - 1; }
  std::string_view operator[](size_t i) const {
    return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  std::string_view all() const { return bytes_; }

 private:
  std::string bytes_;
  std::vector<size_t> ends_ = {0};
};

class TokenIndex {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr uint64_t kBase = 0x9E3779B97F4A7C15u;  // odd: a unit modulo 2^64

  // One step of the polynomial.
  static uint64_t Extend(uint64_t hash, char byte) { return hash * kBase + static_cast<unsigned char>(byte) + 1; }
  static uint64_t Hash(std::string_view text);

  // REQUIRES: `texts` outlives the index and keeps its address; at most `capacity` calls of Add.
  void Start(const TextPool& texts, size_t capacity);
  // False if the text has an id already (it keeps it).
  bool Add(int32_t id);

  int32_t Find(std::string_view text) const { return Find(text, Hash(text)); }
  int32_t Find(std::string_view text, uint64_t hash) const;

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNone;
  };
  const TextPool* texts_ = nullptr;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace kvasir::tokenizer
