#include "tokenizer/word_piece.h"

#include <string>
#include <utility>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

// Ideographs that BERT's tokenizer makes words of their own: its blocks, not the Han script.
bool IsIdeograph(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kBlocks) {
    if (code >= first && code <= last) return true;
  }
  return false;
}

std::vector<std::pair<std::string_view, int32_t>> AllTexts(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  for (Token token = 0; token < vocabulary.size(); ++token) {
    if (!vocabulary.Is(token, kControlToken | kUnknownToken)) texts.emplace_back(vocabulary.Text(token), token);
  }
  return texts;
}

}  // namespace

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary), tokens_(AllTexts(vocabulary)) {}

void WordPieceEncoder::Encode(std::string_view text, std::vector<Token>& out) const {
  std::string word(kVisibleSpace);
  const auto finish = [&] {
    if (word.size() > kVisibleSpace.size()) EncodeWord(word, out);
    word.resize(kVisibleSpace.size());
  };
  for (size_t at = 0; at < text.size();) {
    const Char c = CharAt(text, at);
    at += c.size;
    const uint32_t code = vocabulary_->strip_accents ? BaseCharacter(c.code) : c.code;
    const CharClass classes = ClassOf(code);
    if (classes & kSpace) {
      finish();
      continue;
    }
    if (code == 0 || code == 0xFFFD || code > kMaxCodePoint || (classes & kControlClass)) continue;
    if (vocabulary_->strip_accents && (classes & kMark)) continue;
    const bool alone = (classes & kPunctuation) || (code < 0x7F && (classes & kSymbol)) || IsIdeograph(code);
    if (alone) finish();
    AppendUtf8(word, vocabulary_->lower_case ? ToLower(code) : code);
    if (alone) finish();
  }
  finish();
}

void WordPieceEncoder::EncodeWord(std::string_view word, std::vector<Token>& out) const {
  const size_t before = out.size();
  for (size_t at = 0; at < word.size();) {
    Token longest = kNoToken;
    size_t end = at;
    Trie::Node node = Trie::kRoot;
    for (size_t i = at; i < word.size(); ++i) {
      node = tokens_.Step(node, word[i]);
      if (node == Trie::kNowhere) break;
      if (tokens_.Value(node) == Trie::kNone) continue;
      longest = tokens_.Value(node);
      end = i + 1;
    }
    if (longest == kNoToken) {
      out.resize(before);
      break;
    }
    out.push_back(longest);
    at = end;
  }
  if (out.size() == before && vocabulary_->special.unk != kNoToken) out.push_back(vocabulary_->special.unk);
}

}  // namespace kvasir::tokenizer
