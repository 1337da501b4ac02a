// chat/jinja/unicode.h
// The character questions that Python's str answers and templates ask: what is white space, a digit, a letter,
// printable, and the other case. Case and class tables cover Latin, Greek, Cyrillic and Armenian, the scripts that have
// case in practice; other characters keep their case. Invalid UTF-8 is read one byte at a time and passes through
// unchanged.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir::chat::jinja {

struct CodePoint {
  char32_t value;  // the byte itself when the bytes are not UTF-8
  uint8_t size;    // bytes taken, at least 1
  bool valid;
};

// REQUIRES: at < bytes.size().
CodePoint DecodeAt(std::string_view bytes, size_t at);
// Start of the character that ends before byte `end`. REQUIRES: 0 < end <= bytes.size().
size_t PreviousCharacter(std::string_view bytes, size_t end);
void AppendUtf8(std::string& out, char32_t value);
size_t CountCharacters(std::string_view bytes);
bool IsAscii(std::string_view bytes);

bool IsSpace(char32_t c);      // str.isspace, and what strip() and split() remove
bool IsLineBreak(char32_t c);  // what str.splitlines() cuts at
bool IsPrintable(char32_t c);  // whether repr() shows the character itself
bool IsDigit(char32_t c);
bool IsLetter(char32_t c);
char32_t ToUpper(char32_t c);
char32_t ToLower(char32_t c);

}  // namespace kvasir::chat::jinja
