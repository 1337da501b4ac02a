#include <algorithm>
#include <cmath>

#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/number_text.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_text.h"
#include "chat/jinja/sequence_filters.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

using Answer = Result<Value>;

bool IsTrue(const Value* value) {
  return value != nullptr && Truthy(*value);
}
bool Absent(const Value* value) {
  return value == nullptr || value->is_none();
}

Answer Abs(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  if (self.real() != nullptr) return Value::Float(std::fabs(*self.real()));
  if (!self.IsIntLike()) return Fail("bad operand type for abs(): '{}'", TypeName(self));
  return self.AsInt() < 0 ? Negative(self) : Value::Int(self.AsInt());
}

Answer Attr(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("attr", args, {"name"}, 1));
  // Unlike a.b it never finds dict keys.
  if (self.dict() != nullptr && FindMethod(self, bound[0]->str()).function == nullptr) {
    return runtime.heap.NewUndefined(bound[0]->str(), "dict object");
  }
  return GetAttribute(runtime, self, bound[0]->str());
}

template <Text (*kMap)(Heap&, const Text&)>
Answer MapText(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  return Value(kMap(runtime.heap, text));
}

Answer Center(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("center", args, {"width"}));
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  Args width;
  width.positional.push_back(bound[0] != nullptr ? *bound[0] : Value::Int(80));
  return FindTextMethod("center").function(runtime, Value(text), width);
}

Answer Default(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("default", args, {"default_value", "boolean"}));
  if (!self.is_undefined() && !(IsTrue(bound[1]) && !Truthy(self))) return self;
  return bound[0] != nullptr ? *bound[0] : Value(Text());
}

Answer Escape(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  return Value((text.markup() ? text : EscapeHtml(runtime.heap, text)).WithMarkup(true));
}

Answer Safe(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  return Value(text.WithMarkup(true));
}

Answer Format(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  if (!args.named.empty() && !args.positional.empty()) {
    return Fail("can't handle positional and keyword arguments at the same time");
  }
  if (args.named.empty()) {
    return PercentFormat(runtime, text, Value(runtime.heap.NewList(args.positional, List::Form::kTuple)));
  }
  Dict* names = runtime.heap.NewDict();
  for (const auto& [name, value] : args.named) names->Set(Value(runtime.heap.NewText(name)), value);
  return PercentFormat(runtime, text, Value(names));
}

Answer Indent(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("indent", args, {"width", "first", "blank"}));
  if (self.is_undefined()) return UndefinedError(self);
  if (self.text() == nullptr) return Fail("unsupported operand type(s) for +=: '{}' and 'str'", TypeName(self));
  std::string indention(4, ' ');
  if (bound[0] != nullptr && bound[0]->text() != nullptr) {
    indention = bound[0]->str();
  } else if (bound[0] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(const int64_t width, ToIndex(*bound[0]));
    if (width > 10'000) return Fail("an indentation of {} columns", width);
    indention.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const Text& text = *self.text();
  std::vector<Text> lines = SplitLines(text, /*keep_ends=*/false);
  // A text that ends in a line break, and an empty one, keep an empty last line.
  if (text.empty() || IsLineBreak(DecodeAt(text.view(), PreviousCharacter(text.view(), text.size())).value)) {
    lines.push_back(text.Sub(text.size(), text.size()));
  }
  TextBuilder out(runtime.heap);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n");
    const bool indented = i == 0 ? IsTrue(bound[1]) : IsTrue(bound[2]) || !lines[i].empty();
    if (indented) out.Append(indention);
    out.Append(lines[i]);
  }
  return Value(out.Finish().WithMarkup(text.markup()));
}

Answer ReplaceFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("replace", args, {"old", "new", "count"}, 2));
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  KVASIR_ASSIGN_OR_RETURN(const Text from, Str(runtime.heap, *bound[0]));
  KVASIR_ASSIGN_OR_RETURN(const Text to, Str(runtime.heap, *bound[1]));
  int64_t count = -1;
  if (!Absent(bound[2])) {
    KVASIR_ASSIGN_OR_RETURN(count, ToIndex(*bound[2]));
  }
  return Value(Replace(runtime.heap, text, from.view(), to, count).WithMarkup(false));
}

Answer StringFilter(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  return Value(text);
}

