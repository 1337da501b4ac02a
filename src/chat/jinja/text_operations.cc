#include "chat/jinja/text_operations.h"

#include <algorithm>

#include "chat/jinja/unicode.h"

namespace kvasir::chat::jinja {
namespace {

// Maps each character; `map` sees them in order.
template <typename Map>
Text MapCharacters(Heap& heap, const Text& text, Map map) {
  TextBuilder out(heap);
  text.ForEachRun([&](std::string_view bytes, Origin origin) {
    std::string piece;
    piece.reserve(bytes.size());
    for (size_t at = 0; at < bytes.size();) {
      const CodePoint point = DecodeAt(bytes, at);
      if (point.valid) {
        AppendUtf8(piece, map(point.value));
      } else {
        piece += bytes[at];
      }
      at += point.size;
    }
    out.Append(piece, origin);
  });
  return out.Finish().WithMarkup(text.markup());
}

bool Removable(const CodePoint& point, std::string_view bytes, size_t at, const std::string_view* set) {
  if (set == nullptr) return point.valid && IsSpace(point.value);
  const std::string_view character = bytes.substr(at, point.size);
  for (size_t i = 0; i < set->size();) {
    const size_t size = DecodeAt(*set, i).size;
    if (set->substr(i, size) == character) return true;
    i += size;
  }
  return false;
}

bool IsSpaceAt(std::string_view bytes, size_t at) {
  const CodePoint point = DecodeAt(bytes, at);
  return point.valid && IsSpace(point.value);
}

}  // namespace

Text Strip(const Text& text, const std::string_view* set, Side side) {
  const std::string_view bytes = text.view();
  size_t begin = 0, end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end) {
      const CodePoint point = DecodeAt(bytes, begin);
      if (!Removable(point, bytes, begin, set)) break;
      begin += point.size;
    }
  }
  if (side != Side::kLeft) {
    while (end > begin) {
      const size_t at = PreviousCharacter(bytes, end);
      if (at < begin || !Removable(DecodeAt(bytes, at), bytes, at, set)) break;
      end = at;
    }
  }
  return text.Sub(begin, end);
}

Text Replace(Heap& heap, const Text& text, std::string_view from, const Text& to, int64_t count) {
  // Results are made of new buffers only, so views of the arguments stay valid.
  const std::string_view bytes = text.view();
  TextBuilder out(heap);
  size_t done = 0;
  if (from.empty()) {
    for (size_t at = 0; at <= bytes.size() && count != 0; --count) {
      out.Append(text.Sub(done, at));
      out.Append(to);
      if (!heap.Step()) break;
      done = at;
      at += at < bytes.size() ? DecodeAt(bytes, at).size : 1;
    }
  } else {
    for (size_t at = bytes.find(from); at != std::string_view::npos && count != 0; --count) {
      out.Append(text.Sub(done, at));
      out.Append(to);
      if (!heap.Step()) break;
      done = at + from.size();
      at = bytes.find(from, done);
    }
    if (done == 0) return text;
  }
  out.Append(text.Sub(done, bytes.size()));
  return out.Finish().WithMarkup(text.markup());
}

std::vector<Text> Split(const Text& text, std::string_view separator, int64_t limit, bool reverse) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  if (!reverse) {
    size_t begin = 0;
    for (size_t at = bytes.find(separator); at != std::string_view::npos && limit != 0; --limit) {
      parts.push_back(text.Sub(begin, at));
      begin = at + separator.size();
      at = bytes.find(separator, begin);
    }
    parts.push_back(text.Sub(begin, bytes.size()));
    return parts;
  }
  size_t end = bytes.size();
  while (limit != 0 && end >= separator.size()) {
    const size_t at = bytes.rfind(separator, end - separator.size());
    if (at == std::string_view::npos) break;
    parts.push_back(text.Sub(at + separator.size(), end));
    end = at;
    --limit;
  }
  parts.push_back(text.Sub(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> SplitSpace(const Text& text, int64_t limit, bool reverse) {
  std::vector<Text> parts;
  Text rest = Strip(text, nullptr, reverse ? Side::kRight : Side::kLeft);
  while (!rest.empty()) {
    const std::string_view bytes = rest.view();
    if (limit == 0) {
      parts.push_back(rest);
      break;
    }
    --limit;
    if (!reverse) {
      size_t end = 0;
      while (end < bytes.size() && !IsSpaceAt(bytes, end)) end += DecodeAt(bytes, end).size;
      parts.push_back(rest.Sub(0, end));
      rest = Strip(rest.Sub(end, bytes.size()), nullptr, Side::kLeft);
    } else {
      size_t begin = bytes.size();
      while (begin > 0 && !IsSpaceAt(bytes, PreviousCharacter(bytes, begin))) begin = PreviousCharacter(bytes, begin);
      parts.push_back(rest.Sub(begin, bytes.size()));
      rest = Strip(rest.Sub(0, begin), nullptr, Side::kRight);
    }
  }
  if (reverse) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> SplitLines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = DecodeAt(bytes, at);
    size_t next = at + point.size;
    if (!point.valid || !IsLineBreak(point.value)) {
      at = next;
      continue;
    }
    if (point.value == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
    lines.push_back(text.Sub(begin, keep_ends ? next : at));
    begin = at = next;
  }
  if (begin < bytes.size()) lines.push_back(text.Sub(begin, bytes.size()));
  return lines;
}

Text Upper(Heap& heap, const Text& text) {
  return MapCharacters(heap, text, ToUpper);
}
Text Lower(Heap& heap, const Text& text) {
  return MapCharacters(heap, text, ToLower);
}

Text SwapCase(Heap& heap, const Text& text) {
  return MapCharacters(heap, text, [](char32_t c) { return ToUpper(c) != c ? ToUpper(c) : ToLower(c); });
}

Text Capitalize(Heap& heap, const Text& text) {
  bool first = true;
  return MapCharacters(heap, text, [&first](char32_t c) {
    const char32_t mapped = first ? ToUpper(c) : ToLower(c);
    first = false;
    return mapped;
  });
}

Text TitleCase(Heap& heap, const Text& text) {
  bool after_letter = false;
  return MapCharacters(heap, text, [&after_letter](char32_t c) {
    const char32_t mapped = after_letter ? ToLower(c) : ToUpper(c);
    after_letter = IsLetter(c);
    return mapped;
  });
}

}  // namespace kvasir::chat::jinja
