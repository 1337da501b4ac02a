#include "cli/json.h"

namespace kvasir::cli {

std::string ToText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string ToLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> ParseJson(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return MakeError(ErrorCode::kInvalidArgument, "{}", error.what());
  }
}

}  // namespace kvasir::cli
