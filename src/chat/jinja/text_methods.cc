#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/fail.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

using Answer = Result<Value>;

bool Absent(const Value* value) {
  return value == nullptr || value->is_none();
}

Result<Text> NeedText(const Value& value, std::string_view method) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.text() == nullptr) return Fail("{}() needs a string, not {}", method, TypeName(value));
  return *value.text();
}

template <Side kSide>
Answer StripMethod(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("strip", args, {"chars"}));
  if (Absent(bound[0])) return Value(Strip(*self.text(), nullptr, kSide));
  KVASIR_ASSIGN_OR_RETURN(const Text set, NeedText(*bound[0], "strip"));
  const std::string_view view = set.view();
  return Value(Strip(*self.text(), &view, kSide));
}

template <Text (*kMap)(Heap&, const Text&)>
Answer MapMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("a case method", args, {}));
  return Value(kMap(runtime.heap, *self.text()));
}

Value ListOf(Heap& heap, const std::vector<Text>& parts, List::Form form = List::Form::kList) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const Text& part : parts) items.emplace_back(part);
  return Value(heap.NewList(std::move(items), form));
}

template <bool kReverse>
Answer SplitMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("split", args, {"sep", "maxsplit"}));
  int64_t limit = -1;
  if (bound[1] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(limit, ToIndex(*bound[1]));
  }
  runtime.heap.Walk(self.text()->size());
  if (Absent(bound[0])) return ListOf(runtime.heap, SplitSpace(*self.text(), limit, kReverse));
  KVASIR_ASSIGN_OR_RETURN(const Text separator, NeedText(*bound[0], "split"));
  if (separator.empty()) return Fail("empty separator");
  return ListOf(runtime.heap, Split(*self.text(), separator.view(), limit, kReverse));
}

Answer SplitLinesMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("splitlines", args, {"keepends"}));
  return ListOf(runtime.heap, SplitLines(*self.text(), bound[0] != nullptr && Truthy(*bound[0])));
}

template <bool kReverse>
Answer PartitionMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("partition", args, {"sep"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const Text separator, NeedText(*bound[0], "partition"));
  if (separator.empty()) return Fail("empty separator");
  const Text& text = *self.text();
  const size_t at = kReverse ? text.view().rfind(separator.view()) : text.view().find(separator.view());
  std::vector<Text> parts;
  if (at == std::string_view::npos) {
    parts = kReverse ? std::vector<Text>{Text(), Text(), text} : std::vector<Text>{text, Text(), Text()};
  } else {
    const size_t after = at + separator.size();
    parts = {text.Sub(0, at), text.Sub(at, after), text.Sub(after, text.size())};
  }
  return ListOf(runtime.heap, parts, List::Form::kTuple);
}

Answer ReplaceMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("replace", args, {"old", "new", "count"}, 2));
  KVASIR_ASSIGN_OR_RETURN(const Text from, NeedText(*bound[0], "replace"));
  KVASIR_ASSIGN_OR_RETURN(const Text to, NeedText(*bound[1], "replace"));
  int64_t count = -1;
  if (bound[2] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(count, ToIndex(*bound[2]));
  }
  return Value(Replace(runtime.heap, *self.text(), from.view(), to, count));
}

// The window text[start:end] that search methods look at.
Result<Text> Window(const Text& text, const Value* start, const Value* end) {
  const auto length = static_cast<int64_t>(text.Length());
  int64_t bounds[2] = {0, length};
  const Value* given[2] = {start, end};
  for (int i = 0; i < 2; ++i) {
    if (Absent(given[i])) continue;
    KVASIR_ASSIGN_OR_RETURN(int64_t at, ToIndex(*given[i]));
    at = at < 0 ? std::max(at, -length) + length : at;
    bounds[i] = std::min(at, length);
  }
  const size_t begin = text.OffsetOf(static_cast<size_t>(bounds[0]));
  return text.Sub(begin, text.OffsetOf(static_cast<size_t>(std::max(bounds[0], bounds[1]))));
}

