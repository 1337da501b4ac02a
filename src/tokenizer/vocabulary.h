// tokenizer/vocabulary.h
// What a GGUF file says about its tokens: texts, scores, kinds, merges, the tokens with a role, and the rules of its
// tokenizer.
//
// Everything is checked here, once: an array of another length than the tokens, an id that is no token, a merge of
// unknown tokens is an error that names its key, so that the encoders index without looking. Where a file leaves a key
// out, the defaults are those of llama.cpp (src/llama-vocab.cpp), which the makers of files test against; so are the
// texts by which roles are recognised.
//
// Thread rule: const after load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_index.h"
#include "tokenizer/tokenizer.h"

namespace kvasir::tokenizer {

enum class ModelKind {
  kSentencePiece,  // "llama": score-ordered merges
  kBytePair,       // "gpt2", "gemma4": ranked merges
  kWordPiece,      // "bert": longest match
  kUnigram,        // "t5": best sum of scores
};

// What a token is, as bits (the numbering of llama.h, so that tables can be compared).
using TokenTraits = uint16_t;
constexpr TokenTraits kUnknownToken = 1;
constexpr TokenTraits kUnusedToken = 2;
constexpr TokenTraits kNormalToken = 4;
constexpr TokenTraits kControlToken = 8;
constexpr TokenTraits kUserDefinedToken = 16;
constexpr TokenTraits kByteToken = 32;
constexpr TokenTraits kStripsLeft = 128;   // takes the white space before it along
constexpr TokenTraits kStripsRight = 256;  // and after it
constexpr TokenTraits kShownToken = 1024;  // a control token that decoding shows (the channel marks of gpt-oss); ours

struct Merge {
  Token left, right, result;
};

class Vocabulary {
 public:
  // Errors: as Tokenizer::FromGguf.
  Status Load(const gguf::GgufFile& file);

  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;  // the index points into the pool
  Vocabulary& operator=(const Vocabulary&) = delete;

  int size() const { return static_cast<int>(texts.size()); }
  bool Is(Token token, TokenTraits traits) const { return (token_traits[static_cast<size_t>(token)] & traits) != 0; }
  std::string_view Text(Token token) const { return texts[static_cast<size_t>(token)]; }
  // The token that stands for a byte that no other token covers; kNoToken where there is none.
  Token ByteToken(unsigned char byte) const { return byte_tokens[byte]; }

  ModelKind kind = ModelKind::kBytePair;
  std::string model;                         // tokenizer.ggml.model
  std::string pre;                           // tokenizer.ggml.pre; "default" where there is none
  const PreTokenizerRules* rules = nullptr;  // byte pairs only
  bool pre_verified = true;

  TextPool texts;
  TextPool pieces;  // the bytes each token stands for, control tokens spelt out
  TokenIndex index;
  std::vector<float> scores;  // of kSentencePiece and kUnigram
  std::vector<TokenTraits> token_traits;
  std::vector<Merge> merges;  // in rank order; of kBytePair
  std::vector<Token> byte_tokens;
  bool covers_all_bytes = false;  // none of byte_tokens is missing
  size_t longest_text = 0;
  std::vector<int64_t> charsmap;  // tokenizer.ggml.precompiled_charsmap, bytes; of kUnigram

  SpecialTokens special;
  std::vector<Token> end_of_generation;  // ascending
  bool add_bos = false;
  bool add_eos = false;
  bool add_sep = false;
  bool add_space_prefix = false;
  bool remove_extra_spaces = false;
  bool lower_case = true;     // of kWordPiece
  bool strip_accents = true;  // of kWordPiece

 private:
  Status LoadModel(const gguf::GgufFile& file);
  void ChoosePreTokenizer();
  Status LoadTokens(const gguf::GgufFile& file);
  Status LoadTraits(const gguf::GgufFile& file);
  Status LoadScores(const gguf::GgufFile& file);
  Status LoadMerges(const gguf::GgufFile& file);
  Status LoadRoles(const gguf::GgufFile& file);
  void RecogniseRoles();
  void RecogniseEndOfGeneration();
  void RecogniseStripping(const gguf::GgufFile& file);
  void MakeByteTokens();
  Status MakePieces();
  Token Find(std::string_view text) const { return index.Find(text); }
};

// The two alphabets of byte-level vocabularies (GPT-2's encoder.py): bytes written as printable characters.
std::string BytesToPrintable(std::string_view bytes);
// False if `text` has a character outside the alphabet; `bytes` is then not to be used.
bool PrintableToBytes(std::string_view text, std::string& bytes);

}  // namespace kvasir::tokenizer
