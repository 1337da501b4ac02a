// base/log.h
// One process log on standard error: Log(LogLevel::kWarn, "context {} is longer than trained ({})", n, trained).
//
// Results go to standard output by the command itself, never through here. Prompts and keys are never logged.
//
// Thread rule: any thread.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace kvasir {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

// Lines below `level` are dropped. The default is kInfo.
void SetLogLevel(LogLevel level);
void LogLine(LogLevel level, std::string_view line);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  LogLine(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kvasir
