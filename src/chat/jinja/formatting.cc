#include "chat/jinja/formatting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

#include "chat/jinja/fail.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_text.h"
#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

constexpr int kMaxWidth = 10'000;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =, or the type's default
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';
  int width = 0;
  int precision = -1;
  char type = '\0';
};

bool IsOneOf(char c, std::string_view set) {
  return c != '\0' && set.find(c) != std::string_view::npos;
}

// Reads a number at `at`; -1 when there is none. Errors: too large.
Result<int> ReadNumber(std::string_view text, size_t& at) {
  int value = -1;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = std::max(value, 0) * 10 + (text[at] - '0');
    if (value > kMaxWidth) return Fail("a width or precision above {} in a format", kMaxWidth);
  }
  return value;
}

Result<Spec> ParseSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (!text.empty()) {
    const size_t first = DecodeAt(text, 0).size;
    if (first < text.size() && IsOneOf(text[first], "<>^=")) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      at = first + 1;
    } else if (IsOneOf(text[0], "<>^=")) {
      spec.align = text[0];
      at = 1;
    }
  }
  if (IsOneOf(peek(), "+- ")) spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    ++at;
  }
  KVASIR_ASSIGN_OR_RETURN(const int width, ReadNumber(text, at));
  spec.width = std::max(width, 0);
  if (IsOneOf(peek(), ",_")) spec.grouping = text[at++];
  if (peek() == '.') {
    ++at;
    KVASIR_ASSIGN_OR_RETURN(spec.precision, ReadNumber(text, at));
    if (spec.precision < 0) return Fail("format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) return Fail("invalid format specifier '{}'", text.substr(0, 80));
  return spec;
}

void AppendPadded(TextBuilder& out, const Spec& spec, const std::string& sign, const Text& body, char align) {
  const auto length = static_cast<int64_t>(sign.size() + body.Length());
  const int64_t pad = std::max<int64_t>(0, spec.width - length);
  const int64_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0;
  out.AppendRepeated(spec.fill, before);
  out.Append(sign);
  if (align == '=') out.AppendRepeated(spec.fill, pad);
  out.Append(body);
  if (align == '<' || align == '^') out.AppendRepeated(spec.fill, pad - before);
}

std::string Grouped(std::string digits, char separator, size_t every) {
  const size_t whole = std::min(digits.find('.'), digits.size());
  for (size_t at = whole; at > every; at -= every) digits.insert(at - every, 1, separator);
  return digits;
}

std::string IntegerDigits(uint64_t magnitude, char type, bool alternate) {
  char buffer[72];
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr;
  std::string digits(buffer, end);
  if (type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  if (alternate && base != 10) digits.insert(0, std::string("0") + type);
  return digits;
}

std::string FloatDigits(double magnitude, char type, int precision) {
  if (std::isnan(magnitude)) return "nan";
  if (std::isinf(magnitude)) return "inf";
  const bool percent = type == '%';
  if (type == '\0' && precision < 0) return FloatRepr(magnitude);
  const char conversion = percent ? 'f' : type == '\0' ? 'g' : type;
  const char format[] = {'%', '.', '*', conversion, '\0'};
  const double value = percent ? magnitude * 100 : magnitude;
  const int digits = precision < 0 ? 6 : precision;
  const int size = std::snprintf(nullptr, 0, format, digits, value);
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, digits, value);
  out.pop_back();
  return percent ? out + "%" : out;
}

std::string SignOf(bool negative, char sign) {
  if (negative) return "-";
  return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

// One number, sign split off so that zeros can go between.
Status AppendNumber(TextBuilder& out, Heap& heap, Spec spec, const Value& value) {
  const bool integral = value.IsIntLike() && !IsOneOf(spec.type, "eEfFgG%");
  if (!integral && IsOneOf(spec.type, "dxXobc")) return Fail("a float cannot be formatted as '{}'", spec.type);
  std::string digits;
  bool negative = false;
  if (integral) {
    const int64_t number = value.AsInt();
    negative = number < 0;
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    digits = IntegerDigits(magnitude, spec.type, spec.alternate);
  } else {
    negative = std::signbit(value.AsDouble());
    digits = FloatDigits(std::fabs(value.AsDouble()), spec.type, spec.precision);
  }
  if (spec.grouping != '\0') digits = Grouped(std::move(digits), spec.grouping, IsOneOf(spec.type, "xXob") ? 4 : 3);
  AppendPadded(out, spec, SignOf(negative, spec.sign), heap.NewText(digits, value.origin()),
               spec.align == '\0' ? '>' : spec.align);
  return {};
}

Status AppendText(TextBuilder& out, const Spec& spec, Text text) {
  if (spec.precision >= 0) text = text.Sub(0, text.OffsetOf(static_cast<size_t>(spec.precision)));
  AppendPadded(out, spec, "", text, spec.align == '\0' ? '<' : spec.align);
  return {};
}

Status AppendFormatted(TextBuilder& out, Runtime& runtime, const Value& value, std::string_view spec_text) {
  KVASIR_ASSIGN_OR_RETURN(const Spec spec, ParseSpec(spec_text));
  if (value.is_number() && (value.kind() != Kind::kBool || !spec_text.empty())) {
    if (!IsOneOf(spec.type, "dxXobneEfFgG%") && spec.type != '\0') {
      return Fail("unknown format code '{}' for an object of type '{}'", spec.type, TypeName(value));
    }
    return AppendNumber(out, runtime.heap, spec, value);
  }
  if (spec.type != '\0' && spec.type != 's') {
    return Fail("unknown format code '{}' for an object of type '{}'", spec.type, TypeName(value));
  }
  if (!spec_text.empty() && value.text() == nullptr && value.kind() != Kind::kBool) {
    return Fail("unsupported format string passed to {}.__format__", TypeName(value));
  }
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, value));
  return AppendText(out, spec, text);
}

