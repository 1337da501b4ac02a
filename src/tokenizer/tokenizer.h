// tokenizer/tokenizer.h
// Text to token ids and back, as the vocabulary of a GGUF file says.
//
// Four models: SPM (tokenizer.ggml.model = "llama": score-ordered merges with byte fallback), BPE ("gpt2", "gemma4": a
// pre-tokenizer splits, merges are ranked), WordPiece ("bert") and unigram ("t5"). Special tokens are those the file
// marks; text becomes a control token only where the caller asks (`parse_special`), so what a user types never turns
// into one. User-defined tokens are words of the vocabulary and always found. Everything is about linear in the text
// and bounded in stack.
//
// Thread rule: const after load; any thread may encode and decode.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "gguf/gguf_file.h"

namespace kvasir::tokenizer {

using Token = int32_t;
constexpr Token kNoToken = -1;

// Ids of the tokens that have a role; kNoToken where the file names none.
struct SpecialTokens {
  Token bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken, unk = kNoToken, sep = kNoToken, pad = kNoToken,
        mask = kNoToken, nl = kNoToken;
  Token fim_pre = kNoToken, fim_suf = kNoToken, fim_mid = kNoToken, fim_pad = kNoToken, fim_rep = kNoToken,
        fim_sep = kNoToken;
};

struct EncodeOptions {
  bool add_special = true;     // BOS/EOS where the file asks for them
  bool parse_special = false;  // text that spells a control or user-defined token becomes it
};

class Tokenizer {
 public:
  // `file` may go afterwards. Errors: kCorrupt (a key of wrong type, length or range; named), kUnsupported (an unknown
  // tokenizer model), kNotFound (no tokenizer in the file).
  static Result<Tokenizer> FromGguf(const gguf::GgufFile& file);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes will do; never fails, never aborts. SPM keeps every byte (but a space right after a cut-off character
  // comes back as U+2581). Byte-level BPE reads text as the reference (llama.cpp) does: overlong forms as the character
  // they mean, each stray byte as U+FFFD; surrogates are kept, and where every byte has a token also what lies above
  // U+10FFFF.
  std::vector<Token> Encode(std::string_view text, EncodeOptions options) const;

  // The bytes of one token. Control tokens are empty unless `special`. Out-of-range ids are empty.
  std::string Piece(Token token, bool special) const;
  // The bytes of all tokens, without the space that SPM put before the first word. `remove_special` drops a leading BOS
  // (what follows it then keeps its space) and a trailing EOS, where the file adds them; `special` spells control
  // tokens out. No other byte is touched: the "clean-up" of spaces before punctuation that some detokenizers do is not
  // done.
  std::string Decode(std::span<const Token> tokens, bool remove_special, bool special) const;

  int vocab_size() const;
  const SpecialTokens& special() const;
  bool adds_bos() const;
  bool adds_eos() const;
  bool adds_space() const;  // SPM: a space goes before the first word, and Decode takes it away
  bool IsControl(Token token) const;
  bool IsEndOfGeneration(Token token) const;
  std::span<const Token> end_of_generation() const;  // ascending
  std::string_view model() const;                    // "llama", "gpt2", "gemma4", "bert" or "t5"
  std::string_view pre() const;                      // "qwen2"
  bool pre_verified() const;                         // false: `pre` is unknown and a likely one stands in
  const Digest& digest() const;                      // identity of vocabulary and rules, for KV namespaces

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Turns a stream of tokens into text that is whole UTF-8 at every moment: bytes of an unfinished character are held
// back. The concatenation of everything returned, Finish included, equals Tokenizer::Decode of all ids. Bytes that
// cannot become a character (a model may generate such byte tokens) are returned as they are, as soon as that is known;
// whoever needs valid UTF-8, a JSON writer say, replaces them.
//
// Thread rule: one thread.
class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder. `continues`: the tokens follow others (a prompt), so a space at their
  // beginning is text; without it the first token loses the space that SPM puts before a first word, as in Decode.
  StreamDecoder(const Tokenizer& tokenizer, bool special, bool continues = false)
      : tokenizer_(&tokenizer), special_(special), first_(!continues) {}

  std::string Push(Token token);
  // What is held back at the end; not valid UTF-8 unless empty. The decoder is as new afterwards, but continues.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  bool first_;
  std::string held_;
};

}  // namespace kvasir::tokenizer
