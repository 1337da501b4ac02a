// chat/jinja/number_text.h
// Numbers out of strings as Python's int() and float() read them, and Python's round().
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvasir::chat::jinja {

// White space around it, a sign and single underscores between digits are fine; base 0 reads the prefix. Nothing: not
// an integer.
std::optional<int64_t> ParseInteger(std::string_view text, int64_t base);
std::optional<double> ParseFloat(std::string_view text);
// To `digits` decimals, halves to even, on the exact binary value.
double RoundHalfEven(double value, int digits);

}  // namespace kvasir::chat::jinja
