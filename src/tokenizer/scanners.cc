#include "tokenizer/scanners.h"

#include <algorithm>
#include <iterator>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

bool IsNewline(const Char& c) {
  return c.code == '\r' || c.code == '\n';
}

// The end of the run of characters from `at` that have one of `classes`, at most `most` of them.
size_t RunOf(std::string_view text, size_t at, CharClass classes, size_t most = static_cast<size_t>(-1)) {
  for (; at < text.size() && most > 0; --most) {
    const Char c = CharAt(text, at);
    if ((c.classes & classes) == 0) break;
    at += c.size;
  }
  return at;
}

size_t RunWithout(std::string_view text, size_t at, CharClass classes) {
  while (at < text.size()) {
    const Char c = CharAt(text, at);
    if ((c.classes & classes) != 0) break;
    at += c.size;
  }
  return at;
}

// The end of 's 't 'm 'd 're 've 'll at `at`; `at` where there is none.
size_t Contraction(std::string_view text, size_t at, bool any_case) {
  if (at + 1 >= text.size() || text[at] != '\'') return at;
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = letter(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  const char second = letter(at + 2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return at + 3;
  return at;
}

// \s+(?!\S)|\s+, and before them \s*[\r\n]+ if `newlines`. REQUIRES: white space at `at`.
size_t Spaces(std::string_view text, size_t at, bool newlines) {
  size_t end = at, last = at, newline_end = at;
  while (end < text.size()) {
    const Char c = CharAt(text, end);
    if ((c.classes & kSpace) == 0) break;
    last = end;
    end += c.size;
    if (IsNewline(c)) newline_end = end;
  }
  if (newlines && newline_end > at) return newline_end;
  // The last space before a word goes with the word.
  return end < text.size() && last > at ? last : end;
}

size_t NextGpt2(std::string_view text, size_t at) {
  const Char c = CharAt(text, at);
  if (const size_t end = Contraction(text, at, false); end > at) return end;
  Char first = c;
  size_t begin = at;
  if (c.code == ' ' && at + 1 < text.size()) first = CharAt(text, begin = at + 1);
  if (first.classes & kLetter) return RunOf(text, begin, kLetter);
  if (first.classes & kNumber) return RunOf(text, begin, kNumber);
  if ((first.classes & kSpace) == 0) return RunWithout(text, begin, kSpace | kLetter | kNumber);
  return Spaces(text, at, false);
}

//  ?[^...]+[\r\n]* with '/' among the newlines if `slashes`; `at` where it does not match.
size_t Others(std::string_view text, size_t at, const Char& c, CharClass not_other, bool slashes) {
  size_t begin = at;
  Char first = c;
  if (c.code == ' ' && at + 1 < text.size()) first = CharAt(text, begin = at + 1);
  if (first.classes & not_other) return at;
  size_t end = RunWithout(text, begin, not_other);
  while (end < text.size() && (text[end] == '\r' || text[end] == '\n' || (slashes && text[end] == '/'))) ++end;
  return end;
}

template <size_t most_digits, CharClass word>
size_t NextCl100k(std::string_view text, size_t at) {
  const Char c = CharAt(text, at);
  if (const size_t end = Contraction(text, at, true); end > at) return end;
  if (c.classes & word) return RunOf(text, at, word);
  if ((c.classes & kNumber) == 0 && !IsNewline(c)) {
    if (const size_t end = RunOf(text, at + c.size, word); end > at + c.size) return end;
  }
  if (c.classes & kNumber) return RunOf(text, at, kNumber, most_digits);
  if (const size_t end = Others(text, at, c, kSpace | kNumber | word, false); end > at) return end;
  return Spaces(text, at, true);
}

struct CodeRange {
  uint32_t first, last;
};
// Script=Han of Unicode 14.0.
constexpr CodeRange kHan[] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},   {0x3007, 0x3007},
    {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},
    {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3}, {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B738},
    {0x2B740, 0x2B81D}, {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2F800, 0x2FA1D}, {0x30000, 0x3134A},
};

