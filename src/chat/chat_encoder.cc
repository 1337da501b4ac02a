#include "chat/chat_encoder.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace kvasir::chat {
namespace {

using tokenizer::Token;
using tokenizer::Tokenizer;

void Append(const Tokenizer& tokenizer, std::string_view text, bool parse_special, std::vector<Token>& out) {
  if (text.empty()) return;
  const std::vector<Token> tokens = tokenizer.Encode(text, {.add_special = false, .parse_special = parse_special});
  out.insert(out.end(), tokens.begin(), tokens.end());
}

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {
  std::vector<std::string> names;
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!tokenizer.IsControl(token) && token != tokenizer.special().unk) continue;
    std::string name = tokenizer.Piece(token, /*special=*/true);
    if (!name.empty()) names.push_back(std::move(name));
  }
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (const std::string& name : names) {
    begins_[static_cast<unsigned char>(name[0])] = true;
    entries.emplace_back(name, 0);
  }
  names_ = tokenizer::Trie(std::move(entries));
}

std::vector<ChatEncoder::Occurrence> ChatEncoder::FindNames(const RenderedChat& rendered) const {
  const std::string_view text = rendered.text;
  std::vector<Occurrence> found;
  size_t span = 0;           // the one that holds `at`
  size_t trusted_until = 0;  // all bytes from `at` to there are trusted
  for (size_t at = 0; at < text.size(); ++at) {
    while (rendered.spans[span].end <= at) ++span;
    if (trusted_until <= at) {
      trusted_until = at;
      for (size_t i = span; i < rendered.spans.size() && rendered.spans[i].origin.trusted(); ++i) {
        trusted_until = rendered.spans[i].end;
      }
    }
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    // The longest name, and the longest one that a client had no part in: they may differ.
    size_t longest = at, longest_trusted = at;
    tokenizer::Trie::Node node = tokenizer::Trie::kRoot;
    for (size_t end = at + 1; end <= text.size(); ++end) {
      node = names_.Step(node, text[end - 1]);
      if (node == tokenizer::Trie::kNowhere) break;
      if (names_.Value(node) == tokenizer::Trie::kNone) continue;
      longest = end;
      if (end <= trusted_until) longest_trusted = end;
    }
    if (longest_trusted > at) found.push_back({at, longest_trusted, true});
    if (longest > longest_trusted) found.push_back({at, longest, false});
  }
  return found;
}

std::vector<Token> ChatEncoder::Encode(const RenderedChat& rendered) const {
  const std::string_view text = rendered.text;
  std::vector<Occurrence> names = FindNames(rendered);
  std::vector<Token> tokens;
  if (std::all_of(names.begin(), names.end(), [](const Occurrence& name) { return name.trusted; })) {
    Append(*tokenizer_, text, /*parse_special=*/true, tokens);
  } else {
    size_t pending = 0;  // from here on not encoded yet
    size_t stretch = 0;  // begin of the stretch after the last control token
    bool spoofed = false;
    const auto finish_stretch = [&](size_t end) {
      if (!spoofed) return;
      Append(*tokenizer_, text.substr(pending, stretch - pending), /*parse_special=*/true, tokens);
      Append(*tokenizer_, text.substr(stretch, end - stretch), /*parse_special=*/false, tokens);
      pending = end;
      spoofed = false;
    };
    for (const Occurrence& name : names) {
      if (!name.trusted) {
        spoofed |= name.end > stretch;
      } else if (name.begin >= stretch) {
        finish_stretch(name.begin);
        stretch = name.end;
      }
    }
    finish_stretch(text.size());
    Append(*tokenizer_, text.substr(pending), /*parse_special=*/true, tokens);
  }
  const Token bos = tokenizer_->special().bos;
  if (tokenizer_->adds_bos() && bos != tokenizer::kNoToken && (tokens.empty() || tokens.front() != bos)) {
    tokens.insert(tokens.begin(), bos);
  }
  return tokens;
}

std::vector<Token> EncodeChat(const Tokenizer& tokenizer, const RenderedChat& rendered) {
  return ChatEncoder(tokenizer).Encode(rendered);
}

}  // namespace kvasir::chat
