#include "chat/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/jinja/fail.h"
#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

Error TooDeep() {
  return Fail("a value is nested more than {} levels deep", kMaxValueDepth);
}

// Appends runs of `text`, replacing each character that `escape` has a spelling for. `escape` returns an empty string
// to keep.
template <typename Escape>
void AppendEscaped(TextBuilder& out, const Text& text, Escape escape) {
  text.ForEachRun([&](std::string_view bytes, Origin origin) {
    std::string piece;
    for (size_t at = 0; at < bytes.size();) {
      const CodePoint point = DecodeAt(bytes, at);
      const std::string spelled = escape(point);
      if (spelled.empty()) {
        piece.append(bytes, at, point.size);
      } else {
        piece += spelled;
      }
      at += point.size;
    }
    out.Append(piece, origin);
  });
}

std::string ReprEscape(const CodePoint& point, char quote) {
  const char32_t c = point.value;
  if (c == static_cast<unsigned char>(quote)) return std::string("\\") + quote;
  if (c >= 0x20 && c < 0x7f && c != '\\') return {};
  switch (c) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (point.valid && IsPrintable(c)) return {};
  if (c < 0x100) return fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  return fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
}

std::string JsonEscape(const CodePoint& point, bool ensure_ascii) {
  const char32_t c = point.value;
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  if (c >= 0x20 && (c < 0x80 || !ensure_ascii)) return {};
  if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  const auto rest = static_cast<uint32_t>(c) - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

class Printer {
 public:
  explicit Printer(Heap& heap) : heap_(heap), out_(heap) {}

  Text Finish() const { return out_.Finish(); }

  Status Repr(const Value& value, Origin origin, int depth) {
    if (depth > kMaxValueDepth) return TooDeep();
    if (!heap_.Step()) return heap_.ExhaustedError();
    switch (value.kind()) {
      case Kind::kUndefined:
        out_.Append("Undefined", origin);
        return {};
      case Kind::kText:
        Quote(*value.text(), origin);
        return {};
      case Kind::kList:
        return ReprList(*value.list(), depth);
      case Kind::kDict:
        return ReprDict(*value.dict(), depth);
      default:
        out_.Append(Scalar(value), origin);
        return {};
    }
  }

  static std::string Scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return "None";
      case Kind::kBool:
        return *value.boolean() ? "True" : "False";
      case Kind::kInt:
        return fmt::format("{}", *value.integer());
      case Kind::kFloat:
        return FloatRepr(*value.real());
      case Kind::kNamespace:
        return "<Namespace>";
      case Kind::kLoop:
        return fmt::format("<LoopContext {}/{}>", value.loop()->index + 1, value.loop()->items->size());
      case Kind::kCallable: {
        const Callable& callable = *value.callable();
        return fmt::format("<{} '{}'>", callable.macro != nullptr ? "Macro" : "function", callable.name);
      }
      default:
        return {};
    }
  }

 private:
  void Quote(const Text& text, Origin origin) {
    const std::string_view bytes = text.view();
    const bool has_single = bytes.find('\'') != std::string_view::npos;
    const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
    out_.Append(std::string_view(&quote, 1), origin);
    AppendEscaped(out_, text, [quote](const CodePoint& point) { return ReprEscape(point, quote); });
    out_.Append(std::string_view(&quote, 1), origin);
  }

  Status ReprList(const List& list, int depth) {
    using Form = List::Form;
    if (list.form == Form::kGenerator) {
      out_.Append("<generator object>", list.origin);
      return {};
    }
    if (list.form == Form::kRange) {
      const int64_t first = list.size() == 0 ? 0 : list.at(0).AsInt();
      const int64_t step = list.size() < 2 ? 1 : list.at(1).AsInt() - first;
      const int64_t stop = first + step * static_cast<int64_t>(list.size());
      out_.Append(
          step == 1 ? fmt::format("range({}, {})", first, stop) : fmt::format("range({}, {}, {})", first, stop, step),
          list.origin);
      return {};
    }
    const std::string_view open = list.form == Form::kTuple    ? "("
                                  : list.form == Form::kKeys   ? "dict_keys(["
                                  : list.form == Form::kValues ? "dict_values(["
                                  : list.form == Form::kItems  ? "dict_items(["
                                                               : "[";
    const std::string_view close = list.form == Form::kTuple  ? (list.size() == 1 ? ",)" : ")")
                                   : list.form == Form::kList ? "]"
                                                              : "])";
    out_.Append(open, list.origin);
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_.Append(", ", list.origin);
      KVASIR_RETURN_IF_ERROR(Repr(list.at(i), list.origin, depth + 1));
    }
    out_.Append(close, list.origin);
    return {};
  }

  Status ReprDict(const Dict& dict, int depth) {
    out_.Append("{", dict.origin);
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) out_.Append(", ", dict.origin);
      first = false;
      KVASIR_RETURN_IF_ERROR(Repr(key, dict.origin, depth + 1));
      out_.Append(": ", dict.origin);
      KVASIR_RETURN_IF_ERROR(Repr(value, dict.origin, depth + 1));
    }
    out_.Append("}", dict.origin);
    return {};
  }

  Heap& heap_;
  TextBuilder out_;
};

