// chat/jinja/interpreter.h
// Runs a parsed template once.
//
// A tree walk over the syntax tree. Scopes are as in Jinja: loops, macros, `with` and captured blocks have their own,
// `if` has not; what a loop body sets is gone in the next iteration, namespaces are the way to carry state. A macro
// sees the scope it was written in as that scope is when the macro runs. Nothing outside the given variables is
// reachable.
//
// Thread rule: one thread; the Program may be shared.
#pragma once

#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/callable.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/parser.h"

namespace kvasir::chat::jinja {

// Variables set below the top level. The top level itself is the interpreter's array of globals.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}
  Scope* parent() const { return parent_; }
  // Null when not set here.
  const Value* Find(NameId name) const;
  void Set(NameId name, const Value& value);

 private:
  Scope* parent_;  // null: the top level
  std::vector<std::pair<NameId, Value>> variables_;
};

class Interpreter {
 public:
  // Both must outlive the interpreter.
  Interpreter(const Program& program, Runtime& runtime);

  // Defines a global variable.
  void Define(std::string_view name, const Value& value);
  // Errors: fail.h. Messages name the template line, but for those of raise_exception and of limits.
  Result<Text> Run();

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class InScope;
  class Capture;

  Result<Flow> Execute(const Body& body);
  Result<Flow> Execute(const Stmt& stmt);
  Result<Flow> Execute(const Data& node);
  Result<Flow> Execute(const Output& node);
  Result<Flow> Execute(const If& node);
  Result<Flow> Execute(const For& node);
  Result<Flow> Execute(const Set& node);
  Result<Flow> Execute(const SetBlock& node);
  Result<Flow> Execute(const Macro& node);
  Result<Flow> Execute(const CallBlock& node);
  Result<Flow> Execute(const FilterBlock& node);
  Result<Flow> Execute(const With& node);
  Result<Flow> Execute(const LoopControl& node);

  Result<Value> Evaluate(const Expr& expr);
  Result<Value> Evaluate(const ExprPtr& expr);  // null: undefined
  Result<Value> Evaluate(const Literal& node);
  Result<Value> Evaluate(const Name& node);
  Result<Value> Evaluate(const ListExpr& node);
  Result<Value> Evaluate(const DictExpr& node);
  Result<Value> Evaluate(const Attribute& node);
  Result<Value> Evaluate(const Subscript& node);
  Result<Value> Evaluate(const Slice& node);
  Result<Value> Evaluate(const Call& node);
  Result<Value> Evaluate(const Filter& node);
  Result<Value> Evaluate(const Test& node);
  Result<Value> Evaluate(const Captured& node);
  Result<Value> Evaluate(const Negate& node);
  Result<Value> Evaluate(const Not& node);
  Result<Value> Evaluate(const Binary& node);
  Result<Value> Evaluate(const Logical& node);
  Result<Value> Evaluate(const Compare& node);
  Result<Value> Evaluate(const Concat& node);
  Result<Value> Evaluate(const Conditional& node);

  Status Emit(const Text& text);
  Result<Args> EvaluateArgs(const CallArgs& args);
  Result<Value> CallValue(const Value& callee, const Args& args);
  Result<Value> CallMacro(const Callable& callable, const Args& args);
  Result<Flow> RunLoop(const For& node, const Value& iterable, Scope* outer, int depth);
  // The body's output as a text, run in a scope of its own below the current one.
  Result<Text> CaptureBody(const Body& body);

  Scope* NewScope(Scope* parent);
  Value Lookup(NameId name);
  void SetVariable(NameId name, const Value& value);
  Status Assign(const Target& target, const Value& value);
  NameId FindName(std::string_view name) const;  // kNoName when the program never mentions it

  static constexpr NameId kNoName = ~NameId{0};

  const Program& program_;
  Runtime& runtime_;
  std::vector<Value> globals_;  // by NameId
  std::deque<Scope> scopes_;
  Scope* scope_ = nullptr;  // null: the top level
  TextBuilder* out_ = nullptr;
  Text captured_;  // what the filters of a block are applied to
  NameId loop_, varargs_, kwargs_, caller_;
  bool located_ = false;  // the error on its way up already names its line
};

}  // namespace kvasir::chat::jinja
