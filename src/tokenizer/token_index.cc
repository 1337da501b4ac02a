#include "tokenizer/token_index.h"

#include <bit>

namespace kvasir::tokenizer {
namespace {

// The polynomial's low bits depend on the last bytes only; this spreads them (the finaliser of MurmurHash3).
uint64_t Mix(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0xFF51AFD7ED558CCDu;
  hash ^= hash >> 33;
  hash *= 0xC4CEB9FE1A85EC53u;
  return hash ^ (hash >> 33);
}

}  // namespace

void TextPool::Reserve(size_t texts, size_t bytes) {
  ends_.reserve(texts + 1);
  bytes_.reserve(bytes);
}

void TextPool::Add(std::string_view text) {
  bytes_ += text;
  ends_.push_back(bytes_.size());
}

uint64_t TokenIndex::Hash(std::string_view text) {
  uint64_t hash = 0;
  for (const char byte : text) hash = Extend(hash, byte);
  return hash;
}

void TokenIndex::Start(const TextPool& texts, size_t capacity) {
  texts_ = &texts;
  slots_.assign(std::bit_ceil(capacity * 2 + 2), Slot{});
  mask_ = slots_.size() - 1;
}

bool TokenIndex::Add(int32_t id) {
  const std::string_view text = (*texts_)[static_cast<size_t>(id)];
  const uint64_t mixed = Mix(Hash(text));
  const auto tag = static_cast<uint32_t>(mixed >> 32);
  for (size_t i = mixed & mask_;; i = (i + 1) & mask_) {
    Slot& slot = slots_[i];
    if (slot.id == kNone) {
      slot = {tag, id};
      return true;
    }
    if (slot.tag == tag && (*texts_)[static_cast<size_t>(slot.id)] == text) return false;
  }
}

int32_t TokenIndex::Find(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return kNone;
  const uint64_t mixed = Mix(hash);
  const auto tag = static_cast<uint32_t>(mixed >> 32);
  for (size_t i = mixed & mask_;; i = (i + 1) & mask_) {
    const Slot& slot = slots_[i];
    if (slot.id == kNone) return kNone;
    if (slot.tag == tag && (*texts_)[static_cast<size_t>(slot.id)] == text) return slot.id;
  }
}

}  // namespace kvasir::tokenizer
