// chat/jinja/ast.h
// The parsed form of a template: statements and expressions as plain data. The parser makes it, the interpreter walks
// it; nobody changes it in between. Names are numbered so that scopes compare integers.
//
// Thread rule: const after parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/jinja/callable.h"
#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

using NameId = uint32_t;
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Stmt;
using Body = std::vector<Stmt>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;  // *args, **kwargs; null when absent
};

struct Literal {
  Value value;
};
struct Name {
  NameId id;
};
struct ListExpr {
  std::vector<ExprPtr> items;
  bool tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object, index;
};
struct Slice {
  ExprPtr object, start, stop, step;  // the last three may be null
};
struct Call {
  ExprPtr callee;
  CallArgs args;
};
// Filters and tests. `function` is null for a name nobody knows: an error only where it is evaluated, as in Jinja.
struct Filter {
  ExprPtr input;
  std::string name;
  Function function;
  CallArgs args;
};
struct Test {
  ExprPtr input;
  std::string name;
  Function function;
  CallArgs args;
};
// The body that {% filter %} or a block {% set %} captured: the innermost input of its filters.
struct Captured {};
struct Negate {
  ExprPtr operand;
  bool plus;
};
struct Not {
  ExprPtr operand;
};
enum class BinaryOp : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};
// a and b and c, or a or b or c: flat, so that a long chain is not deep.
struct Logical {
  bool conjunction;
  std::vector<ExprPtr> operands;
};
enum class CompareOp : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct Compare {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Concat {
  std::vector<ExprPtr> operands;
};
struct Conditional {
  ExprPtr test, then, otherwise;  // otherwise may be null
};

struct Expr {
  std::variant<Literal, Name, ListExpr, DictExpr, Attribute, Subscript, Slice, Call, Filter, Test, Captured, Negate,
               Not, Binary, Logical, Compare, Concat, Conditional>
      node;
  int depth = 1;  // longest path to a leaf, bounded by the parser
};

// What `set`, `for` and `with` assign to: a name, an attribute of a namespace, or several of these.
struct Target {
  NameId name = 0;
  std::string attribute;      // not empty: `name` holds a namespace
  std::vector<Target> items;  // not empty: unpacks
};

struct MacroDef {
  std::string name;
  std::vector<std::pair<NameId, ExprPtr>> parameters;  // default or null
  std::vector<std::string> parameter_names;
  Body body;
  // Which of the implicit variables the body mentions: only then does the macro accept extra arguments.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Data {
  Value text;
};
struct Output {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExprPtr iterable, condition;  // condition may be null
  Body body, otherwise;
  bool recursive = false;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filters;  // over Captured; null: none
  Body body;
};
struct Macro {
  NameId name;
  MacroDef definition;
};
struct CallBlock {
  MacroDef caller;
  ExprPtr call;
};
struct FilterBlock {
  ExprPtr filters;
  Body body;
};
// with, block, autoescape: a body in a scope of its own.
struct With {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Body body;
};
struct LoopControl {
  bool stop;  // break, else continue
};

struct Stmt {
  std::variant<Data, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, LoopControl> node;
  int line = 1;
};

}  // namespace kvasir::chat::jinja
