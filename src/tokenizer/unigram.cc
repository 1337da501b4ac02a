#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;  // SentencePiece, unigram_model.cc
constexpr double kUnreached = -std::numeric_limits<double>::max();

struct Best {
  Token token;
  size_t from;
  double score;
};

}  // namespace

Result<UnigramEncoder> UnigramEncoder::Create(const Vocabulary& vocabulary) {
  UnigramEncoder encoder;
  encoder.vocabulary_ = &vocabulary;
  if (vocabulary.special.unk == kNoToken) {
    return MakeError(ErrorCode::kCorrupt,
                     "tokenizer.ggml.unknown_token_id: a unigram vocabulary needs an unknown token");
  }
  std::vector<std::pair<std::string_view, int32_t>> texts, user_defined;
  float least = 0;
  bool any = false;
  for (Token token = 0; token < vocabulary.size(); ++token) {
    const float score = vocabulary.scores[static_cast<size_t>(token)];
    if (vocabulary.Is(token, kNormalToken)) {
      least = any ? std::min(least, score) : score;
      any = true;
    }
    if (vocabulary.Is(token, kNormalToken | kUserDefinedToken | kUnusedToken) && !vocabulary.Is(token, kControlToken)) {
      texts.emplace_back(vocabulary.Text(token), token);
    }
    if (vocabulary.Is(token, kUserDefinedToken)) user_defined.emplace_back(vocabulary.Text(token), token);
  }
  encoder.tokens_ = Trie(std::move(texts));
  encoder.user_defined_ = Trie(std::move(user_defined));
  encoder.unknown_score_ = static_cast<double>(static_cast<float>(least - kUnknownPenalty));

  const std::vector<int64_t>& map = vocabulary.charsmap;
  if (map.empty()) return encoder;
  constexpr size_t kWord = sizeof(uint32_t);
  const auto word_at = [&](size_t at) {
    uint32_t word = 0;
    for (size_t i = 0; i < kWord; ++i) word |= static_cast<uint32_t>(map[at + i] & 0xFF) << (8 * i);
    return word;
  };
  if (map.size() < kWord || word_at(0) > map.size() - kWord || word_at(0) % kWord != 0) {
    return MakeError(ErrorCode::kCorrupt,
                     "tokenizer.ggml.precompiled_charsmap: {} bytes do not hold the array they announce", map.size());
  }
  const size_t nodes_end = kWord + word_at(0);
  for (size_t at = kWord; at < nodes_end; at += kWord) encoder.map_nodes_.push_back(word_at(at));
  for (size_t at = nodes_end; at < map.size(); ++at) encoder.map_texts_ += static_cast<char>(map[at]);
  return encoder;
}

std::string_view UnigramEncoder::NormalisePrefix(std::string_view text, size_t at, size_t& taken) const {
  // User-defined tokens stay as they are; as in the reference, so does any beginning of one.
  Trie::Node node = user_defined_.Step(Trie::kRoot, text[at]);
  size_t known = 0;
  while (node != Trie::kNowhere) {
    ++known;
    if (at + known == text.size()) break;
    node = user_defined_.Step(node, text[at + known]);
  }
  if (known > 0) {
    taken = known;
    return text.substr(at, known);
  }

  const auto node_at = [&](size_t i) { return i < map_nodes_.size() ? map_nodes_[i] : 0; };
  const auto base_of = [](uint32_t packed) { return (packed >> 10) << ((packed & (1u << 9)) >> 6); };
  size_t matched = 0, replacement = 0;
  size_t place = base_of(node_at(0));
  for (size_t i = at; i < text.size() && !map_nodes_.empty(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    place ^= byte;
    const uint32_t packed = node_at(place);
    if ((packed & (1u << 31 | 0xFF)) != byte) break;
    place ^= base_of(packed);
    if (packed >> 8 & 1) {
      matched = i - at + 1;
      replacement = node_at(place) & ~(1u << 31);
    }
  }
  if (matched > 0 && replacement < map_texts_.size()) {
    taken = matched;
    const size_t end = std::min(map_texts_.find('\0', replacement), map_texts_.size());
    return std::string_view(map_texts_).substr(replacement, end - replacement);
  }
  const Char c = CharAt(text, at);
  taken = c.size;
  return c.code == kNotACharacter ? kReplacement : text.substr(at, c.size);
}

std::string UnigramEncoder::Normalise(std::string_view text) const {
  std::string out;
  out.reserve(text.size() * 2);
  bool space_added = false, in_word = false;
  for (size_t at = 0; at < text.size();) {
    size_t taken = 0;
    for (const char c : NormalisePrefix(text, at, taken)) {
      if (c == ' ') {
        in_word = false;
        if (!vocabulary_->remove_extra_spaces) out += kVisibleSpace;
        continue;
      }
      if (!in_word) {
        in_word = true;
        if ((vocabulary_->add_space_prefix && !space_added) || vocabulary_->remove_extra_spaces) {
          out += kVisibleSpace;
          space_added = true;
        }
      }
      out += c;
    }
    at += taken;
  }
  return out;
}

void UnigramEncoder::Encode(std::string_view text, std::vector<Token>& out) const {
  const std::string normal = Normalise(text);
  if (normal.empty()) return;
  const Token unknown = vocabulary_->special.unk;
  std::vector<Best> best(normal.size() + 1, {unknown, 0, kUnreached});
  best[0].score = 0;
  const auto offer = [&](size_t from, size_t to, Token token, double score) {
    if (best[from].score + score > best[to].score) best[to] = {token, from, best[from].score + score};
  };
  for (size_t at = 0; at < normal.size();) {
    const size_t size = std::min(AnnouncedSize(normal[at]), normal.size() - at);
    bool covered = false;
    Trie::Node node = Trie::kRoot;
    for (size_t end = at; end < normal.size();) {
      node = tokens_.Step(node, normal[end++]);
      if (node == Trie::kNowhere) break;
      const Token token = tokens_.Value(node);
      if (token == kNoToken) continue;
      covered |= end - at == size;
      const bool user_defined = vocabulary_->Is(token, kUserDefinedToken);
      offer(at, end, token, user_defined ? 0.0 : static_cast<double>(vocabulary_->scores[static_cast<size_t>(token)]));
    }
    if (!covered) offer(at, at + size, unknown, unknown_score_);
    at += size;
  }
  // Backwards from the end; unknown tokens side by side become one.
  const size_t first = out.size();
  bool after_unknown = false;
  for (size_t at = normal.size(); at > 0; at = best[at].from) {
    const bool is_unknown = best[at].token == unknown;
    if (!(after_unknown && is_unknown)) out.push_back(best[at].token);
    after_unknown = is_unknown;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

}  // namespace kvasir::tokenizer