bool IsHan(uint32_t code) {
  const auto* range = std::upper_bound(std::begin(kHan), std::end(kHan), code,
                                       [](uint32_t value, const CodeRange& r) { return value < r.first; });
  return range != std::begin(kHan) && code <= (range - 1)->last;
}

// Upper*Lower+ from `at`, failing that Upper+ if `capitals_alone`; `at` where neither matches. A character may be on
// both sides (Lm, Lo, marks), so the greedy capitals give back up to their last such character: after it stand capitals
// only.
template <bool han_apart>
size_t CasedWord(std::string_view text, size_t at, bool capitals_alone) {
  const auto side = [&](const Char& c, CharClass which) {
    return (c.classes & which) != 0 && !(han_apart && IsHan(c.code));
  };
  size_t end = at, shared_end = at;
  while (end < text.size()) {
    const Char c = CharAt(text, end);
    if (!side(c, kUpperSide)) break;
    end += c.size;
    if (c.classes & kLowerSide) shared_end = end;
  }
  size_t lower_end = end;
  while (lower_end < text.size()) {
    const Char c = CharAt(text, lower_end);
    if (!side(c, kLowerSide)) break;
    lower_end += c.size;
  }
  if (lower_end > end) return lower_end;
  if (shared_end > at) return shared_end;
  return capitals_alone ? end : at;
}

template <size_t most_digits, bool contractions, bool han_apart>
size_t NextCased(std::string_view text, size_t at) {
  const Char c = CharAt(text, at);
  if (han_apart && IsHan(c.code)) {
    size_t end = at;
    while (end < text.size()) {
      const Char han = CharAt(text, end);
      if (!IsHan(han.code)) break;
      end += han.size;
    }
    return end;
  }
  // [^\r\n\p{L}\p{N}]? goes first, and is given back when no word follows it.
  const bool prefix = (c.classes & (kLetter | kNumber)) == 0 && !IsNewline(c);
  for (const bool capitals_alone : {false, true}) {
    for (const size_t skip : {prefix ? c.size : 0u, 0u}) {
      const size_t end = CasedWord<han_apart>(text, at + skip, capitals_alone);
      if (end > at + skip) return contractions ? Contraction(text, end, true) : end;
      if (skip == 0) break;
    }
  }
  if (c.classes & kNumber) return RunOf(text, at, kNumber, most_digits);
  constexpr bool kSlashes = !han_apart;
  if (const size_t end = Others(text, at, c, kSpace | kNumber | kLetter, kSlashes); end > at) return end;
  return Spaces(text, at, true);
}

// Pieces are runs of at most `most` numbers, and what lies between them.
template <size_t most>
size_t NextNumbers(std::string_view text, size_t at) {
  const size_t end = RunOf(text, at, kNumber, most);
  return end > at ? end : RunWithout(text, at, kNumber);
}

size_t NextLine(std::string_view text, size_t at) {
  const size_t end = text[at] == '\n' ? text.find_first_not_of('\n', at) : text.find('\n', at);
  return std::min(end, text.size());
}

template <size_t (*Next)(std::string_view, size_t)>
void ScanWith(std::string_view text, size_t base, std::vector<size_t>& ends) {
  for (size_t at = 0; at < text.size();) {
    at = Next(text, at);
    ends.push_back(base + at);
  }
}

// Runs of `digits` in threes from the right; if `before_boundary`, only runs that no word character follows. The rest
// is not cut.
void ScanGroups(std::string_view text, size_t base, CharClass digits, bool before_boundary, std::vector<size_t>& ends) {
  size_t done = 0;
  const auto cut = [&](size_t end) {
    if (end > done) ends.push_back(base + (done = end));
  };
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size();) {
    starts.clear();
    size_t end = at;
    while (end < text.size()) {
      const Char c = CharAt(text, end);
      if ((c.classes & digits) == 0) break;
      starts.push_back(end);
      end += c.size;
    }
    if (starts.empty()) {
      at = RunWithout(text, at, digits);
      continue;
    }
    const Char next = end < text.size() ? CharAt(text, end) : Char{};
    const bool in_word = next.code == '_' || (next.classes & (kLetter | kNumber)) != 0;
    if (!(before_boundary && in_word)) {
      for (size_t i = 0; i < starts.size(); ++i) {
        if ((starts.size() - i) % 3 == 0 || i == 0) cut(starts[i]);
      }
      cut(end);
    }
    at = end;
  }
  cut(text.size());
}

