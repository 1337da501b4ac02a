// chat/jinja/python_text.h
// How values look when they are printed: str() and repr() as Python writes them, and JSON as Python's json.dumps writes
// it.
//
// Texts keep their origins inside what is printed; quotes, commas and brackets get the origin of their container, so a
// request's tool list printed as JSON is one span.
//
// Thread rule: as Value.
#pragma once

#include <string>
#include <string_view>

#include "chat/jinja/heap.h"
#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

// Shortest digits that read back the same: "1.0", "1e+16", "nan".
std::string FloatRepr(double value);

// str(value): a text is itself, an undefined value is empty. Errors: containers nested too deep.
Result<Text> Str(Heap& heap, const Value& value);
Result<Text> Repr(Heap& heap, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool generators = false;  // print what is lazy as a list, where Python refuses
  bool pretty = false;      // line breaks, with `indent` per level
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// Errors: a value JSON cannot say, containers nested too deep.
Result<Text> ToJson(Heap& heap, const Value& value, const JsonStyle& style);

// &, <, >, ' and " as HTML entities.
Text EscapeHtml(Heap& heap, const Text& text);

}  // namespace kvasir::chat::jinja