Status AppendConverted(TextBuilder& out, Runtime& runtime, char conversion, Spec spec, const Value& value) {
  if (conversion == 's' || conversion == 'r' || conversion == 'a') {
    KVASIR_ASSIGN_OR_RETURN(const Text text, conversion == 's' ? Str(runtime.heap, value) : Repr(runtime.heap, value));
    if (spec.align == '\0') spec.align = '>';
    return AppendText(out, spec, text);
  }
  if (conversion == 'c') {
    std::string character;
    if (value.text() != nullptr && value.text()->Length() == 1) return AppendText(out, spec, *value.text());
    if (!value.IsIntLike() || value.AsInt() < 0 || value.AsInt() > 0x10ffff) return Fail("%c requires int or char");
    AppendUtf8(character, static_cast<char32_t>(value.AsInt()));
    return AppendText(out, spec, runtime.heap.NewText(character));
  }
  if (!value.is_number()) return Fail("%{} format: a real number is required, not {}", conversion, TypeName(value));
  spec.type = conversion == 'i' || conversion == 'u' ? 'd' : conversion;
  if (spec.type == 'd' && value.real() != nullptr) {
    if (!(std::fabs(*value.real()) < 9e18)) return Fail("cannot convert this float to an integer");
    return AppendNumber(out, runtime.heap, spec, Value::Int(static_cast<int64_t>(*value.real()), value.origin()));
  }
  return AppendNumber(out, runtime.heap, spec, value);
}

// A replacement field's "0.name[key]".
Result<Value> ResolveField(Runtime& runtime, std::string_view field, const Args& args, size_t& next_index) {
  const size_t name_end = std::min(field.find_first_of(".["), field.size());
  const std::string_view name = field.substr(0, name_end);
  Value value;
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) {
    size_t index = next_index;
    if (name.empty()) {
      ++next_index;
    } else {
      size_t at = 0;
      KVASIR_ASSIGN_OR_RETURN(const int number, ReadNumber(name, at));
      if (at != name.size()) return Fail("bad field '{}' in a format", name.substr(0, 80));
      index = static_cast<size_t>(number);
    }
    if (index >= args.positional.size()) return Fail("replacement index {} out of range for positional args", index);
    value = args.positional[index];
  } else {
    const auto it =
        std::find_if(args.named.begin(), args.named.end(), [&](const auto& arg) { return arg.first == name; });
    if (it == args.named.end()) return Fail("no argument named '{}' for a format", name.substr(0, 80));
    value = it->second;
  }
  for (size_t at = name_end; at < field.size();) {
    if (field[at] == '.') {
      const size_t end = std::min(field.find_first_of(".[", at + 1), field.size());
      KVASIR_ASSIGN_OR_RETURN(value, GetAttribute(runtime, value, field.substr(at + 1, end - at - 1)));
      at = end;
      continue;
    }
    const size_t end = field.find(']', at);
    if (field[at] != '[' || end == std::string_view::npos) return Fail("bad field in a format");
    const std::string_view key = field.substr(at + 1, end - at - 1);
    size_t digits = 0;
    KVASIR_ASSIGN_OR_RETURN(const int number, ReadNumber(key, digits));
    const Value index = number >= 0 && digits == key.size() ? Value::Int(number) : Value(runtime.heap.NewText(key));
    KVASIR_ASSIGN_OR_RETURN(value, GetItem(runtime, value, index));
    at = end + 1;
  }
  return value;
}

}  // namespace

