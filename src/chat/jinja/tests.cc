#include <algorithm>

#include "chat/jinja/ast.h"
#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_text.h"
#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

using Answer = Result<Value>;

template <Kind kKind>
Answer IsKind(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(self.kind() == kKind);
}

Answer IsDefined(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(!self.is_undefined());
}

template <bool kExpected>
Answer IsBool(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(self.boolean() != nullptr && *self.boolean() == kExpected);
}

Answer IsNumber(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(self.is_number());
}

Answer IsSequence(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(self.is_undefined() || self.text() != nullptr || self.dict() != nullptr ||
                     (self.list() != nullptr && self.list()->indexed()));
}

Answer IsIterableTest(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(IsIterable(self) || self.loop() != nullptr);
}

Answer IsCallable(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(self.callable() != nullptr || self.loop() != nullptr);
}

Answer IsEscaped(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(self.text() != nullptr && self.text()->markup());
}

Result<int64_t> Remainder(Runtime& runtime, const Value& self, const Value& divisor) {
  KVASIR_ASSIGN_OR_RETURN(const Value rest, Arithmetic(runtime, BinaryOp::kModulo, self, divisor));
  if (!rest.is_number()) return Fail("a number is needed, not {}", TypeName(self));
  // Only 0 and 1 are told apart; any other float is neither.
  return rest.IsIntLike() ? rest.AsInt() : rest.AsDouble() == 0 ? 0 : rest.AsDouble() == 1 ? 1 : 2;
}

template <int64_t kRest>
Answer HasParity(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const int64_t rest, Remainder(runtime, self, Value::Int(2)));
  return Value::Bool(rest == kRest);
}

Answer IsDivisibleBy(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("divisibleby", args, {"num"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const int64_t rest, Remainder(runtime, self, *bound[0]));
  return Value::Bool(rest == 0);
}

template <bool kUpper>
Answer IsCase(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  const std::string_view bytes = text.view();
  bool cased = false;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = DecodeAt(bytes, at);
    at += point.size;
    const bool upper = ToLower(point.value) != point.value, lower = ToUpper(point.value) != point.value;
    if (kUpper ? lower : upper) return Value::Bool(false);
    cased |= upper || lower;
  }
  return Value::Bool(cased);
}

template <CompareOp kOp>
Answer Compares(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("a comparison", args, {"other"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const bool holds, CompareValues(runtime, kOp, self, *bound[0]));
  return Value::Bool(holds);
}

Answer IsSameAs(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("sameas", args, {"other"}, 1));
  const Value& other = *bound[0];
  if (self.list() != nullptr || self.dict() != nullptr) {
    return Value::Bool(self.list() == other.list() && self.dict() == other.dict());
  }
  return Value::Bool(self.kind() == other.kind() && Equals(self, other));
}

Answer IsFilter(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(FindFilter(self.str()) != nullptr);
}

Answer IsTest(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  return Value::Bool(FindTest(self.str()) != nullptr);
}

constexpr std::pair<std::string_view, Function> kTests[] = {
    {"!=", Compares<CompareOp::kNotEqual>},
    {"<", Compares<CompareOp::kLess>},
    {"<=", Compares<CompareOp::kLessEqual>},
    {"==", Compares<CompareOp::kEqual>},
    {">", Compares<CompareOp::kGreater>},
    {">=", Compares<CompareOp::kGreaterEqual>},
    {"boolean", IsKind<Kind::kBool>},
    {"callable", IsCallable},
    {"defined", IsDefined},
    {"divisibleby", IsDivisibleBy},
    {"eq", Compares<CompareOp::kEqual>},
    {"equalto", Compares<CompareOp::kEqual>},
    {"escaped", IsEscaped},
    {"even", HasParity<0>},
    {"false", IsBool<false>},
    {"filter", IsFilter},
    {"float", IsKind<Kind::kFloat>},
    {"ge", Compares<CompareOp::kGreaterEqual>},
    {"greaterthan", Compares<CompareOp::kGreater>},
    {"gt", Compares<CompareOp::kGreater>},
    {"in", Compares<CompareOp::kIn>},
    {"integer", IsKind<Kind::kInt>},
    {"iterable", IsIterableTest},
    {"le", Compares<CompareOp::kLessEqual>},
    {"lessthan", Compares<CompareOp::kLess>},
    {"lower", IsCase<false>},
    {"lt", Compares<CompareOp::kLess>},
    {"mapping", IsKind<Kind::kDict>},
    {"ne", Compares<CompareOp::kNotEqual>},
    {"none", IsKind<Kind::kNone>},
    {"number", IsNumber},
    {"odd", HasParity<1>},
    {"sameas", IsSameAs},
    {"sequence", IsSequence},
    {"string", IsKind<Kind::kText>},
    {"test", IsTest},
    {"true", IsBool<true>},
    {"undefined", IsKind<Kind::kUndefined>},
    {"upper", IsCase<true>},
};

}  // namespace

Function FindTest(std::string_view name) {
  const auto* const it = std::lower_bound(std::begin(kTests), std::end(kTests), name,
                                          [](const auto& entry, std::string_view key) { return entry.first < key; });
  return it != std::end(kTests) && it->first == name ? it->second : nullptr;
}

}  // namespace kvasir::chat::jinja
