// chat/jinja/parser.h
// Source to syntax tree. Grammar: Jinja 3.1 with loop controls and the `generation` block, which only marks and renders
// its body. Templates are single files: include, import and extends do not exist here.
//
// Thread rule: Parse is pure; a Program is const and read by many threads.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/jinja/ast.h"

namespace kvasir::chat::jinja {

// Statements and expressions nest at most this deep, so neither the parser nor the interpreter can overflow the stack.
constexpr int kMaxNesting = 200;

struct Program {
  Body body;
  std::vector<std::string> names;  // by NameId
  std::deque<Buffer> literals;     // what Literal and Data texts point into; frozen
};

// Errors: kCorrupt with the line.
Result<Program> Parse(std::string_view source);

}  // namespace kvasir::chat::jinja
