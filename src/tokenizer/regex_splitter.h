// tokenizer/regex_splitter.h
// Cuts text at the matches of a PCRE2 pattern: the rare pre-tokenizers, and the oracle that the scanners are tested
// against.
//
// Matching runs on the JIT with a stack that grows; what overflows it runs once more on the interpreter, whose memory
// is the heap. What fails even then leaves the rest of the text as one piece, and says so in the log. Nothing recurses.
//
// Thread rule: const after construction; any thread may split.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvasir::tokenizer {

class RegexSplitter {
 public:
  // In `pattern`, \s and \S stand for White_Space as scanners see it (PCRE2 counts U+180E too).
  // Errors: kUnsupported with PCRE2's words.
  static Result<RegexSplitter> Create(std::string_view pattern);

  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // Cuts every piece of `text` by itself; `pieces` are their ends, ascending, the last one text.size(). Appends to
  // `ends` the end of every match and of every gap between matches. An empty match cuts where it stands. REQUIRES:
  // `text` is as RepairUtf8 makes it, and pieces end between characters.
  void Split(std::string_view text, std::span<const size_t> pieces, std::vector<size_t>& ends) const;

 private:
  struct Code;
  class Matcher;
  explicit RegexSplitter(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace kvasir::tokenizer