#define KVASIR_SPACES R"(\s+(?!\S)|\s+)"
#define KVASIR_CONTRACTION R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define KVASIR_CASED(tail)                                                               \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" tail \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" tail "|"

}  // namespace

void Scan(PassKind kind, std::string_view text, size_t base, std::vector<size_t>& ends) {
  switch (kind) {
    case PassKind::kGpt2:
      return ScanWith<NextGpt2>(text, base, ends);
    case PassKind::kLlama3:
      return ScanWith<NextCl100k<3, kLetter>>(text, base, ends);
    case PassKind::kQwen2:
      return ScanWith<NextCl100k<1, kLetter>>(text, base, ends);
    case PassKind::kQwen35:
      return ScanWith<NextCl100k<1, kLetter | kMark>>(text, base, ends);
    case PassKind::kTekken:
      return ScanWith<NextCased<1, false, false>>(text, base, ends);
    case PassKind::kGpt4o:
      return ScanWith<NextCased<3, true, false>>(text, base, ends);
    case PassKind::kKimi:
      return ScanWith<NextCased<3, true, true>>(text, base, ends);
    case PassKind::kSingleNumbers:
      return ScanWith<NextNumbers<1>>(text, base, ends);
    case PassKind::kThreeNumbers:
      return ScanWith<NextNumbers<3>>(text, base, ends);
    case PassKind::kLines:
      return ScanWith<NextLine>(text, base, ends);
    case PassKind::kNumberGroups:
      return ScanGroups(text, base, kNumber, false, ends);
    case PassKind::kDecimalGroups:
      return ScanGroups(text, base, kDecimal, true, ends);
    case PassKind::kRegex:
      return;
  }
}

const char* PatternOf(PassKind kind) {
  switch (kind) {
    case PassKind::kGpt2:
      return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)" KVASIR_SPACES;
    case PassKind::kLlama3:
      return KVASIR_CONTRACTION
          R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)" KVASIR_SPACES;
    case PassKind::kQwen2:
      return KVASIR_CONTRACTION
          R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)" KVASIR_SPACES;
    case PassKind::kQwen35:
      return KVASIR_CONTRACTION
          R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|)" KVASIR_SPACES;
    case PassKind::kTekken:
      return KVASIR_CASED("") R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)" KVASIR_SPACES;
    case PassKind::kGpt4o:
      return KVASIR_CASED(KVASIR_CONTRACTION "?") R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)" KVASIR_SPACES;
    case PassKind::kKimi:
      return R"(\p{sc:Han}+|)"
             R"([^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{sc:Han})[\p{Ll})"
             R"(\p{Lm}\p{Lo}\p{M}])+)" KVASIR_CONTRACTION
             "?|"
             R"([^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{sc:Han})[\p{Ll})"
             R"(\p{Lm}\p{Lo}\p{M}])*)" KVASIR_CONTRACTION
             "?|"
             R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)" KVASIR_SPACES;
    case PassKind::kSingleNumbers:
      return R"(\p{N})";
    case PassKind::kThreeNumbers:
      return R"(\p{N}{1,3})";
    case PassKind::kNumberGroups:
      return R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
    case PassKind::kDecimalGroups:
      return R"(\d{1,3}(?=(?:\d{3})*\b))";
    case PassKind::kLines:
      return R"([^\n]+|[\n]+)";
    case PassKind::kRegex:
      return nullptr;
  }
  return nullptr;
}

#undef KVASIR_SPACES
#undef KVASIR_CONTRACTION
#undef KVASIR_CASED

}  // namespace kvasir::tokenizer
