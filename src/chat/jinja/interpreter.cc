#include "chat/jinja/interpreter.h"

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_text.h"

namespace kvasir::chat::jinja {

const Value* Scope::Find(NameId name) const {
  for (const auto& [id, value] : variables_) {
    if (id == name) return &value;
  }
  return nullptr;
}

void Scope::Set(NameId name, const Value& value) {
  for (auto& [id, held] : variables_) {
    if (id != name) continue;
    held = value;
    return;
  }
  variables_.emplace_back(name, value);
}

// The current scope, for as long as this lives.
class Interpreter::InScope {
 public:
  InScope(Interpreter& interpreter, Scope* scope) : interpreter_(&interpreter), outer_(interpreter.scope_) {
    interpreter.scope_ = scope;
  }
  ~InScope() { interpreter_->scope_ = outer_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Interpreter* interpreter_;
  Scope* outer_;
};

// Collects output, for as long as this lives.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(&interpreter), out_(interpreter.runtime_.heap), outer_(interpreter.out_) {
    interpreter.out_ = &out_;
  }
  ~Capture() { interpreter_->out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Text text() const { return out_.Finish(); }

 private:
  Interpreter* interpreter_;
  TextBuilder out_;
  TextBuilder* outer_;
};

Interpreter::Interpreter(const Program& program, Runtime& runtime)
    : program_(program),
      runtime_(runtime),
      globals_(program.names.size()),
      loop_(FindName("loop")),
      varargs_(FindName("varargs")),
      kwargs_(FindName("kwargs")),
      caller_(FindName("caller")) {
  for (const auto& [name, function] : Globals()) {
    Callable* callable = runtime.heap.NewCallable();
    callable->name = name;
    callable->function = function;
    Define(name, Value(callable));
  }
}

NameId Interpreter::FindName(std::string_view name) const {
  const auto it = std::find(program_.names.begin(), program_.names.end(), name);
  return it == program_.names.end() ? kNoName : static_cast<NameId>(it - program_.names.begin());
}

void Interpreter::Define(std::string_view name, const Value& value) {
  if (const NameId id = FindName(name); id != kNoName) globals_[id] = value;
}

Result<Text> Interpreter::Run() {
  const Capture capture(*this);
  KVASIR_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow, Execute(program_.body));
  if (runtime_.heap.exhausted()) return runtime_.heap.ExhaustedError();
  return capture.text();
}

Scope* Interpreter::NewScope(Scope* parent) {
  runtime_.heap.Charge(sizeof(Scope) + sizeof(std::pair<NameId, Value>));
  return &scopes_.emplace_back(parent);
}

Value Interpreter::Lookup(NameId name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent()) {
    if (const Value* value = scope->Find(name); value != nullptr) return *value;
  }
  Value& global = globals_[name];
  // Remembered, so that looking again costs nothing.
  if (global.is_undefined() && global.undefined() == nullptr) {
    global = runtime_.heap.NewUndefined(program_.names[name]);
  }
  return global;
}

void Interpreter::SetVariable(NameId name, const Value& value) {
  if (name == kNoName) return;
  if (scope_ == nullptr) {
    globals_[name] = value;
  } else {
    scope_->Set(name, value);
  }
}

Status Interpreter::Assign(const Target& target, const Value& value) {
  if (!target.items.empty()) {
    if (!IsIterable(value)) return Fail("cannot unpack non-iterable {} object", TypeName(value));
    KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime_, value));
    if (list->size() != target.items.size()) {
      return Fail("{} values to unpack (expected {}, got {})",
                  list->size() < target.items.size() ? "not enough" : "too many", target.items.size(), list->size());
    }
    for (size_t i = 0; i < target.items.size(); ++i) KVASIR_RETURN_IF_ERROR(Assign(target.items[i], list->at(i)));
    return {};
  }
  if (target.attribute.empty()) {
    SetVariable(target.name, value);
    return {};
  }
  const Value space = Lookup(target.name);
  if (space.space() == nullptr) return Fail("cannot assign attribute on non-namespace object");
  space.space()->attributes.Set(Value(runtime_.heap.NewText(target.attribute)), value);
  return {};
}

