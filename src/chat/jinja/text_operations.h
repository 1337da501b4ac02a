// chat/jinja/text_operations.h
// The operations on texts that methods and filters share. All keep origins and run in linear time.
//
// Thread rule: as Value.
#pragma once

#include <string_view>
#include <vector>

#include "chat/jinja/heap.h"
#include "chat/jinja/text.h"

namespace kvasir::chat::jinja {

enum class Side : uint8_t { kLeft = 1, kRight = 2, kBoth = 3 };

// Without characters in `set`; white space when `set` is null.
Text Strip(const Text& text, const std::string_view* set, Side side);
// At most `count` times, counted from the left; negative: all. An empty `from` matches between all characters.
Text Replace(Heap& heap, const Text& text, std::string_view from, const Text& to, int64_t count);
// At `separator`, at most `limit` cuts (negative: all), from the right if `reverse`. REQUIRES: separator is not empty.
std::vector<Text> Split(const Text& text, std::string_view separator, int64_t limit, bool reverse);
// At runs of white space, none at the ends; what `limit` leaves uncut keeps the white space of its far end.
std::vector<Text> SplitSpace(const Text& text, int64_t limit, bool reverse);
std::vector<Text> SplitLines(const Text& text, bool keep_ends);

Text Upper(Heap& heap, const Text& text);
Text Lower(Heap& heap, const Text& text);
Text SwapCase(Heap& heap, const Text& text);
// First character upper case, the rest lower.
Text Capitalize(Heap& heap, const Text& text);
// Every letter after a non-letter upper case, the rest lower: "they'Re".
Text TitleCase(Heap& heap, const Text& text);

}  // namespace kvasir::chat::jinja
