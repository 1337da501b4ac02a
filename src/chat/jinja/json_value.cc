#include "chat/jinja/json_value.h"

#include <limits>

#include "chat/jinja/fail.h"

namespace kvasir::chat::jinja {

Result<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json, Origin origin, int depth) {
  if (depth > kMaxValueDepth) {
    return MakeError(ErrorCode::kInvalidArgument, "JSON nested more than {} levels deep", kMaxValueDepth);
  }
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Value::Bool(*json.get_ptr<const bool*>(), origin);
    case nlohmann::json::value_t::number_integer:
      return Value::Int(*json.get_ptr<const int64_t*>(), origin);
    case nlohmann::json::value_t::number_unsigned: {
      const uint64_t number = *json.get_ptr<const uint64_t*>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Value::Float(static_cast<double>(number), origin);
      }
      return Value::Int(static_cast<int64_t>(number), origin);
    }
    case nlohmann::json::value_t::number_float:
      return Value::Float(*json.get_ptr<const double*>(), origin);
    case nlohmann::json::value_t::string:
      return Value(heap.NewText(*json.get_ptr<const std::string*>(), origin));
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& element : json) {
        KVASIR_ASSIGN_OR_RETURN(Value item, FromJson(heap, element, origin, depth + 1));
        items.push_back(item);
      }
      return Value(heap.NewList(std::move(items), List::Form::kList, origin));
    }
    case nlohmann::json::value_t::object: {
      Dict* dict = heap.NewDict(origin);
      heap.Charge(json.size() * sizeof(Dict::Entry));
      for (const auto& element : json.items()) {
        KVASIR_ASSIGN_OR_RETURN(const Value value, FromJson(heap, element.value(), origin, depth + 1));
        dict->Set(Value(heap.NewText(element.key(), origin)), value);
      }
      return Value(dict);
    }
    case nlohmann::json::value_t::null:
    case nlohmann::json::value_t::binary:
    case nlohmann::json::value_t::discarded:
      break;
  }
  return Value::None(origin);
}

Result<Value> ParseJson(Heap& heap, const Text& text) {
  const auto json = nlohmann::ordered_json::parse(text.view(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Fail("from_json was given text that is not JSON");
  return FromJson(heap, json, text.FirstOrigin());
}

}  // namespace kvasir::chat::jinja
