#include "chat/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/python_text.h"
#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

std::string_view Symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
    case BinaryOp::kPower:
      return "** or pow()";
  }
  return "?";
}

Error Unsupported(BinaryOp op, const Value& a, const Value& b) {
  return Fail("unsupported operand type(s) for {}: '{}' and '{}'", Symbol(op), TypeName(a), TypeName(b));
}
Error Overflow() {
  return Fail("an integer grew past 64 bits");
}

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Fail("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value::Int(result);
}

Result<Value> IntegerArithmetic(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return Overflow();
      return Value::Int(result);
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return Overflow();
      return Value::Int(result);
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return Overflow();
      return Value::Int(result);
    case BinaryOp::kDivide:
      if (b == 0) return Fail("division by zero");
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo: {
      if (b == 0) return Fail("integer division or modulo by zero");
      if (b == -1) {  // the quotient of the lowest integer has no representation
        if (op == BinaryOp::kModulo) return Value::Int(0);
        return a == std::numeric_limits<int64_t>::min() ? Result<Value>(Overflow()) : Value::Int(-a);
      }
      const int64_t remainder = a % b;
      const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
      if (op == BinaryOp::kModulo) return Value::Int(adjust ? remainder + b : remainder);
      return Value::Int(a / b - (adjust ? 1 : 0));
    }
    case BinaryOp::kPower:
      return IntegerPower(a, b);
  }
  return Overflow();
}

Result<Value> FloatArithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(a + b);
    case BinaryOp::kSubtract:
      return Value::Float(a - b);
    case BinaryOp::kMultiply:
      return Value::Float(a * b);
    case BinaryOp::kPower:
      return Value::Float(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return Fail("float division by zero");
  if (op == BinaryOp::kDivide) return Value::Float(a / b);
  if (op == BinaryOp::kFloorDivide) return Value::Float(std::floor(a / b));
  const double remainder = std::fmod(a, b);
  return Value::Float(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

Result<Value> AddTexts(Heap& heap, const Text& a, const Text& b) {
  if (a.markup() == b.markup()) return Value(heap.Concat(a, b).WithMarkup(a.markup()));
  const Text left = a.markup() ? a : EscapeHtml(heap, a);
  const Text right = b.markup() ? b : EscapeHtml(heap, b);
  return Value(heap.Concat(left, right).WithMarkup(true));
}

Result<Value> Repeat(Runtime& runtime, const Value& sequence, int64_t count) {
  if (const Text* text = sequence.text(); text != nullptr) {
    TextBuilder out(runtime.heap);
    for (int64_t i = 0; i < count && !text->empty() && runtime.heap.Step(); ++i) out.Append(*text);
    return Value(out.Finish().WithMarkup(text->markup()));
  }
  const List& list = *sequence.list();
  std::vector<Value> items;
  for (int64_t i = 0; i < count && list.size() > 0; ++i) {
    if (!runtime.heap.Charge(list.size() * sizeof(Value))) break;
    items.insert(items.end(), list.items().begin(), list.items().end());
  }
  return Value(runtime.heap.NewList(std::move(items), list.form));
}

bool IsSequence(const Value& value) {
  return value.text() != nullptr || (value.list() != nullptr && (value.list()->form == List::Form::kList ||
                                                                 value.list()->form == List::Form::kTuple));
}

Result<Value> LoopAttribute(Runtime& runtime, const Value& value, std::string_view name) {
  const Loop& loop = *value.loop();
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items->size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop.depth);
  if (name == "depth0") return Value::Int(loop.depth - 1);
  if (name == "previtem") {
    return index > 0 ? loop.items->at(loop.index - 1) : runtime.heap.NewUndefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? loop.items->at(loop.index + 1) : runtime.heap.NewUndefined("there is no next item");
  }
  return Value();
}

Value Bound(Runtime& runtime, const Value& self, std::string_view name, Function function) {
  Callable* callable = runtime.heap.NewCallable();
  callable->name = name;
  callable->function = function;
  callable->self = self;
  return Value(callable);
}

std::string ObjectName(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", TypeName(value));
}

// The method of that name, bound; undefined without a reason when there is none.
Value MethodOf(Runtime& runtime, const Value& value, std::string_view name) {
  const Method method = FindMethod(value, name);
  if (method.function == nullptr) return Value();
  if (method.changes && !runtime.extensions) return runtime.heap.NewUndefined(name, TypeName(value), /*unsafe=*/true);
  // The name may live in a growing text; the table's would do, but only the message of a wrong call needs it.
  return Bound(runtime, value, "method", method.function);
}

struct Bounds {
  int64_t start, stop, step;
};

// Python's slice.indices(length).
Result<Bounds> ResolveSlice(const Value& start, const Value& stop, const Value& step, int64_t length) {
  const auto absent = [](const Value& value) { return value.is_undefined() || value.is_none(); };
  Bounds bounds{0, 0, 1};
  if (!absent(step)) {
    KVASIR_ASSIGN_OR_RETURN(bounds.step, ToIndex(step));
    if (bounds.step == 0) return Fail("slice step cannot be zero");
  }
  const bool down = bounds.step < 0;
  const auto clamp = [&](int64_t at) {
    if (at < 0) at = at < -length ? -1 - length : at;
    if (at < 0) at += length;
    return std::clamp<int64_t>(at, down ? -1 : 0, down ? length - 1 : length);
  };
  bounds.start = down ? length - 1 : 0;
  bounds.stop = down ? -1 : length;
  if (!absent(start)) {
    KVASIR_ASSIGN_OR_RETURN(const int64_t at, ToIndex(start));
    bounds.start = clamp(at);
  }
  if (!absent(stop)) {
    KVASIR_ASSIGN_OR_RETURN(const int64_t at, ToIndex(stop));
    bounds.stop = clamp(at);
  }
  return bounds;
}

template <typename Fn>
void ForEachIndex(const Bounds& bounds, Fn fn) {
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;) {
    fn(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, bounds.step, &i)) break;
  }
}

}  // namespace

