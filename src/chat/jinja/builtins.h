// chat/jinja/builtins.h
// The functions that templates find by name. Which exist and what they do follows Jinja 3.1 and Python's str, list and
// dict, in the sandboxed environment that model authors test with; `tojson` is that of the transformers library: plain
// JSON, no HTML escapes. Not here: filters that need a locale, randomness or files.
//
// Thread rule: constant tables.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "chat/jinja/callable.h"

namespace kvasir::chat::jinja {

// Null when there is none.
Function FindFilter(std::string_view name);
Function FindTest(std::string_view name);

// A method or attribute of a value as `value.name` finds it; nothing when there is none. Namespaces, loops and dict
// keys are the business of GetAttribute (operators.h).
struct Method {
  Function function = nullptr;
  bool changes = false;  // changes its object: refused unless Runtime::extensions
};
Method FindMethod(const Value& value, std::string_view name);

// range, namespace, dict, raise_exception, strftime_now.
std::span<const std::pair<std::string_view, Function>> Globals();

// Per-type tables behind FindMethod.
Method FindTextMethod(std::string_view name);
Method FindContainerMethod(const Value& value, std::string_view name);

}  // namespace kvasir::chat::jinja