template <bool kPrefix>
Answer AffixMethod(Runtime& /*runtime*/, const Value& self, const Args& args) {
  const std::string_view name = kPrefix ? "startswith" : "endswith";
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind(name, args, {"affix", "start", "end"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const Text window, Window(*self.text(), bound[1], bound[2]));
  const std::string_view view = window.view();
  const auto matches = [&](std::string_view affix) {
    if (affix.size() > view.size()) return false;
    return view.substr(kPrefix ? 0 : view.size() - affix.size(), affix.size()) == affix;
  };
  if (const List* options = bound[0]->list(); options != nullptr && options->form == List::Form::kTuple) {
    bool any = false;
    for (const Value& option : options->items()) {
      KVASIR_ASSIGN_OR_RETURN(const Text affix, NeedText(option, name));
      any |= matches(affix.view());
    }
    return Value::Bool(any);
  }
  KVASIR_ASSIGN_OR_RETURN(const Text affix, NeedText(*bound[0], name));
  return Value::Bool(matches(affix.view()));
}

template <bool kReverse, bool kMustFind>
Answer FindMethodOf(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("find", args, {"sub", "start", "end"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const Text sub, NeedText(*bound[0], "find"));
  KVASIR_ASSIGN_OR_RETURN(const Text window, Window(*self.text(), bound[1], bound[2]));
  runtime.heap.Walk(self.text()->size());
  const size_t at = kReverse ? window.view().rfind(sub.view()) : window.view().find(sub.view());
  if (at == std::string_view::npos) return kMustFind ? Answer(Fail("substring not found")) : Value::Int(-1);
  const size_t offset = window.begin() - self.text()->begin() + at;
  return Value::Int(static_cast<int64_t>(self.text()->Sub(0, offset).Length()));
}

Answer CountMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("count", args, {"sub", "start", "end"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const Text sub, NeedText(*bound[0], "count"));
  KVASIR_ASSIGN_OR_RETURN(const Text window, Window(*self.text(), bound[1], bound[2]));
  runtime.heap.Walk(window.size());
  if (sub.empty()) return Value::Int(static_cast<int64_t>(window.Length()) + 1);
  return Value::Int(static_cast<int64_t>(Split(window, sub.view(), -1, false).size()) - 1);
}

Answer JoinMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("join", args, {"iterable"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const List* items, Iterate(runtime, *bound[0]));
  TextBuilder out(runtime.heap);
  for (size_t i = 0; i < items->size(); ++i) {
    const Text* item = items->at(i).text();
    if (item == nullptr) {
      return Fail("sequence item {}: expected str instance, {} found", i, TypeName(items->at(i)));
    }
    if (i > 0) out.Append(*self.text());
    out.Append(*item);
  }
  return Value(out.Finish());
}

Answer FormatMethod(Runtime& runtime, const Value& self, const Args& args) {
  return BraceFormat(runtime, *self.text(), args);
}

template <bool (*kIs)(char32_t)>
Answer AllMethod(Runtime& /*runtime*/, const Value& self, const Args& /*args*/) {
  const std::string_view bytes = self.str();
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = DecodeAt(bytes, at);
    if (!point.valid || !kIs(point.value)) return Value::Bool(false);
    at += point.size;
  }
  return Value::Bool(!bytes.empty());
}

bool IsLetterOrDigit(char32_t c) {
  return IsLetter(c) || IsDigit(c);
}

// islower and isupper answer as the tests of those names do.
Answer IsLowerMethod(Runtime& runtime, const Value& self, const Args& args) {
  return FindTest("lower")(runtime, self, args);
}
Answer IsUpperMethod(Runtime& runtime, const Value& self, const Args& args) {
  return FindTest("upper")(runtime, self, args);
}

template <bool kPrefix>
Answer RemoveAffixMethod(Runtime& /*runtime*/, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("removeprefix", args, {"affix"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const Text affix, NeedText(*bound[0], "removeprefix"));
  const Text& text = *self.text();
  if (affix.size() > text.size()) return self;
  const size_t cut = text.size() - affix.size();
  if (kPrefix) {
    return text.view().substr(0, affix.size()) == affix.view() ? Value(text.Sub(affix.size(), text.size())) : self;
  }
  return text.view().substr(cut) == affix.view() ? Value(text.Sub(0, cut)) : self;
}

enum class Justify : uint8_t { kLeft, kRight, kCenter, kZeros };

template <Justify kHow>
Answer JustifyMethod(Runtime& runtime, const Value& self, const Args& args) {
  KVASIR_ASSIGN_OR_RETURN(const auto bound, Bind("a justify method", args, {"width", "fillchar"}, 1));
  KVASIR_ASSIGN_OR_RETURN(const int64_t width, ToIndex(*bound[0]));
  std::string fill = kHow == Justify::kZeros ? "0" : " ";
  if (bound[1] != nullptr) {
    KVASIR_ASSIGN_OR_RETURN(const Text given, NeedText(*bound[1], "justify"));
    if (given.Length() != 1) return Fail("the fill character must be exactly one character long");
    fill = given.view();
  }
  const Text& text = *self.text();
  const auto length = static_cast<int64_t>(text.Length());
  if (width <= length) return self;
  const int64_t pad = width - length;
  // Python gives the odd cell of center() to the left when the width is odd.
  const int64_t left = kHow == Justify::kLeft ? 0 : kHow == Justify::kCenter ? pad / 2 + (pad & width & 1) : pad;
  TextBuilder out(runtime.heap);
  const bool sign = kHow == Justify::kZeros && !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  if (sign) out.Append(text.Sub(0, 1));
  out.AppendRepeated(fill, left);
  out.Append(sign ? text.Sub(1, text.size()) : text);
  out.AppendRepeated(fill, pad - left);
  return Value(out.Finish());
}

constexpr std::pair<std::string_view, Function> kMethods[] = {
    {"capitalize", MapMethod<Capitalize>},
    {"casefold", MapMethod<Lower>},
    {"center", JustifyMethod<Justify::kCenter>},
    {"count", CountMethod},
    {"endswith", AffixMethod<false>},
    {"find", FindMethodOf<false, false>},
    {"format", FormatMethod},
    {"index", FindMethodOf<false, true>},
    {"isalnum", AllMethod<IsLetterOrDigit>},
    {"isalpha", AllMethod<IsLetter>},
    {"isdecimal", AllMethod<IsDigit>},
    {"isdigit", AllMethod<IsDigit>},
    {"islower", IsLowerMethod},
    {"isnumeric", AllMethod<IsDigit>},
    {"isspace", AllMethod<IsSpace>},
    {"isupper", IsUpperMethod},
    {"join", JoinMethod},
    {"ljust", JustifyMethod<Justify::kLeft>},
    {"lower", MapMethod<Lower>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffixMethod<true>},
    {"removesuffix", RemoveAffixMethod<false>},
    {"replace", ReplaceMethod},
    {"rfind", FindMethodOf<true, false>},
    {"rindex", FindMethodOf<true, true>},
    {"rjust", JustifyMethod<Justify::kRight>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", AffixMethod<true>},
    {"strip", StripMethod<Side::kBoth>},
    {"swapcase", MapMethod<SwapCase>},
    {"title", MapMethod<TitleCase>},
    {"upper", MapMethod<Upper>},
    {"zfill", JustifyMethod<Justify::kZeros>},
};

}  // namespace

Method FindTextMethod(std::string_view name) {
  const auto* const it = std::lower_bound(std::begin(kMethods), std::end(kMethods), name,
                                          [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (it == std::end(kMethods) || it->first != name) return {};
  return {it->second};
}

}  // namespace kvasir::chat::jinja
