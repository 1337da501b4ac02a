// cli/json.h
// The one place of this folder that calls the throwing parts of nlohmann::json.
//
// Thread rule: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::cli {

using Json = nlohmann::ordered_json;  // keys stay in the order they are written

// Indented by two. Bytes that are not UTF-8 become U+FFFD.
std::string ToText(const Json& json);
// On one line.
std::string ToLine(const Json& json);
// kInvalidArgument with the position of the first error.
Result<Json> ParseJson(std::string_view text);

}  // namespace kvasir::cli