Result<int64_t> ToIndex(const Value& value) {
  if (value.IsIntLike()) return value.AsInt();
  if (value.is_undefined()) return UndefinedError(value);
  return Fail("an integer is needed, not {}", TypeName(value));
}

bool Hashable(const Value& value) {
  if (value.list() != nullptr && value.list()->form == List::Form::kTuple) {
    const auto items = value.list()->items();
    // Tuples of tuples are not worth the recursion.
    return std::all_of(items.begin(), items.end(),
                       [](const Value& item) { return item.list() == nullptr && item.dict() == nullptr; });
  }
  return value.list() == nullptr && value.dict() == nullptr;
}

Result<Value> Arithmetic(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_undefined()) return UndefinedError(left);
  if (op == BinaryOp::kModulo && left.text() != nullptr) return PercentFormat(runtime, *left.text(), right);
  if (right.is_undefined()) return UndefinedError(right);
  if (left.is_number() && right.is_number()) {
    if (left.IsIntLike() && right.IsIntLike()) return IntegerArithmetic(op, left.AsInt(), right.AsInt());
    return FloatArithmetic(op, left.AsDouble(), right.AsDouble());
  }
  if (op == BinaryOp::kAdd && IsSequence(left)) {
    if (left.text() != nullptr && right.text() != nullptr) return AddTexts(runtime.heap, *left.text(), *right.text());
    if (left.list() != nullptr && right.list() != nullptr && left.list()->form == right.list()->form) {
      return Value(runtime.heap.Concat(*left.list(), right.list()->items()));
    }
    return Fail("can only concatenate {0} (not \"{1}\") to {0}", TypeName(left), TypeName(right));
  }
  if (op == BinaryOp::kMultiply) {
    if (IsSequence(left) && right.IsIntLike()) return Repeat(runtime, left, right.AsInt());
    if (IsSequence(right) && left.IsIntLike()) return Repeat(runtime, right, left.AsInt());
    if (IsSequence(left)) return Fail("can't multiply sequence by non-int of type '{}'", TypeName(right));
  }
  return Unsupported(op, left, right);
}