Result<Interpreter::Flow> Interpreter::Execute(const Body& body) {
  for (const Stmt& stmt : body) {
    KVASIR_ASSIGN_OR_RETURN(const Flow flow, Execute(stmt));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const Stmt& stmt) {
  const Nesting nesting(runtime_);
  KVASIR_RETURN_IF_ERROR(nesting.Check());
  auto flow = std::visit([this](const auto& node) { return Execute(node); }, stmt.node);
  if (!flow.ok() && flow.error().code() == ErrorCode::kUnsupported && !located_) {
    located_ = true;
    return MakeError(ErrorCode::kUnsupported, "chat template, line {}: {}", stmt.line, flow.error().message());
  }
  return flow;
}

Status Interpreter::Emit(const Text& text) {
  out_->Append(text);
  const size_t limit = runtime_.heap.limits().output_bytes;
  if (out_->size() > limit) {
    return MakeError(ErrorCode::kResourceExhausted, "the chat template writes more than {} bytes", limit);
  }
  return {};
}

Result<Interpreter::Flow> Interpreter::Execute(const Data& node) {
  KVASIR_RETURN_IF_ERROR(Emit(*node.text.text()));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const Output& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime_.heap, value));
  KVASIR_RETURN_IF_ERROR(Emit(text));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const If& node) {
  for (const auto& [test, body] : node.branches) {
    KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*test));
    if (Truthy(value)) return Execute(body);
  }
  return Execute(node.otherwise);
}

Result<Interpreter::Flow> Interpreter::Execute(const For& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*node.iterable));
  return RunLoop(node, iterable, scope_, 1);
}

Result<Interpreter::Flow> Interpreter::RunLoop(const For& node, const Value& iterable, Scope* outer, int depth) {
  KVASIR_ASSIGN_OR_RETURN(const List* items, Iterate(runtime_, iterable));
  if (node.condition != nullptr) {
    std::vector<Value> kept;
    for (size_t i = 0; i < items->size(); ++i) {
      const InScope in_scope(*this, NewScope(outer));
      KVASIR_RETURN_IF_ERROR(Assign(node.target, items->at(i)));
      KVASIR_ASSIGN_OR_RETURN(const Value wanted, Evaluate(*node.condition));
      if (Truthy(wanted)) kept.push_back(items->at(i));
    }
    items = runtime_.heap.NewList(std::move(kept));
  }
  if (items->size() == 0) {
    const InScope in_scope(*this, NewScope(outer));
    return Execute(node.otherwise);
  }
  Loop* loop = runtime_.heap.NewLoop();
  loop->items = items;
  loop->depth = depth;
  loop->statement = node.recursive ? &node : nullptr;
  loop->scope = outer;
  for (size_t i = 0; i < items->size(); ++i) {
    if (!runtime_.heap.Step()) return runtime_.heap.ExhaustedError();
    loop->index = i;
    const InScope in_scope(*this, NewScope(outer));
    SetVariable(loop_, Value(loop));
    KVASIR_RETURN_IF_ERROR(Assign(node.target, items->at(i)));
    KVASIR_ASSIGN_OR_RETURN(const Flow flow, Execute(node.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Text> Interpreter::CaptureBody(const Body& body) {
  const InScope in_scope(*this, NewScope(scope_));
  const Capture capture(*this);
  KVASIR_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow, Execute(body));
  return capture.text();
}

Result<Interpreter::Flow> Interpreter::Execute(const Set& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  KVASIR_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const SetBlock& node) {
  KVASIR_ASSIGN_OR_RETURN(const Text body, CaptureBody(node.body));
  Value value(body);
  if (node.filters != nullptr) {
    captured_ = body;
    KVASIR_ASSIGN_OR_RETURN(value, Evaluate(*node.filters));
  }
  KVASIR_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const FilterBlock& node) {
  KVASIR_ASSIGN_OR_RETURN(captured_, CaptureBody(node.body));
  KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.filters));
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime_.heap, value));
  KVASIR_RETURN_IF_ERROR(Emit(text));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const Macro& node) {
  Callable* callable = runtime_.heap.NewCallable();
  callable->name = node.definition.name;
  callable->macro = &node.definition;
  callable->scope = scope_;
  SetVariable(node.name, Value(callable));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const CallBlock& node) {
  Callable* caller = runtime_.heap.NewCallable();
  caller->name = node.caller.name;
  caller->macro = &node.caller;
  caller->scope = scope_;
  const Call& call = std::get<Call>(node.call->node);
  KVASIR_ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.callee));
  KVASIR_ASSIGN_OR_RETURN(Args args, EvaluateArgs(call.args));
  args.named.emplace_back("caller", Value(caller));
  KVASIR_ASSIGN_OR_RETURN(const Value value, CallValue(callee, args));
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime_.heap, value));
  KVASIR_RETURN_IF_ERROR(Emit(text));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const With& node) {
  Scope* scope = NewScope(scope_);
  for (const auto& [target, expr] : node.variables) {
    // Values see the outer scope, not each other.
    KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr));
    const InScope in_scope(*this, scope);
    KVASIR_RETURN_IF_ERROR(Assign(target, value));
  }
  const InScope in_scope(*this, scope);
  return Execute(node.body);
}

