// base/check.h
// KVASIR_CHECK(condition) and KVASIR_CHECK(condition, "format", ...): a broken invariant of our own code ends the
// process with file, line and sentence. Never on input: bytes from files, clients or the environment give Result
// errors.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace kvasir::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& message);

inline std::string CheckMessage() {
  return {};
}
template <typename... Args>
std::string CheckMessage(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace kvasir::internal

#define KVASIR_CHECK(condition, ...)                                                              \
  (static_cast<bool>(condition) ? static_cast<void>(0)                                            \
                                : ::kvasir::internal::CheckFailed(__FILE__, __LINE__, #condition, \
                                                                  ::kvasir::internal::CheckMessage(__VA_ARGS__)))

#ifdef NDEBUG
#define KVASIR_DCHECK(condition, ...) static_cast<void>(0)
#else
#define KVASIR_DCHECK(condition, ...) KVASIR_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