Result<Value> Negative(const Value& value) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.real() != nullptr) return Value::Float(-*value.real());
  if (!value.is_number()) return Fail("bad operand type for unary -: '{}'", TypeName(value));
  return IntegerArithmetic(BinaryOp::kSubtract, 0, value.AsInt());
}

Result<bool> CompareValues(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEqual:
    case CompareOp::kNotEqual:
      if (left.text() != nullptr) runtime.heap.Walk(left.text()->size());
      return Equals(left, right) == (op == CompareOp::kEqual);
    case CompareOp::kLess:
      return Less(left, right);
    case CompareOp::kGreater:
      return Less(right, left);
    case CompareOp::kLessEqual:
    case CompareOp::kGreaterEqual: {
      const bool less_equal = op == CompareOp::kLessEqual;
      KVASIR_ASSIGN_OR_RETURN(const bool less, less_equal ? Less(left, right) : Less(right, left));
      return less || Equals(left, right);
    }
    case CompareOp::kIn:
      return Contains(runtime, right, left);
    case CompareOp::kNotIn: {
      KVASIR_ASSIGN_OR_RETURN(const bool contained, Contains(runtime, right, left));
      return !contained;
    }
  }
  return false;
}

Result<bool> Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.text() != nullptr) {
    if (item.text() == nullptr) return Fail("'in <string>' requires string as left operand, not {}", TypeName(item));
    runtime.heap.Walk(container.text()->size());
    return container.str().find(item.str()) != std::string_view::npos;
  }
  if (container.dict() != nullptr) {
    if (!Hashable(item)) return Fail("unhashable type: '{}'", TypeName(item));
    return container.dict()->Find(item) != nullptr;
  }
  if (!IsIterable(container)) return Fail("argument of type '{}' is not iterable", TypeName(container));
  KVASIR_ASSIGN_OR_RETURN(const List* list, Iterate(runtime, container));
  runtime.heap.Step(list->size());
  const auto items = list->items();
  return std::any_of(items.begin(), items.end(), [&](const Value& other) { return Equals(other, item); });
}

Result<Value> GetAttribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) return UndefinedError(value);
  Value found;
  if (value.space() != nullptr) {
    if (const Value* attribute = value.space()->attributes.Find(name); attribute != nullptr) return *attribute;
  } else if (value.loop() != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(found, LoopAttribute(runtime, value, name));
  } else if (value.callable() != nullptr && name == "name") {
    return Value(runtime.heap.NewText(value.callable()->name));
  }
  if (found.is_undefined() && found.undefined() == nullptr) found = MethodOf(runtime, value, name);
  if (!found.is_undefined() || found.undefined() != nullptr) return found;
  if (value.dict() != nullptr) {
    if (const Value* entry = value.dict()->Find(name); entry != nullptr) return *entry;
  }
  return runtime.heap.NewUndefined(name, ObjectName(value));
}

Result<Value> GetItem(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.dict() != nullptr && Hashable(key)) {
    if (const Value* entry = value.dict()->Find(key); entry != nullptr) return *entry;
  }
  if (key.IsIntLike() && value.list() != nullptr && value.list()->indexed()) {
    const List& list = *value.list();
    int64_t at = key.AsInt();
    if (at < 0) at += static_cast<int64_t>(list.size());
    if (at >= 0 && at < static_cast<int64_t>(list.size())) return list.at(static_cast<size_t>(at));
  }
  if (key.IsIntLike() && value.text() != nullptr) {
    const Text& text = *value.text();
    if (!text.ascii()) runtime.heap.Walk(text.size());
    const auto length = static_cast<int64_t>(text.Length());
    int64_t at = key.AsInt();
    if (at < 0) at += length;
    if (at >= 0 && at < length) {
      const size_t begin = text.OffsetOf(static_cast<size_t>(at));
      return Value(text.Sub(begin, begin + DecodeAt(text.view(), begin).size));
    }
  }
  if (key.text() != nullptr) {
    if (value.space() != nullptr || value.loop() != nullptr) return GetAttribute(runtime, value, key.str());
    const Value method = MethodOf(runtime, value, key.str());
    if (!method.is_undefined() || method.undefined() != nullptr) return method;
  }
  KVASIR_ASSIGN_OR_RETURN(const Text name, Str(runtime.heap, key));
  return runtime.heap.NewUndefined(name.view(), ObjectName(value));
}

