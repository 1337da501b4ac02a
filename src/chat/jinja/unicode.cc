#include "chat/jinja/unicode.h"

#include <algorithm>
#include <iterator>

namespace kvasir::chat::jinja {
namespace {

struct Range {
  char32_t first, last;
};

template <size_t N>
bool In(const Range (&ranges)[N], char32_t c) {
  const Range* end = std::end(ranges);
  const Range* it = std::lower_bound(std::begin(ranges), end, c, [](const Range& r, char32_t x) { return r.last < x; });
  return it != end && c >= it->first;
}

// Categories Cc, Cf, Cs, Co, Cn (as blocks), Zl, Zp and Zs but the space: what Python's repr() escapes.
constexpr Range kUnprintable[] = {{0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},       {0x378, 0x379},
                                  {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
                                  {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},   {0x2028, 0x202f},
                                  {0x205f, 0x206f},   {0x3000, 0x3000},   {0xd800, 0xf8ff},   {0xfeff, 0xfeff},
                                  {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x1d173, 0x1d17a},
                                  {0x1fffe, 0x1ffff}, {0x323b0, 0xe00ff}, {0xe01f0, 0x10ffff}};

constexpr Range kPunctuationAbove127[] = {
    {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},     {0xbb, 0xbf},     {0xd7, 0xd7},      {0xf7, 0xf7},
    {0x2000, 0x206f}, {0x20a0, 0x20cf}, {0x2190, 0x2bff}, {0x2e00, 0x2e7f}, {0x3000, 0x3004},  {0x3007, 0x3030},
    {0xd800, 0xf8ff}, {0xfe10, 0xfe6f}, {0xff00, 0xff0f}, {0xff1a, 0xff20}, {0x1f000, 0x1ffff}};

}  // namespace

CodePoint DecodeAt(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(at);
  const CodePoint raw{lead, 1, false};
  if (lead < 0x80) return {lead, 1, true};
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || at + size > bytes.size()) return raw;
  char32_t value = lead & (0x7fU >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return raw;
    value = (value << 6) | (byte(at + i) & 0x3fU);
  }
  const bool overlong = (size == 3 && value < 0x800) || (size == 4 && value < 0x10000);
  if (overlong || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return raw;
  return {value, static_cast<uint8_t>(size), true};
}

size_t PreviousCharacter(std::string_view bytes, size_t end) {
  for (size_t size = 1; size <= 4 && size <= end; ++size) {
    const CodePoint point = DecodeAt(bytes.substr(0, end), end - size);
    if (point.valid && point.size == size) return end - size;
  }
  return end - 1;
}

void AppendUtf8(std::string& out, char32_t value) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0 | (value >> 6));
    put(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    put(0xe0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3f));
    put(0x80 | (value & 0x3f));
  } else {
    put(0xf0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3f));
    put(0x80 | ((value >> 6) & 0x3f));
    put(0x80 | (value & 0x3f));
  }
}

size_t CountCharacters(std::string_view bytes) {
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); at += DecodeAt(bytes, at).size) ++count;
  return count;
}

bool IsAscii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsPrintable(char32_t c) {
  return !In(kUnprintable, c);
}

bool IsDigit(char32_t c) {
  return (c >= '0' && c <= '9') || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0x660 && c <= 0x669) ||
         (c >= 0x966 && c <= 0x96f) || (c >= 0xff10 && c <= 0xff19);
}

bool IsLetter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return !In(kPunctuationAbove127, c) && !IsSpace(c) && !IsDigit(c) && IsPrintable(c);
}

char32_t ToUpper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  if (c == 0xb5) return 0x39c;
  if (c == 0xff) return 0x178;
  if (c >= 0xe0 && c <= 0xfe && c != 0xf7) return c - 32;
  if ((c >= 0x100 && c <= 0x137 && c != 0x131) || (c >= 0x14a && c <= 0x177)) return c & ~char32_t{1};
  if (c == 0x131) return 'I';
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return (c & 1) == 0 ? c - 1 : c;
  if (c == 0x17f) return 'S';
  if (c == 0x3ac) return 0x386;
  if (c >= 0x3ad && c <= 0x3af) return c - 37;
  if (c == 0x3c2) return 0x3a3;
  if (c >= 0x3b1 && c <= 0x3cb) return c - 32;
  if (c == 0x3cc) return 0x38c;
  if (c == 0x3cd || c == 0x3ce) return c - 63;
  if (c >= 0x430 && c <= 0x44f) return c - 32;
  if (c >= 0x450 && c <= 0x45f) return c - 80;
  if ((c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f)) return c & ~char32_t{1};
  if (c >= 0x561 && c <= 0x586) return c - 48;
  if ((c >= 0x1e00 && c <= 0x1e95) || (c >= 0x1ea0 && c <= 0x1eff)) return c & ~char32_t{1};
  if (c >= 0xff41 && c <= 0xff5a) return c - 32;
  return c;
}

char32_t ToLower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c == 0x178) return 0xff;
  if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;
  if ((c >= 0x100 && c <= 0x137 && c != 0x130) || (c >= 0x14a && c <= 0x177)) return c | 1;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return (c & 1) == 1 ? c + 1 : c;
  if (c == 0x386) return 0x3ac;
  if (c >= 0x388 && c <= 0x38a) return c + 37;
  if (c == 0x38c) return 0x3cc;
  if (c == 0x38e || c == 0x38f) return c + 63;
  if (c >= 0x391 && c <= 0x3ab) return c + 32;
  if (c >= 0x410 && c <= 0x42f) return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  if ((c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f)) return c | 1;
  if (c >= 0x531 && c <= 0x556) return c + 48;
  if ((c >= 0x1e00 && c <= 0x1e95) || (c >= 0x1ea0 && c <= 0x1eff)) return c | 1;
  if (c >= 0xff21 && c <= 0xff3a) return c + 32;
  return c;
}

}  // namespace kvasir::chat::jinja
