// cli/base64.h
// Bytes as JSON strings (RFC 4648, padded).
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace kvasir::cli {

std::string ToBase64(std::string_view bytes);

}  // namespace kvasir::cli
