#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "gguf/contents.h"
#include "gguf/gguf_file.h"
#include "gguf/text.h"
#include "gguf/value.h"

namespace kvasir::gguf {
namespace {

constexpr int64_t kMaxLayers = 65536;

// Calls visit(T{}) with the C++ type of an integer or bool value (the latter's byte as it is).
template <typename Visit>
auto WithIntegerType(ValueType type, Visit visit) {
  switch (type) {
    case ValueType::kInt8:
      return visit(int8_t{});
    case ValueType::kUint16:
      return visit(uint16_t{});
    case ValueType::kInt16:
      return visit(int16_t{});
    case ValueType::kUint32:
      return visit(uint32_t{});
    case ValueType::kInt32:
      return visit(int32_t{});
    case ValueType::kUint64:
      return visit(uint64_t{});
    case ValueType::kInt64:
      return visit(int64_t{});
    default:
      return visit(uint8_t{});
  }
}

template <typename T>
T TakeValid(Cursor& cursor) {
  T value{};
  KVASIR_CHECK(cursor.Take(value));  // its range was tested when the file was opened
  return value;
}

std::string_view TakeValidString(Cursor& cursor) {
  std::string_view text;
  KVASIR_CHECK(cursor.TakeString(text));
  return text;
}

ArrayHeader TakeValidArrayHeader(Cursor& cursor) {
  const auto id = TakeValid<uint32_t>(cursor);
  return {static_cast<ValueType>(id), TakeValid<uint64_t>(cursor)};
}

// The numbers of an array of integers or bools. The error is the end of a sentence about it.
Result<std::vector<int64_t>> TakeInts(Cursor cursor, ValueType type, uint64_t count) {
  return WithIntegerType(type, [&](auto tag) -> Result<std::vector<int64_t>> {
    using T = decltype(tag);
    std::vector<int64_t> values(static_cast<size_t>(count));
    bool fits = true;
    for (int64_t& value : values) {
      const T number = TakeValid<T>(cursor);
      if constexpr (std::is_same_v<T, uint64_t>) fits = fits && std::in_range<int64_t>(number);
      value = static_cast<int64_t>(number);
      if (type == ValueType::kBool) fits = fits && number <= 1;
    }
    if (!fits) return MakeError(ErrorCode::kCorrupt, "has a {} that is out of range", Name(type));
    return values;
  });
}

std::string Describe(const MetadataEntry& entry) {
  if (entry.type == ValueType::kArray) return fmt::format("array of {} x {}", entry.count, Name(entry.element_type));
  return std::string(Name(entry.type));
}

void AppendText(std::string& text, Cursor& cursor, ValueType type, size_t max_elements);

void AppendElements(std::string& text, Cursor& cursor, ArrayHeader array, size_t max_elements) {
  text += '[';
  for (uint64_t i = 0; i < std::min<uint64_t>(array.count, max_elements); ++i) {
    if (i > 0) text += ", ";
    AppendText(text, cursor, array.element, max_elements);
  }
  if (array.count > max_elements) {
    fmt::format_to(std::back_inserter(text), "{}... {} in all", max_elements > 0 ? ", " : "", array.count);
    KVASIR_CHECK(SkipElements(cursor, {array.element, array.count - max_elements}).ok());
  }
  text += ']';
}

// Recursion ends at kMaxArrayDepth, which was tested when the file was opened.
void AppendText(std::string& text, Cursor& cursor, ValueType type, size_t max_elements) {
  const auto out = std::back_inserter(text);
  switch (type) {
    case ValueType::kString:
      fmt::format_to(out, "\"{}\"", Printable(TakeValidString(cursor), std::string::npos));
      return;
    case ValueType::kArray: {
      const ArrayHeader array = TakeValidArrayHeader(cursor);
      AppendElements(text, cursor, array, max_elements);
      return;
    }
    case ValueType::kBool:
      text += TakeValid<uint8_t>(cursor) != 0 ? "true" : "false";
      return;
    case ValueType::kFloat32:
      fmt::format_to(out, "{}", TakeValid<float>(cursor));
      return;
    case ValueType::kFloat64:
      fmt::format_to(out, "{}", TakeValid<double>(cursor));
      return;
    default:
      WithIntegerType(type, [&](auto tag) { fmt::format_to(out, "{}", TakeValid<decltype(tag)>(cursor)); });
  }
}

}  // namespace

const MetadataEntry* GgufFile::Find(std::string_view key) const {
  const std::vector<uint32_t>& order = contents_->metadata_by_key;
  const auto it = std::lower_bound(order.begin(), order.end(), key, [this](uint32_t i, std::string_view wanted) {
    return contents_->metadata[i].key < wanted;
  });
  if (it == order.end() || contents_->metadata[*it].key != key) return nullptr;
  return &contents_->metadata[*it];
}

Error GgufFile::KeyError(std::string_view key, std::string_view what) const {
  return MakeError(ErrorCode::kCorrupt, "{}: key {} {}", contents_->path, Printable(key), what);
}

Error GgufFile::Missing(std::string_view key) const {
  return MakeError(ErrorCode::kNotFound, "{}: key {} is missing", contents_->path, Printable(key));
}

bool GgufFile::Has(std::string_view key) const {
  return Find(key) != nullptr;
}

Result<int64_t> GgufFile::GetInt(std::string_view key, int64_t min, int64_t max) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  if (!IsInteger(entry->type)) return KeyError(key, fmt::format("is of type {}, not an integer", Describe(*entry)));
  Cursor cursor = contents_->At(*entry);
  return WithIntegerType(entry->type, [&](auto tag) -> Result<int64_t> {
    const auto value = TakeValid<decltype(tag)>(cursor);
    if (std::cmp_less(value, min) || std::cmp_greater(value, max)) {
      if (min == max) return KeyError(key, fmt::format("is {}, not {}", value, min));
      return KeyError(key, fmt::format("is {}, outside {} to {}", value, min, max));
    }
    return static_cast<int64_t>(value);
  });
}