// Words start after white space, "-" and brackets, not after an apostrophe.
Answer Title(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  const std::string_view bytes = text.view();
  TextBuilder out(runtime.heap);
  const auto separates = [](char32_t c) {
    return IsSpace(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
  };
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = DecodeAt(bytes, at);
    at += point.size;
    if (at < bytes.size() && !separates(point.value)) continue;
    out.Append(Capitalize(runtime.heap, text.Sub(begin, at)));
    begin = at;
  }
  return Value(out.Finish());
}

Answer Trim(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("trim", args, {"chars"}));
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  if (Absent(bound[0])) return Value(Strip(text, nullptr, Side::kBoth));
  const std::string_view set = bound[0]->str();
  return Value(Strip(text, &set, Side::kBoth));
}

Answer Truncate(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("truncate", args, {"length", "killwords", "end", "leeway"}));
  int64_t length = 255, leeway = 5;
  if (bound[0] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(length, ToIndex(*bound[0]));
  }
  if (!Absent(bound[3])) {
    KVASIR_ASSIGN_OR_RETURN(leeway, ToIndex(*bound[3]));
  }
  const Text end = bound[2] != nullptr && bound[2]->text() != nullptr ? *bound[2]->text() : runtime.heap.NewText("...");
  const auto end_length = static_cast<int64_t>(end.Length());
  if (length < end_length) return Fail("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) return Fail("expected leeway >= 0, got {}", leeway);
  KVASIR_ASSIGN_OR_RETURN(const int64_t size, LengthOf(runtime, self));
  if (size - leeway <= length) return self;
  if (self.text() == nullptr) return Fail("truncate needs a string, not {}", TypeName(self));
  const Text& text = *self.text();
  Text kept = text.Sub(0, text.OffsetOf(static_cast<size_t>(length - end_length)));
  if (!IsTrue(bound[1])) {
    if (const size_t space = kept.view().rfind(' '); space != std::string_view::npos) kept = kept.Sub(0, space);
  }
  return Value(runtime.heap.Concat(kept, end));
}

Answer WordCount(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, self));
  const std::string_view bytes = text.view();
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = DecodeAt(bytes, at);
    at += point.size;
    const bool word = point.valid && (IsLetter(point.value) || IsDigit(point.value) || point.value == '_');
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::Int(words);
}

Result<Text> UrlQuote(Runtime& runtime, const Value& value, bool query) {
  KVASIR_ASSIGN_OR_RETURN(const Text text, Str(runtime.heap, value));
  TextBuilder out(runtime.heap);
  text.ForEachRun([&](std::string_view bytes, Origin origin) {
    std::string piece;
    for (const char c : bytes) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
      if (plain) {
        piece += c;
      } else {
        piece += c == ' ' && query ? "+" : fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
    out.Append(piece, origin);
  });
  return out.Finish();
}

Answer UrlEncode(Runtime& runtime, const Value& self, const Args& /*args*/) {
  if (self.dict() == nullptr) {
    KVASIR_ASSIGN_OR_RETURN(const Text quoted, UrlQuote(runtime, self, false));
    return Value(quoted);
  }
  TextBuilder out(runtime.heap);
  for (const auto& [key, value] : self.dict()->entries()) {
    if (out.size() > 0) out.Append("&");
    KVASIR_ASSIGN_OR_RETURN(const Text name, UrlQuote(runtime, key, true));
    out.Append(name);
    out.Append("=");
    KVASIR_ASSIGN_OR_RETURN(const Text quoted, UrlQuote(runtime, value, true));
    out.Append(quoted);
  }
  return Value(out.Finish());
}

Answer Int(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("int", args, {"default", "base"}));
  if (self.is_undefined()) return UndefinedError(self);
  int64_t base = 10;
  if (bound[1] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(base, ToIndex(*bound[1]));
  }
  if (self.IsIntLike()) return Value::Int(self.AsInt(), self.origin());
  if (self.text() != nullptr) {
    if (const auto parsed = ParseInteger(self.str(), base); parsed.has_value()) return Value::Int(*parsed);
  }
  const auto number = self.real() != nullptr ? std::optional<double>(*self.real()) : ParseFloat(self.str());
  // "42.23" is 42; what is no number, or no 64-bit one, is the default.
  if (number.has_value() && std::fabs(*number) < 9.2e18)
    return Value::Int(static_cast<int64_t>(*number), self.origin());
  return bound[0] != nullptr ? *bound[0] : Value::Int(0);
}

