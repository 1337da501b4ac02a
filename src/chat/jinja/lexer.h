// chat/jinja/lexer.h
// Cuts template source into tokens, with the white space rules that chat templates are written for: trim_blocks (the
// line break after a block or comment is dropped), lstrip_blocks (indentation before one is dropped), "-" and "+"
// signs, and the last line break of the source dropped. Pattern of rules: Jinja 3.1's documentation of whitespace
// control.
//
// Thread rule: pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvasir::chat::jinja {

enum class TokenType : uint8_t {
  kData,         // text: the bytes
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kName,         // text: the name
  kString,       // text: the unescaped bytes
  kInteger,
  kFloat,
  kOperator,  // text: "+", "//", "==", ...
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool IsName(std::string_view name) const { return type == TokenType::kName && text == name; }
  bool Is(std::string_view op) const { return type == TokenType::kOperator && text == op; }
};

// The last token is kEnd. Errors: kCorrupt with the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace kvasir::chat::jinja
