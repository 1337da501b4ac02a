// gguf/value.h
// The metadata value types as bytes: their sizes, and how to step over a value whose length only its bytes tell.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "gguf/cursor.h"
#include "gguf/gguf_file.h"

namespace kvasir::gguf {

// Arrays of arrays are legal; deeper ones than this are refused. No known file has any.
constexpr int kMaxArrayDepth = 8;

constexpr size_t kStringHeaderBytes = 8;  // length
constexpr size_t kArrayHeaderBytes = 12;  // element type, count

std::optional<ValueType> FindValueType(uint32_t id);

// The smallest number of bytes that a value takes: all of a number's, the header of a string or an array.
size_t MinBytes(ValueType type);

bool IsInteger(ValueType type);

struct ArrayHeader {
  ValueType element = ValueType::kUint8;
  uint64_t count = 0;
};
// The error is the end of a sentence about the value: "is an array of unknown type 77".
Result<ArrayHeader> TakeArrayHeader(Cursor& cursor);

// Steps over `array`'s elements in time linear in their bytes and without recursion. The error is the end of a sentence
// about it.
Status SkipElements(Cursor& cursor, ArrayHeader array);

}  // namespace kvasir::gguf
