#include "tokenizer/neighbours.h"

#include <cstring>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr int kBits = 22;

uint32_t Packed(std::string_view character) {
  uint32_t packed = 0;
  for (const char byte : character) packed = packed << 8 | static_cast<unsigned char>(byte);
  return packed;
}

}  // namespace

std::string_view AnnouncedCharacter(std::string_view text, size_t at) {
  return text.substr(at, AnnouncedSize(text[at]));
}

Neighbours::Neighbours() : bits_((size_t{1} << kBits) / 64) {}

size_t Neighbours::BitOf(uint32_t left, uint32_t right) {
  const uint64_t key = uint64_t{left} << 32 | right;
  return static_cast<size_t>((key ^ key >> 31) * 0x9E3779B97F4A7C15u >> (64 - kBits));
}

void Neighbours::Add(std::string_view token_text) {
  uint32_t left = 0;
  for (size_t at = 0; at < token_text.size();) {
    const std::string_view character = AnnouncedCharacter(token_text, at);
    const uint32_t right = Packed(character);
    if (at > 0) {
      const size_t bit = BitOf(left, right);
      bits_[bit / 64] |= uint64_t{1} << (bit % 64);
    }
    left = right;
    at += character.size();
  }
}

size_t Neighbours::PieceEnd(std::string_view text, size_t begin, size_t most) const {
  std::string_view character = AnnouncedCharacter(text, begin);
  uint32_t left = Packed(character);
  size_t end = begin + character.size();
  while (end < text.size() && end - begin < most) {
    character = AnnouncedCharacter(text, end);
    const uint32_t right = Packed(character);
    const size_t bit = BitOf(left, right);
    if ((bits_[bit / 64] >> (bit % 64) & 1) == 0) break;
    left = right;
    end += character.size();
  }
  return end;
}

}  // namespace kvasir::tokenizer