Result<Interpreter::Flow> Interpreter::Execute(const LoopControl& node) {
  return node.stop ? Flow::kBreak : Flow::kContinue;
}

Result<Value> Interpreter::Evaluate(const ExprPtr& expr) {
  if (expr == nullptr) return Value();
  return Evaluate(*expr);
}

Result<Value> Interpreter::Evaluate(const Expr& expr) {
  const Nesting nesting(runtime_);
  KVASIR_RETURN_IF_ERROR(nesting.Check());
  return std::visit([this](const auto& node) { return Evaluate(node); }, expr.node);
}

Result<Value> Interpreter::Evaluate(const Literal& node) {
  return node.value;
}
Result<Value> Interpreter::Evaluate(const Name& node) {
  return Lookup(node.id);
}
Result<Value> Interpreter::Evaluate(const Captured& /*node*/) {
  return Value(captured_);
}

Result<Value> Interpreter::Evaluate(const ListExpr& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExprPtr& expr : node.items) {
    KVASIR_ASSIGN_OR_RETURN(Value item, Evaluate(*expr));
    items.push_back(item);
  }
  return Value(runtime_.heap.NewList(std::move(items), node.tuple ? List::Form::kTuple : List::Form::kList));
}

Result<Value> Interpreter::Evaluate(const DictExpr& node) {
  Dict* dict = runtime_.heap.NewDict();
  runtime_.heap.Charge(node.entries.size() * sizeof(Dict::Entry));
  for (const auto& [key_expr, value_expr] : node.entries) {
    KVASIR_ASSIGN_OR_RETURN(const Value key, Evaluate(*key_expr));
    KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*value_expr));
    if (!Hashable(key)) return Fail("unhashable type: '{}'", TypeName(key));
    dict->Set(key, value);
  }
  return Value(dict);
}

Result<Value> Interpreter::Evaluate(const Attribute& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  return GetAttribute(runtime_, object, node.name);
}

Result<Value> Interpreter::Evaluate(const Subscript& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  KVASIR_ASSIGN_OR_RETURN(const Value index, Evaluate(*node.index));
  return GetItem(runtime_, object, index);
}

Result<Value> Interpreter::Evaluate(const Slice& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  KVASIR_ASSIGN_OR_RETURN(const Value start, Evaluate(node.start));
  KVASIR_ASSIGN_OR_RETURN(const Value stop, Evaluate(node.stop));
  KVASIR_ASSIGN_OR_RETURN(const Value step, Evaluate(node.step));
  return GetSlice(runtime_, object, start, stop, step);
}

Result<Args> Interpreter::EvaluateArgs(const CallArgs& args) {
  Args out;
  out.positional.reserve(args.positional.size());
  for (const ExprPtr& expr : args.positional) {
    KVASIR_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    out.positional.push_back(value);
  }
  for (const auto& [name, expr] : args.named) {
    KVASIR_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    out.named.emplace_back(name, value);
  }
  if (args.star != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(const Value star, Evaluate(*args.star));
    KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime_, star));
    runtime_.heap.Charge(list->size() * sizeof(Value));
    out.positional.insert(out.positional.end(), list->items().begin(), list->items().end());
  }
  if (args.star_star != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(const Value mapping, Evaluate(*args.star_star));
    if (mapping.dict() == nullptr) return Fail("argument after ** must be a mapping, not {}", TypeName(mapping));
    for (const auto& [key, value] : mapping.dict()->entries()) {
      if (key.text() == nullptr) return Fail("keywords must be strings");
      out.named.emplace_back(key.str(), value);
    }
  }
  return out;
}

Result<Value> Interpreter::Evaluate(const Call& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.callee));
  KVASIR_ASSIGN_OR_RETURN(const Args args, EvaluateArgs(node.args));
  return CallValue(callee, args);
}

Result<Value> Interpreter::CallValue(const Value& callee, const Args& args) {
  if (callee.is_undefined()) return UndefinedError(callee);
  if (const Loop* loop = callee.loop(); loop != nullptr) {
    if (loop->statement == nullptr) return Fail("the loop must have the 'recursive' marker to be called");
    KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("loop", args, {"iterable"}, 1));
    const Capture capture(*this);
    const For& node = *static_cast<const For*>(loop->statement);
    KVASIR_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow,
                            RunLoop(node, *bound[0], static_cast<Scope*>(loop->scope), loop->depth + 1));
    return Value(capture.text());
  }
  const Callable* callable = callee.callable();
  if (callable == nullptr) return Fail("'{}' object is not callable", TypeName(callee));
  if (callable->macro != nullptr) return CallMacro(*callable, args);
  return callable->function(runtime_, callable->self, args);
}

