// tokenizer/pre_tokenizer.h
// Splits text into the pieces inside which byte pairs are merged, as tokenizer.ggml.pre says.
//
// Over eighty names come down to some thirty rules. A rule is a list of passes; each pass cuts every piece that the one
// before left, so that what it sees ahead ends with that piece. A pass is a hand-written scanner (scanners.h) or, for
// the rare ones, a PCRE2 pattern (regex_splitter.h).
//
// Thread rule: const after construction.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvasir::tokenizer {

class RegexSplitter;

enum class PassKind {
  kRegex,
  kGpt2,           // GPT-2: contractions, letters, numbers, the rest, each with one space before it
  kLlama3,         // cl100k: three digits at most
  kQwen2,          // the same, single digits
  kQwen35,         // the same, marks among the letters
  kTekken,         // capitals and small letters apart, single digits
  kGpt4o,          // the same, three digits at most, contractions with the word
  kKimi,           // the same, Han on its own
  kSingleNumbers,  // \p{N}
  kThreeNumbers,   // \p{N}{1,3}
  kNumberGroups,   // runs of \p{N} in threes, counted from the right
  kDecimalGroups,  // the same for \d, where a word boundary follows
  kLines,          // runs of newlines, runs of others
};

struct Pass {
  PassKind kind = PassKind::kRegex;
  const char* pattern = nullptr;  // of kRegex
};

struct PreTokenizerRules {
  std::string_view name;  // as in tokenizer.ggml.pre
  std::span<const Pass> passes;
  bool adds_bos = false;  // unless the file says otherwise
  bool adds_sep = false;
  bool whole_words = false;     // a piece that is a token is not merged
  bool visible_spaces = false;  // spaces are U+2581 and text is not byte-encoded
};

// The rules of that name; null if it is unknown.
const PreTokenizerRules* FindPreTokenizer(std::string_view name);

class PreTokenizer {
 public:
  // Errors: kUnsupported if a pattern does not compile here.
  static Result<PreTokenizer> Create(const PreTokenizerRules& rules);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Appends the end of every piece of `text` to `ends`, ascending, the last one text.size(). Empty text has no piece.
  // REQUIRES: `text` is as RepairUtf8 makes it.
  void Split(std::string_view text, std::vector<size_t>& ends) const;

 private:
  struct Step {
    PassKind kind = PassKind::kRegex;
    std::unique_ptr<RegexSplitter> regex;
  };
  explicit PreTokenizer(std::vector<Step> steps);
  std::vector<Step> steps_;
};

}  // namespace kvasir::tokenizer
