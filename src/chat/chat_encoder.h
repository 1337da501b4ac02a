// chat/chat_encoder.h
// A rendered prompt to token ids, such that only the template makes control tokens.
//
// What a client wrote may spell "<|im_end|>": it stays text. What the template wrote becomes the token. Text between
// two control tokens is tokenized as one stretch however many spans it has, so a prompt in which no client text spells
// a control token gets exactly the ids of encoding it whole. There is one BOS: the template's, or the vocabulary's if
// the template writes none; an EOS is never appended, because a reply follows.
//
// A control token that is spelled partly by the template and partly by a client stays text. White space that a token
// takes along (phi-3's "<|end|>") is kept where it borders on a stretch in which a client spells a control token.
//
// Thread rule: const after construction; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "chat/span.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"

namespace kvasir::chat {

class ChatEncoder {
 public:
  // Reads all token names once. `tokenizer` must outlive the encoder.
  explicit ChatEncoder(const tokenizer::Tokenizer& tokenizer);

  std::vector<tokenizer::Token> Encode(const RenderedChat& rendered) const;

 private:
  struct Occurrence {
    size_t begin, end;
    bool trusted;  // every byte of it
  };
  std::vector<Occurrence> FindNames(const RenderedChat& rendered) const;

  const tokenizer::Tokenizer* tokenizer_;
  tokenizer::Trie names_;           // of control tokens and the unknown token
  std::array<bool, 256> begins_{};  // their first bytes
};

// As ChatEncoder, for a single use.
std::vector<tokenizer::Token> EncodeChat(const tokenizer::Tokenizer& tokenizer, const RenderedChat& rendered);

}  // namespace kvasir::chat