Answer FloatFilter(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("float", args, {"default"}));
  if (self.is_undefined()) return UndefinedError(self);
  if (self.is_number()) return Value::Float(self.AsDouble(), self.origin());
  if (const auto parsed = ParseFloat(self.str()); parsed.has_value()) return Value::Float(*parsed);
  return bound[0] != nullptr ? *bound[0] : Value::Float(0.0);
}

Answer Round(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("round", args, {"precision", "method"}));
  if (!self.is_number()) return Fail("type {} doesn't define __round__ method", TypeName(self));
  int64_t precision = 0;
  if (bound[0] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(precision, ToIndex(*bound[0]));
  }
  precision = std::clamp<int64_t>(precision, -300, 300);
  const std::string_view method = bound[1] == nullptr ? "common" : bound[1]->str();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double value = self.AsDouble();
  if (method == "ceil") return Value::Float(std::ceil(value * scale) / scale);
  if (method == "floor") return Value::Float(std::floor(value * scale) / scale);
  if (method != "common") return Fail("method must be common, ceil or floor");
  if (self.IsIntLike()) {
    // Past 2^53 a double would lose digits; tens and hundreds of such numbers are not worth exactness.
    if (precision >= 0) return Value::Int(self.AsInt());
    const double rounded = RoundHalfEven(value, static_cast<int>(precision));
    return std::fabs(rounded) < 9.2e18 ? Value::Int(static_cast<int64_t>(rounded)) : Value::Float(rounded);
  }
  return Value::Float(RoundHalfEven(value, static_cast<int>(precision)));
}

Answer ToJsonFilter(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound,
                          Bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = IsTrue(bound[0]);
  style.sort_keys = IsTrue(bound[3]);
  style.generators = runtime.extensions;
  if (!Absent(bound[1])) {
    style.pretty = true;
    style.item_separator = ",";
    if (bound[1]->text() != nullptr) {
      style.indent = bound[1]->str();
    } else {
      KVASIR_ASSIGN_OR_RETURN(const int64_t width, ToIndex(*bound[1]));
      if (width > 10'000) return Fail("a JSON indentation of {} columns", width);
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (!Absent(bound[2])) {
    const List* pair = bound[2]->list();
    if (pair == nullptr || pair->size() != 2) return Fail("separators must be a pair of strings");
    style.item_separator = pair->at(0).str();
    style.key_separator = pair->at(1).str();
  }
  KVASIR_ASSIGN_OR_RETURN(const Text json, ToJson(runtime.heap, self, style));
  return Value(json);
}

Answer Length(Runtime& runtime, const Value& self, const Args& /*args*/) {
  KVASIR_ASSIGN_OR_RETURN(const int64_t length, LengthOf(runtime, self));
  return Value::Int(length);
}

constexpr std::pair<std::string_view, Function> kFilters[] = {
    {"abs", Abs},
    {"attr", Attr},
    {"batch", BatchFilter},
    {"capitalize", MapText<Capitalize>},
    {"center", Center},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSortFilter},
    {"e", Escape},
    {"escape", Escape},
    {"first", FirstFilter},
    {"float", FloatFilter},
    {"format", Format},
    {"from_json", FromJsonFilter},
    {"groupby", GroupByFilter},
    {"indent", Indent},
    {"int", Int},
    {"items", ItemsFilter},
    {"join", JoinFilter},
    {"last", LastFilter},
    {"length", Length},
    {"list", ListFilter},
    {"lower", MapText<Lower>},
    {"map", MapFilter},
    {"max", MaxFilter},
    {"min", MinFilter},
    {"reject", RejectFilter},
    {"rejectattr", RejectAttrFilter},
    {"replace", ReplaceFilter},
    {"reverse", ReverseFilter},
    {"round", Round},
    {"safe", Safe},
    {"select", SelectFilter},
    {"selectattr", SelectAttrFilter},
    {"slice", SliceFilter},
    {"sort", SortFilter},
    {"string", StringFilter},
    {"sum", SumFilter},
    {"title", Title},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"unique", UniqueFilter},
    {"upper", MapText<Upper>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

Function FindFilter(std::string_view name) {
  const auto* const it = std::lower_bound(std::begin(kFilters), std::end(kFilters), name,
                                          [](const auto& entry, std::string_view key) { return entry.first < key; });
  return it != std::end(kFilters) && it->first == name ? it->second : nullptr;
}

}  // namespace kvasir::chat::jinja
