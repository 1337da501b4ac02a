// chat/jinja/json_value.h
// JSON into template values, every text, scalar and container labelled with where it came from.
//
// Thread rule: as Value.
#pragma once

#include <nlohmann/json.hpp>

#include "chat/jinja/heap.h"
#include "chat/jinja/value.h"

namespace kvasir::chat::jinja {

// Errors: kInvalidArgument when nested too deep.
Result<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json, Origin origin, int depth = 0);

// Parses `text`; the values have its first byte's origin. Errors: not JSON.
Result<Value> ParseJson(Heap& heap, const Text& text);

}  // namespace kvasir::chat::jinja
