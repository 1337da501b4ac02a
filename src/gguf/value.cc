#include "gguf/value.h"

#include <array>

namespace kvasir::gguf {
namespace {

struct Row {
  ValueType type;
  std::string_view name;
  size_t min_bytes;
  bool is_integer;
};

// Ordered by id.
constexpr std::array kTypes = {
    Row{ValueType::kUint8, "uint8", 1, true},
    Row{ValueType::kInt8, "int8", 1, true},
    Row{ValueType::kUint16, "uint16", 2, true},
    Row{ValueType::kInt16, "int16", 2, true},
    Row{ValueType::kUint32, "uint32", 4, true},
    Row{ValueType::kInt32, "int32", 4, true},
    Row{ValueType::kFloat32, "float32", 4, false},
    Row{ValueType::kBool, "bool", 1, false},
    Row{ValueType::kString, "string", kStringHeaderBytes, false},
    Row{ValueType::kArray, "array", kArrayHeaderBytes, false},
    Row{ValueType::kUint64, "uint64", 8, true},
    Row{ValueType::kInt64, "int64", 8, true},
    Row{ValueType::kFloat64, "float64", 8, false},
};

const Row& Find(ValueType type) {
  return kTypes[static_cast<uint32_t>(type)];
}

}  // namespace

std::string_view Name(ValueType type) {
  return Find(type).name;
}
size_t MinBytes(ValueType type) {
  return Find(type).min_bytes;
}
bool IsInteger(ValueType type) {
  return Find(type).is_integer;
}

std::optional<ValueType> FindValueType(uint32_t id) {
  if (id >= kTypes.size()) return std::nullopt;
  return kTypes[id].type;
}

Result<ArrayHeader> TakeArrayHeader(Cursor& cursor) {
  uint32_t id = 0;
  ArrayHeader array;
  if (!cursor.Take(id) || !cursor.Take(array.count)) {
    return MakeError(ErrorCode::kCorrupt, "is an array whose header ends beyond the file");
  }
  const std::optional<ValueType> element = FindValueType(id);
  if (!element) return MakeError(ErrorCode::kCorrupt, "is an array of unknown type {}", id);
  array.element = *element;
  return array;
}

Status SkipElements(Cursor& cursor, ArrayHeader array) {
  uint64_t arrays_left[kMaxArrayDepth];  // by depth: arrays inside that are still to be stepped over
  int depth = 0;
  while (true) {
    if (!cursor.Holds(array.count, MinBytes(array.element))) {
      return MakeError(ErrorCode::kCorrupt, "is an array of {} x {} that ends beyond the file", array.count,
                       Name(array.element));
    }
    if (array.element == ValueType::kArray) {
      if (depth == kMaxArrayDepth) {
        return MakeError(ErrorCode::kCorrupt, "nests arrays more than {} deep", kMaxArrayDepth);
      }
      arrays_left[depth++] = array.count;
    } else if (array.element == ValueType::kString) {
      std::string_view text;
      for (uint64_t i = 0; i < array.count; ++i) {
        if (!cursor.TakeString(text)) {
          return MakeError(ErrorCode::kCorrupt, "has a string, number {}, that ends beyond the file", i);
        }
      }
    } else {
      KVASIR_CHECK(cursor.Skip(array.count, MinBytes(array.element)));
    }
    while (depth > 0 && arrays_left[depth - 1] == 0) --depth;
    if (depth == 0) return {};
    --arrays_left[depth - 1];
    KVASIR_ASSIGN_OR_RETURN(array, TakeArrayHeader(cursor));
  }
}

}  // namespace kvasir::gguf
