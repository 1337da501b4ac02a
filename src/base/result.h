// base/result.h
// Expected failure as a value: Result<T> is a T or an Error, Status is success or an Error.
//
// Anything that input can cause (a file, a flag, a client, the environment) is an Error with a sentence that names the
// offending value; a broken invariant of our own is a KVASIR_CHECK (base/check.h). Nothing in src/ throws.
//
// Thread rule: plain values.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace kvasir {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is wrong: a flag, a key of a file, a field of a request
  kNotFound,           // a file, tensor or key that should be there is not
  kCorrupt,            // bytes that do not parse or do not verify
  kUnsupported,        // well formed, but this build cannot do it
  kResourceExhausted,  // memory, pages or disk are used up
  kIo,                 // the operating system refused
  kCancelled,          // somebody asked us to stop
};

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_;
  std::string message_;
};

// MakeError(ErrorCode::kNotFound, "no tensor {} in {}", name, path)
template <typename... Args>
Error MakeError(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & {
    KVASIR_CHECK(ok(), "{}", error().message());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    KVASIR_CHECK(ok(), "{}", error().message());
    return *std::get_if<0>(&state_);
  }
  // By value, so that what a temporary Result held outlives it: for (auto x : *file.GetInts(key)).
  T value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // REQUIRES: !ok().
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace kvasir

#define KVASIR_CONCAT_INNER(a, b) a##b
#define KVASIR_CONCAT(a, b) KVASIR_CONCAT_INNER(a, b)

// Returns the error of a Status or Result expression to the caller.
#define KVASIR_RETURN_IF_ERROR(expr)                        \
  do {                                                      \
    if (auto kvasir_status = (expr); !kvasir_status.ok()) { \
      return kvasir_status.error();                         \
    }                                                       \
  } while (false)

// KVASIR_ASSIGN_OR_RETURN(auto file, GgufFile::Open(path));
#define KVASIR_ASSIGN_OR_RETURN(lhs, expr) \
  KVASIR_ASSIGN_OR_RETURN_INNER(KVASIR_CONCAT(kvasir_result_, __LINE__), lhs, expr)
#define KVASIR_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                                  \
  if (!result.ok()) {                                    \
    return result.error();                               \
  }                                                      \
  lhs = std::move(result).value()