Result<int64_t> GgufFile::GetIntOr(std::string_view key, int64_t fallback, int64_t min, int64_t max) const {
  if (!Has(key)) return fallback;
  return GetInt(key, min, max);
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  Cursor cursor = contents_->At(*entry);
  double value = 0;
  if (entry->type == ValueType::kFloat32) {
    value = double{TakeValid<float>(cursor)};
  } else if (entry->type == ValueType::kFloat64) {
    value = TakeValid<double>(cursor);
  } else {
    return KeyError(key, fmt::format("is of type {}, not a float", Describe(*entry)));
  }
  if (!std::isfinite(value)) return KeyError(key, fmt::format("is {}, not a finite number", value));
  return value;
}

Result<double> GgufFile::GetFloatOr(std::string_view key, double fallback) const {
  if (!Has(key)) return fallback;
  return GetFloat(key);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return fallback;
  if (entry->type != ValueType::kBool) return KeyError(key, fmt::format("is of type {}, not a bool", Describe(*entry)));
  Cursor cursor = contents_->At(*entry);
  const auto value = TakeValid<uint8_t>(cursor);
  if (value > 1) return KeyError(key, fmt::format("is a bool of value {}", value));
  return value == 1;
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  if (entry->type != ValueType::kString) {
    return KeyError(key, fmt::format("is of type {}, not a string", Describe(*entry)));
  }
  Cursor cursor = contents_->At(*entry);
  return TakeValidString(cursor);
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key, std::string_view fallback) const {
  if (!Has(key)) return fallback;
  return GetString(key);
}

Result<std::vector<std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  if (entry->type != ValueType::kArray || entry->element_type != ValueType::kString) {
    return KeyError(key, fmt::format("is of type {}, not an array of strings", Describe(*entry)));
  }
  Cursor cursor = contents_->At(*entry);
  std::vector<std::string_view> values(static_cast<size_t>(entry->count));
  for (std::string_view& value : values) value = TakeValidString(cursor);
  return values;
}

Result<std::vector<int64_t>> GgufFile::GetInts(std::string_view key) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  if (entry->type != ValueType::kArray ||
      (!IsInteger(entry->element_type) && entry->element_type != ValueType::kBool)) {
    return KeyError(key, fmt::format("is of type {}, not an array of integers", Describe(*entry)));
  }
  Result<std::vector<int64_t>> values = TakeInts(contents_->At(*entry), entry->element_type, entry->count);
  if (!values.ok()) return KeyError(key, values.error().message());
  return values;
}

Result<std::vector<float>> GgufFile::GetFloats(std::string_view key) const {
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  if (entry->type != ValueType::kArray || entry->element_type != ValueType::kFloat32) {
    return KeyError(key, fmt::format("is of type {}, not an array of float32", Describe(*entry)));
  }
  Cursor cursor = contents_->At(*entry);
  std::vector<float> values(static_cast<size_t>(entry->count));
  for (float& value : values) value = TakeValid<float>(cursor);
  const auto odd = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (odd != values.end()) {
    return KeyError(key, fmt::format("has {} at {}, not a finite number", *odd, odd - values.begin()));
  }
  return values;
}

Result<std::vector<int64_t>> GgufFile::GetIntPerLayer(std::string_view key, int64_t count, int64_t min,
                                                      int64_t max) const {
  if (count < 0 || count > kMaxLayers) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: key {} is asked for {} layers; {} is the limit", contents_->path,
                     Printable(key), count, kMaxLayers);
  }
  const MetadataEntry* entry = Find(key);
  if (entry == nullptr) return Missing(key);
  if (entry->type != ValueType::kArray) {
    KVASIR_ASSIGN_OR_RETURN(const int64_t value, GetInt(key, min, max));
    return std::vector<int64_t>(static_cast<size_t>(count), value);
  }
  if (entry->count != static_cast<uint64_t>(count)) {
    return KeyError(key, fmt::format("has {} values for {} layers", entry->count, count));
  }
  KVASIR_ASSIGN_OR_RETURN(std::vector<int64_t> values, GetInts(key));
  const auto odd =
      std::find_if(values.begin(), values.end(), [=](int64_t value) { return value < min || value > max; });
  if (odd != values.end()) {
    return KeyError(key, fmt::format("is {} for layer {}, outside {} to {}", *odd, odd - values.begin(), min, max));
  }
  return values;
}

std::string GgufFile::ToText(const MetadataEntry& entry, size_t max_elements) const {
  std::string text;
  Cursor cursor = contents_->At(entry);
  if (entry.type == ValueType::kArray) {
    AppendElements(text, cursor, {entry.element_type, entry.count}, max_elements);
  } else {
    AppendText(text, cursor, entry.type, max_elements);
  }
  return text;
}

}  // namespace kvasir::gguf
