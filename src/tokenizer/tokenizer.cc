#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "tokenizer/byte_pair.h"
#include "tokenizer/sentence_piece.h"
#include "tokenizer/special_splitter.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_piece.h"

namespace kvasir::tokenizer {
namespace {

using Encoder = std::variant<std::monostate, SentencePieceEncoder, BytePairEncoder, WordPieceEncoder, UnigramEncoder>;

Result<Encoder> MakeEncoder(const Vocabulary& vocabulary) {
  switch (vocabulary.kind) {
    case ModelKind::kSentencePiece:
      return Encoder(std::in_place_type<SentencePieceEncoder>, vocabulary);
    case ModelKind::kBytePair: {
      KVASIR_ASSIGN_OR_RETURN(auto encoder, BytePairEncoder::Create(vocabulary));
      return Encoder(std::move(encoder));
    }
    case ModelKind::kWordPiece:
      return Encoder(std::in_place_type<WordPieceEncoder>, vocabulary);
    case ModelKind::kUnigram: {
      KVASIR_ASSIGN_OR_RETURN(auto encoder, UnigramEncoder::Create(vocabulary));
      return Encoder(std::move(encoder));
    }
  }
  return MakeError(ErrorCode::kUnsupported, "no encoder for {}", vocabulary.model);
}

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

Digest DigestOf(const Vocabulary& vocabulary) {
  std::vector<uint32_t> sizes;
  sizes.reserve(static_cast<size_t>(vocabulary.size()));
  for (Token token = 0; token < vocabulary.size(); ++token) {
    sizes.push_back(static_cast<uint32_t>(vocabulary.Text(token).size()));
  }
  Sha256 sha;
  sha.Add("model", vocabulary.model).Add("pre", vocabulary.pre);
  sha.Add("texts", vocabulary.texts.all()).Add("sizes", BytesOf(sizes));
  sha.Add("traits", BytesOf(vocabulary.token_traits)).Add("scores", BytesOf(vocabulary.scores));
  sha.Add("merges", BytesOf(vocabulary.merges)).Add("charsmap", BytesOf(vocabulary.charsmap));
  const SpecialTokens& special = vocabulary.special;
  for (const Token token : {special.bos, special.eos, special.unk, special.sep}) sha.Add("role", token);
  for (const bool flag : {vocabulary.add_bos, vocabulary.add_eos, vocabulary.add_sep, vocabulary.add_space_prefix,
                          vocabulary.remove_extra_spaces, vocabulary.lower_case, vocabulary.strip_accents}) {
    sha.Add("flag", int64_t{flag});
  }
  return sha.Finish();
}

}  // namespace

struct Tokenizer::State {
  Vocabulary vocabulary;
  Encoder encoder;
  std::optional<SpecialSplitter> splitter;
  Digest digest{};

  void EncodeSentencePieces(const SentencePieceEncoder& spm, const std::vector<Fragment>& fragments,
                            std::vector<Token>& out) const {
    SentencePieceEncoder::Scratch scratch;
    bool first_word = true;
    for (const Fragment& fragment : fragments) {
      if (fragment.token != kNoToken) {
        out.push_back(fragment.token);
        first_word = true;
      } else {
        spm.Encode(fragment.text, vocabulary.add_space_prefix && first_word, scratch, out);
        first_word = false;
      }
    }
  }

