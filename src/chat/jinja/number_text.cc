#include "chat/jinja/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

// Without surrounding white space and underscores; nothing when an underscore stands badly.
std::optional<std::string> Plain(std::string_view text) {
  while (!text.empty() && IsSpace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && IsSpace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_') {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text, int64_t base) {
  const auto plain = Plain(text);
  if (!plain.has_value() || base < 0 || base == 1 || base > 36) return std::nullopt;
  std::string digits = *plain;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative || (!digits.empty() && digits[0] == '+')) digits.erase(0, 1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    const int64_t prefixed = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == 0 || base == prefixed)) {
      digits.erase(0, 2);
      base = prefixed;
    }
  }
  if (base == 0) base = 10;
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  if (negative) digits.insert(0, 1, '-');
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseFloat(std::string_view text) {
  const auto plain = Plain(text);
  if (!plain.has_value() || plain->empty()) return std::nullopt;
  // strtod also reads hexadecimal and nan(...), which Python does not.
  if (plain->find_first_of("xX(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return value;
}

double RoundHalfEven(double value, int digits) {
  if (!std::isfinite(value)) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::nearbyint(value / scale) * scale;
  }
  // printf rounds the exact binary value, halves to even.
  char buffer[800];
  const int size = std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
  if (size < 0 || static_cast<size_t>(size) >= sizeof(buffer)) return value;
  return std::strtod(buffer, nullptr);
}

}  // namespace kvasir::chat::jinja