Result<Value> GetSlice(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) return UndefinedError(value);
  Heap& heap = runtime.heap;
  if (const List* list = value.list(); list != nullptr && list->indexed()) {
    KVASIR_ASSIGN_OR_RETURN(const Bounds bounds, ResolveSlice(start, stop, step, static_cast<int64_t>(list->size())));
    std::vector<Value> items;
    ForEachIndex(bounds, [&](size_t i) { items.push_back(list->at(i)); });
    return Value(heap.NewList(std::move(items), list->form, list->origin));
  }
  if (const Text* text = value.text(); text != nullptr) {
    if (!text->ascii()) heap.Walk(text->size());
    KVASIR_ASSIGN_OR_RETURN(const Bounds bounds, ResolveSlice(start, stop, step, static_cast<int64_t>(text->Length())));
    if (bounds.step == 1) {
      const size_t begin = text->OffsetOf(static_cast<size_t>(bounds.start));
      const size_t end = text->OffsetOf(static_cast<size_t>(std::max(bounds.start, bounds.stop)));
      return Value(text->Sub(begin, end));
    }
    std::vector<uint32_t> offsets;
    const std::string_view bytes = text->view();
    for (size_t at = 0; at < bytes.size(); at += DecodeAt(bytes, at).size) offsets.push_back(static_cast<uint32_t>(at));
    offsets.push_back(static_cast<uint32_t>(bytes.size()));
    heap.Step(offsets.size());
    TextBuilder out(heap);
    ForEachIndex(bounds, [&](size_t i) { out.Append(text->Sub(offsets[i], offsets[i + 1])); });
    return Value(out.Finish().WithMarkup(text->markup()));
  }
  return Fail("'{}' object is not subscriptable", TypeName(value));
}

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr;
}

Result<const List*> Iterate(Runtime& runtime, const Value& value) {
  Heap& heap = runtime.heap;
  if (List* list = value.list(); list != nullptr) {
    if (list->form != List::Form::kGenerator) return static_cast<const List*>(list);
    List* rest = heap.NewList({});
    *rest = *list;
    list->count = 0;
    return static_cast<const List*>(rest);
  }
  std::vector<Value> items;
  if (const Dict* dict = value.dict(); dict != nullptr) {
    for (const auto& entry : dict->entries()) items.push_back(entry.first);
  } else if (const Text* text = value.text(); text != nullptr) {
    if (!heap.Step(text->size())) return heap.ExhaustedError();
    const std::string_view bytes = text->view();
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = DecodeAt(bytes, at).size;
      items.emplace_back(text->Sub(at, at + size));
      at += size;
    }
  } else if (!value.is_undefined()) {
    return Fail("'{}' object is not iterable", TypeName(value));
  }
  return static_cast<const List*>(heap.NewList(std::move(items)));
}

Result<int64_t> LengthOf(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return int64_t{0};
  if (value.text() != nullptr) {
    if (!value.text()->ascii()) runtime.heap.Walk(value.text()->size());
    return static_cast<int64_t>(value.text()->Length());
  }
  if (value.dict() != nullptr) return static_cast<int64_t>(value.dict()->size());
  if (value.loop() != nullptr) return static_cast<int64_t>(value.loop()->items->size());
  if (value.list() != nullptr && value.list()->form != List::Form::kGenerator) {
    return static_cast<int64_t>(value.list()->size());
  }
  return Fail("object of type '{}' has no len()", TypeName(value));
}

}  // namespace kvasir::chat::jinja
