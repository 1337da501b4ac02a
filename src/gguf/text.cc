#include "gguf/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kvasir::gguf {
namespace {

// Bytes of the UTF-8 sequence that `text` begins with; 0 when it begins with none (overlong forms, surrogates and code
// points above U+10FFFF are none). Unicode 15, table 3-7.
size_t SequenceBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool second_fits = (first != 0xE0 || byte(1) >= 0xA0) && (first != 0xED || byte(1) < 0xA0);
    return second_fits && continues(1) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool second_fits = (first != 0xF0 || byte(1) >= 0x90) && (first != 0xF4 || byte(1) < 0x90);
    return second_fits && continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = SequenceBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

Status CheckName(std::string_view name) {
  if (name.empty()) return MakeError(ErrorCode::kCorrupt, "is empty");
  if (name.size() > kMaxNameBytes) {
    return MakeError(ErrorCode::kCorrupt, "has {} bytes; {} is the limit", name.size(), kMaxNameBytes);
  }
  if (!IsUtf8(name)) return MakeError(ErrorCode::kCorrupt, "is not valid UTF-8");
  if (std::any_of(name.begin(), name.end(), IsControl)) {
    return MakeError(ErrorCode::kCorrupt, "has a control character");
  }
  return {};
}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= max_bytes) return shown + "...";
    const size_t bytes = SequenceBytes(text);
    if (text[0] == '\n') {
      shown += "\\n";
    } else if (bytes == 0 || IsControl(text[0])) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return shown;
}

}  // namespace kvasir::gguf
