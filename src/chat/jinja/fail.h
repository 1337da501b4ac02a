// chat/jinja/fail.h
// What can go wrong in a template, and the error code that says whose fault it is.
//
//   kCorrupt            the template does not parse
//   kInvalidArgument    the template refused the conversation: raise_exception, the message is the template's own
//   kUnsupported        the template failed on this conversation: an undefined value used, a wrong type
//   kResourceExhausted  a limit of the rendering
#pragma once

#include <utility>

#include "base/result.h"

namespace kvasir::chat::jinja {

template <typename... Args>
Error Fail(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}

}  // namespace kvasir::chat::jinja