  template <typename Encode>
  void EncodeFragments(const std::vector<Fragment>& fragments, std::vector<Token>& out, const Encode& encode) const {
    for (const Fragment& fragment : fragments) {
      if (fragment.token != kNoToken) {
        out.push_back(fragment.token);
      } else {
        encode(fragment.text);
      }
    }
  }
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::FromGguf(const gguf::GgufFile& file) {
  auto state = std::make_unique<State>();
  Vocabulary& vocabulary = state->vocabulary;
  KVASIR_RETURN_IF_ERROR(vocabulary.Load(file));
  KVASIR_ASSIGN_OR_RETURN(state->encoder, MakeEncoder(vocabulary));
  state->splitter.emplace(vocabulary);
  state->digest = DigestOf(vocabulary);
  Tokenizer tokenizer(std::move(state));
  // The token of a newline, by the rules of llama.cpp: its byte token, or what it is encoded to; else the default
  // padding.
  if (vocabulary.kind == ModelKind::kSentencePiece) {
    vocabulary.special.nl = vocabulary.ByteToken('\n');
  } else if (vocabulary.kind == ModelKind::kBytePair) {
    const std::vector<Token> tokens = tokenizer.Encode("\n", {.add_special = false, .parse_special = false});
    vocabulary.special.nl = tokens.empty() ? kNoToken : tokens.front();
  } else {
    vocabulary.special.nl = 0;
  }
  return tokenizer;
}

std::vector<Token> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  const Vocabulary& vocabulary = state_->vocabulary;
  const std::vector<Fragment> fragments = state_->splitter->Split(text, options.parse_special);
  std::vector<Token> out;
  out.reserve(text.size() / 3 + 8);
  if (options.add_special && vocabulary.add_bos) out.push_back(vocabulary.special.bos);
  if (const auto* spm = std::get_if<SentencePieceEncoder>(&state_->encoder)) {
    state_->EncodeSentencePieces(*spm, fragments, out);
  } else if (const auto* bpe = std::get_if<BytePairEncoder>(&state_->encoder)) {
    BytePairEncoder::Scratch scratch;
    state_->EncodeFragments(fragments, out, [&](std::string_view part) { bpe->Encode(part, scratch, out); });
  } else if (const auto* wpm = std::get_if<WordPieceEncoder>(&state_->encoder)) {
    state_->EncodeFragments(fragments, out, [&](std::string_view part) { wpm->Encode(part, out); });
  } else if (const auto* unigram = std::get_if<UnigramEncoder>(&state_->encoder)) {
    state_->EncodeFragments(fragments, out, [&](std::string_view part) { unigram->Encode(part, out); });
  }
  if (options.add_special && vocabulary.kind == ModelKind::kWordPiece && vocabulary.special.sep != kNoToken) {
    out.push_back(vocabulary.special.sep);
  }
  if (options.add_special && vocabulary.add_eos) out.push_back(vocabulary.special.eos);
  return out;
}

std::string Tokenizer::Piece(Token token, bool special) const {
  const Vocabulary& vocabulary = state_->vocabulary;
  if (token < 0 || token >= vocabulary.size()) return {};
  const bool hidden = vocabulary.Is(token, kControlToken | kUnknownToken) && !vocabulary.Is(token, kShownToken);
  if (hidden && !special) return {};
  return std::string(vocabulary.pieces[static_cast<size_t>(token)]);
}

std::string Tokenizer::Decode(std::span<const Token> tokens, bool remove_special, bool special) const {
  const Vocabulary& vocabulary = state_->vocabulary;
  bool strip_space = vocabulary.add_space_prefix;
  if (remove_special && vocabulary.add_bos && !tokens.empty() && tokens.front() == vocabulary.special.bos) {
    strip_space = false;
    tokens = tokens.subspan(1);
  }
  if (remove_special && vocabulary.add_eos && !tokens.empty() && tokens.back() == vocabulary.special.eos) {
    tokens = tokens.first(tokens.size() - 1);
  }
  std::string out;
  for (const Token token : tokens) {
    const std::string piece = Piece(token, special);
    out.append(piece, strip_space && !piece.empty() && piece[0] == ' ' ? 1 : 0);
    strip_space = false;
  }
  return out;
}

int Tokenizer::vocab_size() const {
  return state_->vocabulary.size();
}
const SpecialTokens& Tokenizer::special() const {
  return state_->vocabulary.special;
}
bool Tokenizer::adds_bos() const {
  return state_->vocabulary.add_bos;
}
bool Tokenizer::adds_eos() const {
  return state_->vocabulary.add_eos;
}
bool Tokenizer::adds_space() const {
  return state_->vocabulary.add_space_prefix;
}

bool Tokenizer::IsControl(Token token) const {
  return token >= 0 && token < vocab_size() && state_->vocabulary.Is(token, kControlToken);
}

bool Tokenizer::IsEndOfGeneration(Token token) const {
  const std::vector<Token>& ends = state_->vocabulary.end_of_generation;
  return std::binary_search(ends.begin(), ends.end(), token);
}

std::span<const Token> Tokenizer::end_of_generation() const {
  return state_->vocabulary.end_of_generation;
}
std::string_view Tokenizer::model() const {
  return state_->vocabulary.model;
}
std::string_view Tokenizer::pre() const {
  return state_->vocabulary.pre;
}
bool Tokenizer::pre_verified() const {
  return state_->vocabulary.pre_verified;
}
const Digest& Tokenizer::digest() const {
  return state_->digest;
}

}  // namespace kvasir::tokenizer
