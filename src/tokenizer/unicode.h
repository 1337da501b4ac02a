// tokenizer/unicode.h
// Code points of any bytes, their classes, and the few mappings that tokenizers need.
//
// The tables are pinned to one Unicode version (tools/generate_unicode_tables.py), because a tokenization must not move
// when a system library is upgraded. Decoding never fails: see CharAt for what is not UTF-8.
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir::tokenizer {

// Bits of a code point's classes. An unassigned one has none.
using CharClass = uint16_t;
constexpr CharClass kLetter = 1;
constexpr CharClass kMark = 2;
constexpr CharClass kNumber = 4;
constexpr CharClass kDecimal = 8;  // Nd, a part of kNumber
constexpr CharClass kPunctuation = 16;
constexpr CharClass kSymbol = 32;
constexpr CharClass kSpace = 64;          // White_Space
constexpr CharClass kControlClass = 128;  // Cc Cf Co Cs
constexpr CharClass kUpperSide = 256;     // Lu Lt Lm Lo M: what may stand in the capitals of a word
constexpr CharClass kLowerSide = 512;     // Ll Lm Lo M: what may stand in the rest of it

constexpr uint32_t kMaxCodePoint = 0x10FFFF;
constexpr uint32_t kNotACharacter = 0xFFFFFFFF;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";   // U+FFFD
constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";  // U+2581, how SentencePiece writes a space

extern const std::array<CharClass, 128> kAsciiClass;
CharClass ClassOfWide(uint32_t code);  // any value; none above U+10FFFF
inline CharClass ClassOf(uint32_t code) {
  return code < 128 ? kAsciiClass[code] : ClassOfWide(code);
}

struct Char {
  uint32_t code = kNotACharacter;
  uint32_t size = 0;  // bytes
  CharClass classes = 0;
};

// The character at text[at]. Lenient: overlong forms and surrogates are decoded, four bytes may say more than U+10FFFF
// (no class), and a byte that begins nothing is a character of its own, kNotACharacter. REQUIRES: at < text.size().
Char WideCharAt(std::string_view text, size_t at);
inline Char CharAt(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1, kAsciiClass[byte]};
  return WideCharAt(text, at);
}

// REQUIRES: code <= 0x1FFFFF. Surrogates and values above U+10FFFF are encoded as if they were characters.
void AppendUtf8(std::string& out, uint32_t code);

bool IsValidUtf8(std::string_view text);

// `text` as byte-level vocabularies see it; the result is `text` itself or lies in `storage`. Overlong forms become the
// shortest one and a byte that begins no character becomes U+FFFD, as in the reference (llama.cpp); surrogates stay.
// With `keep_foreign`, so do four-byte forms above U+10FFFF and the bytes F8..FF, which the reference does not survive;
// without it they become U+FFFD.
std::string_view RepairUtf8(std::string_view text, bool keep_foreign, std::string& storage);

// How many bytes at the end of `text` begin a character without completing it (0..3).
size_t UnfinishedTail(std::string_view text);

// Bytes that a lead byte announces (1..4), by its high bits alone.
inline size_t AnnouncedSize(char lead) {
  constexpr uint8_t kSizes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  return kSizes[static_cast<unsigned char>(lead) >> 4];
}

uint32_t ToLower(uint32_t code);        // simple mapping
uint32_t BaseCharacter(uint32_t code);  // the first code point of the canonical decomposition

}  // namespace kvasir::tokenizer