Result<Value> Interpreter::CallMacro(const Callable& callable, const Args& args) {
  const MacroDef& macro = *callable.macro;
  const size_t count = macro.parameters.size();
  Scope* scope = NewScope(callable.scope);
  const InScope in_scope(*this, scope);

  Dict* extra = macro.uses_kwargs ? runtime_.heap.NewDict() : nullptr;
  std::vector<const Value*> given(count, nullptr);
  for (size_t i = 0; i < std::min(count, args.positional.size()); ++i) given[i] = &args.positional[i];
  Value caller;
  for (const auto& [name, value] : args.named) {
    const auto it = std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name);
    const auto at = static_cast<size_t>(it - macro.parameter_names.begin());
    if (at < count && given[at] == nullptr) {
      given[at] = &value;
    } else if (at == count && name == "caller" && macro.uses_caller) {
      caller = value;
    } else if (extra != nullptr) {
      extra->Set(Value(runtime_.heap.NewText(name)), value);
    } else {
      return Fail("macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  if (args.positional.size() > count && !macro.uses_varargs) {
    return Fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  if (macro.uses_caller) {
    scope->Set(caller_, caller.is_undefined() ? runtime_.heap.NewUndefined("caller") : caller);
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    if (args.positional.size() > count) {
      rest.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count), args.positional.end());
    }
    scope->Set(varargs_, Value(runtime_.heap.NewList(std::move(rest), List::Form::kTuple)));
  }
  if (extra != nullptr) scope->Set(kwargs_, Value(extra));
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, fallback] = macro.parameters[i];
    Value value;
    if (given[i] != nullptr) {
      value = *given[i];
    } else if (fallback != nullptr) {
      KVASIR_ASSIGN_OR_RETURN(value, Evaluate(*fallback));
    } else {
      value = runtime_.heap.NewUndefined(macro.parameter_names[i]);
    }
    scope->Set(name, value);
  }
  const Capture capture(*this);
  KVASIR_ASSIGN_OR_RETURN([[maybe_unused]] const Flow flow, Execute(macro.body));
  return Value(capture.text());
}

Result<Value> Interpreter::Evaluate(const Filter& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value input, Evaluate(*node.input));
  if (node.function == nullptr) return Fail("no filter named '{}'", node.name);
  KVASIR_ASSIGN_OR_RETURN(const Args args, EvaluateArgs(node.args));
  return node.function(runtime_, input, args);
}

Result<Value> Interpreter::Evaluate(const Test& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value input, Evaluate(*node.input));
  if (node.function == nullptr) return Fail("no test named '{}'", node.name);
  KVASIR_ASSIGN_OR_RETURN(const Args args, EvaluateArgs(node.args));
  return node.function(runtime_, input, args);
}

Result<Value> Interpreter::Evaluate(const Negate& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operand));
  KVASIR_ASSIGN_OR_RETURN(const Value negative, Negative(value));
  return node.plus ? value : negative;
}

Result<Value> Interpreter::Evaluate(const Not& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operand));
  return Value::Bool(!Truthy(value));
}

Result<Value> Interpreter::Evaluate(const Binary& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value left, Evaluate(*node.left));
  KVASIR_ASSIGN_OR_RETURN(const Value right, Evaluate(*node.right));
  return Arithmetic(runtime_, node.op, left, right);
}

Result<Value> Interpreter::Evaluate(const Logical& node) {
  Value value;
  for (const ExprPtr& operand : node.operands) {
    KVASIR_ASSIGN_OR_RETURN(value, Evaluate(*operand));
    if (Truthy(value) != node.conjunction) break;
  }
  return value;
}

Result<Value> Interpreter::Evaluate(const Compare& node) {
  KVASIR_ASSIGN_OR_RETURN(Value left, Evaluate(*node.first));
  for (const auto& [op, expr] : node.rest) {
    KVASIR_ASSIGN_OR_RETURN(const Value right, Evaluate(*expr));
    KVASIR_ASSIGN_OR_RETURN(const bool holds, CompareValues(runtime_, op, left, right));
    if (!holds) return Value::Bool(false);
    left = right;
  }
  return Value::Bool(true);
}

Result<Value> Interpreter::Evaluate(const Concat& node) {
  Text joined;
  for (const ExprPtr& operand : node.operands) {
    KVASIR_ASSIGN_OR_RETURN(const Value value, Evaluate(*operand));
    KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime_.heap, value));
    joined = runtime_.heap.Concat(joined, text).WithMarkup(false);
  }
  return Value(joined);
}

Result<Value> Interpreter::Evaluate(const Conditional& node) {
  KVASIR_ASSIGN_OR_RETURN(const Value test, Evaluate(*node.test));
  return Evaluate(Truthy(test) ? node.then : node.otherwise);
}

}  // namespace kvasir::chat::jinja
