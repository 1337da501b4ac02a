// tokenizer/neighbours.h
// Which characters stand side by side in some token. Where two do not, no merge can ever join what is left and right of
// them, so text may be cut there before merging, with the result of merging it whole.
//
// A bitmap by hash: it may say yes too often, which only cuts less. Characters are what their lead bytes announce.
//
// Thread rule: const after the last Add.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvasir::tokenizer {

class Neighbours {
 public:
  Neighbours();
  void Add(std::string_view token_text);

  // The end of the piece of `text` that begins at `begin` and that nothing joins with what follows; at most `most`
  // bytes or one character. REQUIRES: begin < text.size().
  size_t PieceEnd(std::string_view text, size_t begin, size_t most) const;

 private:
  static size_t BitOf(uint32_t left, uint32_t right);
  std::vector<uint64_t> bits_;
};

// The character at `at`, by the size that its lead byte announces, cut at the end of the text.
std::string_view AnnouncedCharacter(std::string_view text, size_t at);

}  // namespace kvasir::tokenizer
