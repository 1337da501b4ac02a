#include "cli/flags.h"

#include <fmt/ostream.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "cli/nearest.h"

namespace kvasir::cli {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// As one line of help can show it.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string("\\n") : std::string(1, c);
  return line;
}

std::string_view LongName(const Flag& flag) {
  return Split(flag.names, ' ').back();
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

template <typename Integer>
std::string WantInteger(Integer min, Integer max) {
  const bool low = min != std::numeric_limits<Integer>::min();
  const bool high = max != std::numeric_limits<Integer>::max();
  if (low && high) return fmt::format("expected a whole number from {} to {}", min, max);
  return low ? fmt::format("expected a whole number, at least {}", min) : "expected a whole number";
}

template <typename Integer>
Flags::Setter IntegerSetter(Integer* target, Integer min, Integer max) {
  return [=](std::string_view value) -> std::optional<std::string> {
    const auto number = ParseNumber<Integer>(value);
    if (!number || *number < min || *number > max) return WantInteger(min, max);
    *target = *number;
    return std::nullopt;
  };
}

std::optional<bool> ParseSwitch(std::string_view value) {
  for (const std::string_view yes : {"1", "true", "on", "yes"}) {
    if (value == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "off", "no"}) {
    if (value == no) return false;
  }
  return std::nullopt;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Flags::Flags(std::string_view command, std::string_view summary, std::string_view operands)
    : command_(command), summary_(summary), operands_help_(operands) {
  Add(Flag{"-h --help", "", "this text"}, &help_);
}

Flags::Entry& Flags::AddEntry(const Flag& flag, Setter set, std::string fallback) {
  for (const std::string_view name : Split(flag.names, ' ')) KVASIR_CHECK(!IndexOf(name), "{} declared twice", name);
  entries_.push_back({.flag = flag, .set = std::move(set), .fallback = std::move(fallback)});
  return entries_.back();
}

void Flags::Add(const Flag& flag, Setter set) {
  AddEntry(flag, std::move(set), "");
}

void Flags::Add(const Flag& flag, std::string* target) {
  AddEntry(
      flag,
      [target](std::string_view value) -> std::optional<std::string> {
        *target = value;
        return std::nullopt;
      },
      *target);
}

void Flags::Add(const Flag& flag, bool* target) {
  const auto set = [target](std::string_view value) -> std::optional<std::string> {
    const auto parsed = ParseSwitch(value);
    if (!parsed) return "expected true or false";
    *target = *parsed;
    return std::nullopt;
  };
  AddEntry(flag, set, "").is_switch = true;
}

void Flags::Add(const Flag& flag, int* target, int min, int max) {
  AddEntry(flag, IntegerSetter(target, min, max), fmt::to_string(*target));
}

void Flags::Add(const Flag& flag, int64_t* target, int64_t min, int64_t max) {
  AddEntry(flag, IntegerSetter(target, min, max), fmt::to_string(*target));
}

void Flags::Add(const Flag& flag, uint64_t* target) {
  AddEntry(flag, IntegerSetter(target, uint64_t{0}, std::numeric_limits<uint64_t>::max()), fmt::to_string(*target));
}

void Flags::Add(const Flag& flag, double* target) {
  const auto set = [target](std::string_view value) -> std::optional<std::string> {
    const auto number = ParseNumber<double>(value);
    if (!number || !std::isfinite(*number)) return "expected a number";
    *target = *number;
    return std::nullopt;
  };
  AddEntry(flag, set, fmt::to_string(*target));
}

void Flags::Add(const Flag& flag, std::vector<std::string>* target) {
  const auto set = [target](std::string_view value) -> std::optional<std::string> {
    const auto parts = Split(value, ',');
    if (std::find(parts.begin(), parts.end(), "") != parts.end()) return "expected a comma-separated list without gaps";
    target->assign(parts.begin(), parts.end());
    return std::nullopt;
  };
  AddEntry(flag, set, fmt::format("{}", fmt::join(*target, ",")));
}

void Flags::Add(const Flag& flag, std::vector<int64_t>* target, int64_t min) {
  const auto set = [target, min](std::string_view value) -> std::optional<std::string> {
    std::vector<int64_t> numbers;
    for (const std::string_view part : Split(value, ',')) {
      const auto number = ParseNumber<int64_t>(part);
      if (!number || *number < min)
        return fmt::format("expected whole numbers, at least {}, with commas between them", min);
      numbers.push_back(*number);
    }
    *target = std::move(numbers);
    return std::nullopt;
  };
  AddEntry(flag, set, fmt::format("{}", fmt::join(*target, ",")));
}

void Flags::Require() {
  entries_.back().required = true;
}

std::optional<size_t> Flags::IndexOf(std::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto names = Split(entries_[i].flag.names, ' ');
    if (std::find(names.begin(), names.end(), name) != names.end()) return i;
  }
  return std::nullopt;
}

bool Flags::Given(std::string_view name) const {
  const auto index = IndexOf(name);
  KVASIR_CHECK(index.has_value(), "no flag {}", name);
  return entries_[*index].given;
}

Status Flags::Set(Entry& entry, std::string_view source, std::string_view value) {
  if (const auto problem = entry.set(value)) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {}, got '{}'", source, *problem, value);
  }
  entry.given = true;
  return {};
}

