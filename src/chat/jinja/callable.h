// chat/jinja/callable.h
// What stands before "(" in a template: built-in functions, bound methods and macros, and how arguments reach them.
//
// Thread rule: as Value.
#pragma once

#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

class Heap;
class Scope;
struct MacroDef;

// What a built-in may use besides its arguments.
struct Runtime {
  Heap& heap;
  std::tm now;  // what strftime_now formats
  bool
      extensions;  // what other engines allow: methods that change lists and dicts, from_json, tojson of lazy sequences
  int depth = 0;   // nested evaluations now
};

// One level of evaluation, for as long as it lives.
class Nesting {
 public:
  explicit Nesting(Runtime& runtime) : runtime_(&runtime) { ++runtime.depth; }
  ~Nesting() { --runtime_->depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  // An error when evaluation is nested too deep or a budget is used up.
  Status Check() const;

 private:
  Runtime* runtime_;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// `self` is what a filter filters, a test tests or a method belongs to.
using Function = Result<Value> (*)(Runtime& runtime, const Value& self, const Args& args);

struct Callable {
  std::string_view name;
  Function function = nullptr;
  Value self;
  // Macros and callers: run `macro` in a scope below `scope`. Exactly one of function and macro is set.
  const MacroDef* macro = nullptr;
  Scope* scope = nullptr;
};

// Arguments in the order of `names`, given by position or by name; null where absent.
// Errors: too many, an unknown name, one given twice, fewer than `required`.
Result<std::vector<const Value*>> Bind(std::string_view function, const Args& args,
                                       std::initializer_list<std::string_view> names, size_t required = 0);

}  // namespace kvasir::chat::jinja