Result<Value> PercentFormat(Runtime& runtime, const Text& format, const Value& values) {
  const bool tuple = values.list() != nullptr && values.list()->form == List::Form::kTuple;
  size_t used = 0;
  const auto next = [&]() -> Result<Value> {
    if (tuple && used < values.list()->size()) return values.list()->at(used++);
    if (tuple || used > 0) return Fail("not enough arguments for format string");
    ++used;
    return values;
  };
  // Copied: what the format's arguments print as may extend the buffer that holds the format.
  const std::string bytes(format.view());
  TextBuilder out(runtime.heap);
  for (size_t at = 0; at < bytes.size();) {
    const size_t mark = std::min(bytes.find('%', at), bytes.size());
    out.Append(format.Sub(at, mark));
    if (mark == bytes.size()) break;
    at = mark + 1;
    Spec spec;
    bool by_name = false;
    Value value;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t close = bytes.find(')', at);
      if (close == std::string::npos) return Fail("incomplete format key");
      if (values.dict() == nullptr) return Fail("format requires a mapping");
      const Value* entry = values.dict()->Find(std::string_view(bytes).substr(at + 1, close - at - 1));
      if (entry == nullptr)
        return Fail("no key '{}' for a format", bytes.substr(at + 1, std::min<size_t>(close - at - 1, 80)));
      value = *entry;
      by_name = true;
      at = close + 1;
    }
    for (; at < bytes.size() && IsOneOf(bytes[at], "-+ 0#"); ++at) {
      if (bytes[at] == '-') spec.align = '<';
      if (bytes[at] == '+' || (bytes[at] == ' ' && spec.sign != '+')) spec.sign = bytes[at];
      if (bytes[at] == '#') spec.alternate = true;
      if (bytes[at] == '0' && spec.align == '\0') {
        spec.align = '=';
        spec.fill = "0";
      }
    }
    KVASIR_ASSIGN_OR_RETURN(const int width, ReadNumber(bytes, at));
    spec.width = std::max(width, 0);
    if (at < bytes.size() && bytes[at] == '.') {
      ++at;
      KVASIR_ASSIGN_OR_RETURN(const int precision, ReadNumber(bytes, at));
      spec.precision = std::max(precision, 0);
    }
    if (at == bytes.size()) return Fail("incomplete format");
    const char conversion = bytes[at++];
    if (conversion == '%') {
      out.Append("%", format.Sub(mark, mark + 1).FirstOrigin());
      continue;
    }
    if (!IsOneOf(conversion, "sradiuxXoceEfFgG")) return Fail("unsupported format character in '%{}'", conversion);
    if (spec.align == '<') spec.fill = " ";
    if (!by_name) {
      KVASIR_ASSIGN_OR_RETURN(value, next());
    }
    KVASIR_RETURN_IF_ERROR(AppendConverted(out, runtime, conversion, spec, value));
  }
  if (tuple && used < values.list()->size()) return Fail("not all arguments converted during string formatting");
  if (!tuple && used == 0 && values.dict() == nullptr && values.list() == nullptr) {
    return Fail("not all arguments converted during string formatting");
  }
  return Value(out.Finish().WithMarkup(format.markup()));
}

Result<Value> BraceFormat(Runtime& runtime, const Text& format, const Args& args) {
  const std::string bytes(format.view());
  TextBuilder out(runtime.heap);
  size_t next_index = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t mark = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.Append(format.Sub(at, mark));
    if (mark == bytes.size()) break;
    if (mark + 1 < bytes.size() && bytes[mark + 1] == bytes[mark]) {
      out.Append(format.Sub(mark, mark + 1));
      at = mark + 2;
      continue;
    }
    if (bytes[mark] == '}') return Fail("single '}}' encountered in format string");
    const size_t close = bytes.find('}', mark);
    if (close == std::string::npos) return Fail("expected '}}' before end of string");
    std::string_view field = std::string_view(bytes).substr(mark + 1, close - mark - 1);
    if (field.find('{') != std::string_view::npos) return Fail("nested replacement fields are not supported");
    std::string_view spec;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = '\0';
    if (const size_t bang = field.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != field.size() || !IsOneOf(field[bang + 1], "rsa")) return Fail("bad conversion in a format");
      conversion = field[bang + 1];
      field = field.substr(0, bang);
    }
    KVASIR_ASSIGN_OR_RETURN(Value value, ResolveField(runtime, field, args, next_index));
    if (conversion != '\0') {
      KVASIR_ASSIGN_OR_RETURN(const Text text,
                              conversion == 's' ? Str(runtime.heap, value) : Repr(runtime.heap, value));
      value = Value(text);
    }
    KVASIR_RETURN_IF_ERROR(AppendFormatted(out, runtime, value, spec));
    at = close + 1;
  }
  return Value(out.Finish().WithMarkup(format.markup()));
}

}  // namespace kvasir::chat::jinja