Status Flags::Parse(const std::vector<std::string>& args, const Environment& environment) {
  bool flags_ended = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (flags_ended || arg.size() < 2 || arg[0] != '-') {
      operands_.emplace_back(arg);
      continue;
    }
    if (arg == "--") {
      flags_ended = true;
      continue;
    }
    // Only long names take "=": a value may contain one.
    const size_t equals = arg.substr(0, 2) == "--" ? arg.find('=') : std::string_view::npos;
    const std::string_view name = arg.substr(0, equals);
    const auto index = IndexOf(name);
    if (!index) {
      std::vector<std::string_view> known;
      for (const Entry& e : entries_) {
        for (const std::string_view known_name : Split(e.flag.names, ' ')) known.push_back(known_name);
      }
      return MakeError(ErrorCode::kInvalidArgument, "no flag {}{}", name, DidYouMean(name, known));
    }
    Entry& entry = entries_[*index];
    if (equals != std::string_view::npos) {
      KVASIR_RETURN_IF_ERROR(Set(entry, name, arg.substr(equals + 1)));
    } else if (entry.is_switch) {
      KVASIR_RETURN_IF_ERROR(Set(entry, name, "true"));
    } else if (i + 1 == args.size()) {
      return MakeError(ErrorCode::kInvalidArgument, "{} needs a value: {} {}", name, name, entry.flag.value);
    } else {
      KVASIR_RETURN_IF_ERROR(Set(entry, name, args[++i]));
    }
  }
  if (help_) return {};
  if (operands_help_.empty() && !operands_.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "does not know what to do with '{}'; it takes flags only",
                     operands_.front());
  }

  for (Entry& entry : entries_) {
    if (!entry.given && !entry.flag.environment.empty()) {
      for (const std::string_view variable : Split(entry.flag.environment, ' ')) {
        const auto value = environment(variable);
        if (!value || value->empty()) continue;
        KVASIR_RETURN_IF_ERROR(Set(entry, variable, *value));
        break;
      }
    }
    if (entry.required && !entry.given) {
      return MakeError(ErrorCode::kInvalidArgument, "{} {} is missing", LongName(entry.flag), entry.flag.value);
    }
  }
  return {};
}

std::optional<int> Flags::Read(const std::vector<std::string>& args, Streams streams) {
  const Status status = Parse(args, ProcessEnvironment());
  if (!status.ok()) {
    fmt::print(streams.err, "kvasir {}: {} (kvasir {} --help lists the flags)\n", command_, status.error().message(),
               command_);
    return kExitUsage;
  }
  if (!help_) return std::nullopt;
  fmt::print(streams.out, "{}", Help());
  return kExitOk;
}

std::string Flags::Help() const {
  std::string text = fmt::format("usage: kvasir {} [flags]{}{}\n\n{}\n\n", command_, operands_help_.empty() ? "" : " ",
                                 operands_help_, summary_);
  for (const Entry& entry : entries_) {
    std::string left = fmt::format("{}", fmt::join(Split(entry.flag.names, ' '), ", "));
    if (!entry.flag.value.empty()) left += fmt::format(" {}", entry.flag.value);
    text += fmt::format("  {:<32} {}", left, entry.flag.help);
    if (!entry.fallback.empty()) text += fmt::format(" (default: {})", OneLine(entry.fallback));
    if (!entry.flag.environment.empty()) {
      text += fmt::format(" [env {}]", fmt::join(Split(entry.flag.environment, ' '), ", "));
    }
    text += '\n';
  }
  return text;
}

int ExitCode(std::string_view command, const Status& status, Streams streams) {
  if (status.ok()) return kExitOk;
  fmt::print(streams.err, "kvasir {}: {}\n", command, status.error().message());
  return status.error().code() == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace kvasir::cli
