#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace kvasir {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto made = spdlog::stderr_color_mt("kvasir");
    made->set_pattern("%^%L%$ %T.%e %v");
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) {
  Logger().set_level(ToSpdlog(level));
}

void LogLine(LogLevel level, std::string_view line) {
  Logger().log(ToSpdlog(level), "{}", line);
}

}  // namespace kvasir
