#include "tokenizer/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace kvasir::tokenizer {
namespace {

struct MapRange {
  uint32_t first, last, target;
  uint8_t counts_up;
};

#include "tokenizer/unicode_classes.inc"
#include "tokenizer/unicode_maps.inc"

constexpr CharClass ClassOfLetter(char letter) {
  switch (letter) {
    case 'U':
    case 'T':
      return kLetter | kUpperSide;
    case 'l':
      return kLetter | kLowerSide;
    case 'm':
    case 'o':
      return kLetter | kUpperSide | kLowerSide;
    case 'M':
      return kMark | kUpperSide | kLowerSide;
    case 'D':
      return kNumber | kDecimal;
    case 'N':
      return kNumber;
    case 'P':
      return kPunctuation;
    case 'S':
      return kSymbol;
    case 'W':
    case 'w':
      return kSpace;
    case 'C':
      return kControlClass;
    default:
      return 0;
  }
}

constexpr std::array<CharClass, 128> ClassesByLetter() {
  std::array<CharClass, 128> classes{};
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = ClassOfLetter(static_cast<char>(i));
  return classes;
}
constexpr std::array<CharClass, 128> kClassesByLetter = ClassesByLetter();

constexpr size_t LeafAt(uint32_t code) {
  return (size_t{kLeafOf[size_t{kMiddleOf[code >> 12]} * 64 + ((code >> 6) & 63)]} << 6) + (code & 63);
}

constexpr std::array<CharClass, 128> AsciiClasses() {
  std::array<CharClass, 128> classes{};
  for (uint32_t i = 0; i < classes.size(); ++i) classes[i] = ClassOfLetter(kClassOf[LeafAt(i)]);
  return classes;
}

bool IsContinuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

template <size_t n>
uint32_t Map(const MapRange (&ranges)[n], uint32_t code) {
  const auto* range = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                       [](uint32_t value, const MapRange& r) { return value < r.first; });
  if (range == std::begin(ranges) || code > (--range)->last) return code;
  return range->target + (range->counts_up ? code - range->first : 0);
}

}  // namespace

constexpr std::array<CharClass, 128> kAsciiClass = AsciiClasses();

CharClass ClassOfWide(uint32_t code) {
  if (code > kMaxCodePoint) return 0;
  return kClassesByLetter[static_cast<unsigned char>(kClassOf[LeafAt(code)])];
}

Char WideCharAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(text[at + i])}; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, kAsciiClass[lead]};
  if (lead >= 0xC0 && IsContinuation(text, at + 1)) {
    if (lead < 0xE0) {
      const uint32_t code = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
      return {code, 2, ClassOf(code)};
    }
    if (IsContinuation(text, at + 2)) {
      if (lead < 0xF0) {
        const uint32_t code = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
        return {code, 3, ClassOf(code)};
      }
      if (lead < 0xF8 && IsContinuation(text, at + 3)) {
        const uint32_t code = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
        return {code, 4, ClassOf(code)};
      }
    }
  }
  return {kNotACharacter, 1, 0};
}

void AppendUtf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsValidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const Char c = CharAt(text, at);
    constexpr uint32_t kSmallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c.code > kMaxCodePoint || c.code < kSmallest[c.size] || (c.code >= 0xD800 && c.code < 0xE000)) return false;
    at += c.size;
  }
  return true;
}

std::string_view RepairUtf8(std::string_view text, bool keep_foreign, std::string& storage) {
  if (IsValidUtf8(text)) return text;
  storage.clear();
  storage.reserve(text.size() + text.size() / 8 + 8);
  for (size_t at = 0; at < text.size();) {
    const Char c = CharAt(text, at);
    const bool foreign = c.size == 4 ? c.code > kMaxCodePoint : static_cast<unsigned char>(text[at]) >= 0xF8;
    if (foreign && keep_foreign) {
      storage += text.substr(at, c.size);
    } else if (c.code <= kMaxCodePoint) {
      AppendUtf8(storage, c.code);
    } else {
      storage += kReplacement;
    }
    at += c.size;
  }
  return storage;
}

size_t UnfinishedTail(std::string_view text) {
  for (size_t tail = 1; tail <= 3 && tail <= text.size(); ++tail) {
    const auto lead = static_cast<unsigned char>(text[text.size() - tail]);
    if (lead < 0x80) return 0;
    if (lead < 0xC0) continue;
    // C0, C1 and F5..FF begin nothing; nor do E0, ED, F0 and F4 before the wrong second byte.
    if (lead < 0xC2 || lead > 0xF4 || AnnouncedSize(static_cast<char>(lead)) <= tail) return 0;
    if (tail > 1) {
      const auto second = static_cast<unsigned char>(text[text.size() - tail + 1]);
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
          (lead == 0xF4 && second > 0x8F)) {
        return 0;
      }
    }
    return tail;
  }
  return 0;
}

uint32_t ToLower(uint32_t code) {
  return Map(kLower, code);
}

uint32_t BaseCharacter(uint32_t code) {
  // Hangul syllables: 588 in a row begin with the same leading consonant (Unicode 3.12).
  if (code >= 0xAC00 && code < 0xD7A4) return 0x1100 + (code - 0xAC00) / 588;
  return Map(kBase, code);
}

}  // namespace kvasir::tokenizer
