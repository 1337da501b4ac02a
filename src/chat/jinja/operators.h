// chat/jinja/operators.h
// What operators, subscripts and loops do to values, with Python's rules and its error sentences.
//
// Thread rule: as Value.
#pragma once

#include <string_view>

#include "chat/jinja/ast.h"
#include "chat/jinja/callable.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

Result<Value> Arithmetic(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);
Result<Value> Negative(const Value& value);
Result<bool> CompareValues(Runtime& runtime, CompareOp op, const Value& left, const Value& right);
Result<bool> Contains(Runtime& runtime, const Value& container, const Value& item);

// value.name: methods come before dict keys, as in Jinja. A missing one is undefined, not an error; using an undefined
// value is.
Result<Value> GetAttribute(Runtime& runtime, const Value& value, std::string_view name);
// value[key]: keys come before methods.
Result<Value> GetItem(Runtime& runtime, const Value& value, const Value& key);
// value[start:stop:step]; undefined or none bounds are absent ones.
Result<Value> GetSlice(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step);

// What a for loop runs over: items, keys, characters. A generator is used up. Errors: not iterable.
Result<const List*> Iterate(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// len(value)
Result<int64_t> LengthOf(Runtime& runtime, const Value& value);

// The index a value denotes. Errors: not an integer.
Result<int64_t> ToIndex(const Value& value);
// Whether a dict can have it as a key.
bool Hashable(const Value& value);

}  // namespace kvasir::chat::jinja