class JsonPrinter {
 public:
  JsonPrinter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style), out_(heap) {}

  Text Finish() const { return out_.Finish(); }

  Status Print(const Value& value, Origin origin, int depth) {
    if (depth > kMaxValueDepth) return TooDeep();
    if (!heap_.Step()) return heap_.ExhaustedError();
    switch (value.kind()) {
      case Kind::kText:
        Quote(*value.text(), origin);
        return {};
      case Kind::kDict:
        return PrintDict(*value.dict(), depth);
      case Kind::kList:
        if (style_.generators || value.list()->form == List::Form::kList || value.list()->form == List::Form::kTuple) {
          return PrintList(*value.list(), depth);
        }
        break;
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_.Append(Scalar(value), origin);
        return {};
      default:
        break;
    }
    return Fail("Object of type {} is not JSON serializable", TypeName(value));
  }

 private:
  static std::string Scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kBool:
        return *value.boolean() ? "true" : "false";
      case Kind::kInt:
        return fmt::format("{}", *value.integer());
      case Kind::kFloat:
        if (std::isnan(*value.real())) return "NaN";
        if (std::isinf(*value.real())) return *value.real() < 0 ? "-Infinity" : "Infinity";
        return FloatRepr(*value.real());
      default:
        return "null";
    }
  }

  void Quote(const Text& text, Origin origin) {
    out_.Append("\"", origin);
    const bool ensure_ascii = style_.ensure_ascii;
    AppendEscaped(out_, text, [ensure_ascii](const CodePoint& point) { return JsonEscape(point, ensure_ascii); });
    out_.Append("\"", origin);
  }

  void Break(int depth, Origin origin) {
    if (!style_.pretty) return;
    out_.Append("\n", origin);
    out_.AppendRepeated(style_.indent, depth, origin);
  }

  Status PrintList(const List& list, int depth) {
    if (list.size() == 0) {
      out_.Append("[]", list.origin);
      return {};
    }
    out_.Append("[", list.origin);
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator, list.origin);
      Break(depth + 1, list.origin);
      KVASIR_RETURN_IF_ERROR(Print(list.at(i), list.origin, depth + 1));
    }
    Break(depth, list.origin);
    out_.Append("]", list.origin);
    return {};
  }

  Status PrintDict(const Dict& dict, int depth) {
    if (dict.size() == 0) {
      out_.Append("{}", dict.origin);
      return {};
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const Dict::Entry* a, const Dict::Entry* b) {
        const auto less = Less(a->first, b->first);
        return less.ok() && *less;
      });
    }
    out_.Append("{", dict.origin);
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      if (!first) out_.Append(style_.item_separator, dict.origin);
      first = false;
      Break(depth + 1, dict.origin);
      const Value& key = entry->first;
      if (key.text() != nullptr) {
        Quote(*key.text(), dict.origin);
      } else if (key.is_none() || key.is_number()) {
        out_.Append("\"" + Scalar(key) + "\"", dict.origin);
      } else {
        return Fail("keys must be str, int, float, bool or None, not {}", TypeName(key));
      }
      out_.Append(style_.key_separator, dict.origin);
      KVASIR_RETURN_IF_ERROR(Print(entry->second, dict.origin, depth + 1));
    }
    Break(depth, dict.origin);
    out_.Append("}", dict.origin);
    return {};
  }

  Heap& heap_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t mark = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(mark + 1)).c_str());
  // Python switches to an exponent outside 1e-4 .. 1e16.
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

Result<Text> Str(Heap& heap, const Value& value) {
  if (value.text() != nullptr) return *value.text();
  if (value.is_undefined()) return Text();
  return Repr(heap, value);
}

Result<Text> Repr(Heap& heap, const Value& value) {
  Printer printer(heap);
  KVASIR_RETURN_IF_ERROR(
      printer.Repr(value, value.text() != nullptr ? value.text()->FirstOrigin() : value.origin(), 0));
  return printer.Finish();
}

Result<Text> ToJson(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(heap, style);
  const Origin origin = value.text() != nullptr ? value.text()->FirstOrigin() : value.origin();
  KVASIR_RETURN_IF_ERROR(printer.Print(value, origin, 0));
  return printer.Finish();
}

Text EscapeHtml(Heap& heap, const Text& text) {
  TextBuilder out(heap);
  AppendEscaped(out, text, [](const CodePoint& point) -> std::string {
    switch (point.value) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '\'':
        return "&#39;";
      case '"':
        return "&#34;";
      default:
        return {};
    }
  });
  return out.Finish();
}

}  // namespace kvasir::chat::jinja
