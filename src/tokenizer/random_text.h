// tokenizer/random_text.h
// Texts that make tokenizers stumble: every class of character, near misses of contractions, odd spaces, broken UTF-8.
// For tests.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {

class RandomText {
 public:
  // `any_code_point`: code points from all planes as well, assigned or not.
  RandomText(uint64_t seed, bool any_code_point) : random_(seed), any_code_point_(any_code_point) {}

  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

  // Characters that RepairUtf8 leaves alone, now and then with surrogates and bytes above F7.
  std::string Characters(size_t count) {
    std::string text;
    while (count-- > 0) AppendCharacter(text);
    return text;
  }

  // Characters with some bytes overwritten.
  std::string Broken(size_t count) {
    std::string text = Characters(count);
    for (size_t i = 0; i < text.size(); ++i) {
      if (Below(12) == 0) text[i] = static_cast<char>(Below(256));
    }
    return text;
  }

 private:
  void AppendCharacter(std::string& text) {
    static constexpr std::string_view kParts[] = {" ",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "\r",
                                                  "\t",
                                                  "\r\n",
                                                  "\xC2\xA0",
                                                  "\xC2\x85",
                                                  "\xE2\x80\x83",
                                                  "\xE3\x80\x80",
                                                  "'s",
                                                  "'S",
                                                  "'t",
                                                  "'re",
                                                  "'VE",
                                                  "'l",
                                                  "'ll",
                                                  "'m",
                                                  "'",
                                                  "'d",
                                                  "a",
                                                  "bc",
                                                  "Z",
                                                  "Qx",
                                                  "\xC3\xA9",
                                                  "e\xCC\x81",
                                                  "\xCC\x81",
                                                  "\xC7\x85",
                                                  "\xCA\xB0",
                                                  "\xD7\x90",
                                                  "\xE4\xB8\xAD",
                                                  "\xE6\x96\x87",
                                                  "\xE3\x81\x82",
                                                  "\xED\x95\x9C",
                                                  "\xE3\x80\x85",
                                                  "1",
                                                  "23",
                                                  "4567",
                                                  "\xD9\xA3",
                                                  "\xC2\xBD",
                                                  "\xE2\x85\xA7",
                                                  "\xC2\xB2",
                                                  ".",
                                                  "!?",
                                                  "/",
                                                  "_",
                                                  "$",
                                                  "<=",
                                                  "\xE2\x80\x94",
                                                  "\xF0\x9F\x98\x80",
                                                  "\xE2\x82\xAC",
                                                  "\x01",
                                                  "\xE2\x80\x8D",
                                                  "\xE1\xA0\x8E",
                                                  "\xEE\x80\x80",
                                                  "\xCD\xB8",
                                                  "\xED\xA0\x80",
                                                  "\xFF",
                                                  "\xF5\x80\x80\x80",
                                                  "\xEF\xBF\xBF"};
    if (any_code_point_ && Below(6) == 0) {
      const auto code = static_cast<uint32_t>(Below(Below(2) == 0 ? 0x3100 : kMaxCodePoint + 1));
      AppendUtf8(text, code);
    } else {
      text += kParts[Below(std::size(kParts))];
    }
  }

  std::mt19937_64 random_;
  bool any_code_point_;
};

}  // namespace kvasir::tokenizer
