// tokenizer/special_splitter.h
// Finds the tokens that stand in a text by name: control tokens where the caller asks for them, user-defined ones
// always.
//
// The longest name wins wherever it stands, and the leftmost of equal length, as in the reference, which searches for
// one name after the other. Here one walk over the text finds the longest name at each place. Nearly always no other
// name can overlap it that would win (none begins with one of its bytes, or none so long), and the walk goes on behind
// it; what may overlap is settled afterwards by length, and a place is looked at again only if its name lost. Some
// tokens take the white space beside them along.
//
// Thread rule: const after construction.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {

// A token, or text between tokens.
struct Fragment {
  Token token = kNoToken;
  std::string_view text;  // of kNoToken; not empty
};

class SpecialSplitter {
 public:
  // `vocabulary` must outlive the splitter.
  explicit SpecialSplitter(const Vocabulary& vocabulary);

  std::vector<Fragment> Split(std::string_view text, bool parse_special) const;

 private:
  struct Names {
    Trie trie;
    std::array<size_t, 256> longest_by_byte{};  // of the names that begin with that byte
    size_t longest = 0;
  };
  void AddNames(TokenTraits traits, Names& names) const;

  const Vocabulary* vocabulary_;
  Names all_;
  Names user_defined_;
  bool strips_ = false;  // some token takes white space along, which then may reach the next name
};

}  // namespace kvasir::tokenizer
