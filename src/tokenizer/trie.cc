#include "tokenizer/trie.h"

#include <algorithm>

namespace kvasir::tokenizer {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::stable_sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Breadth first: the queue holds, per node, the range of sorted texts below it.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, texts.size(), 0}};
  nodes_.resize(1);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Range range = ranges[n];
    while (range.begin < range.end && texts[range.begin].first.size() == range.depth) {
      if (range.depth > 0 && nodes_[n].value == kNone) nodes_[n].value = texts[range.begin].second;
      ++range.begin;
    }
    nodes_[n].first_child = static_cast<uint32_t>(nodes_.size());
    for (size_t i = range.begin; i < range.end;) {
      const char byte = texts[i].first[range.depth];
      size_t end = i + 1;
      while (end < range.end && texts[end].first[range.depth] == byte) ++end;
      Entry child;
      child.byte = static_cast<unsigned char>(byte);
      nodes_.push_back(child);
      ranges.push_back({i, end, range.depth + 1});
      nodes_[n].children = static_cast<uint16_t>(nodes_[n].children + 1);
      i = end;
    }
  }
  nodes_.shrink_to_fit();
}

Trie::Node Trie::Step(Node node, char byte) const {
  const auto wanted = static_cast<unsigned char>(byte);
  const Entry* first = nodes_.data() + nodes_[node].first_child;
  size_t count = nodes_[node].children;
  while (count > 8) {
    const size_t half = count / 2;
    if (first[half].byte <= wanted) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (first[i].byte == wanted) return static_cast<Node>(first + i - nodes_.data());
  }
  return kNowhere;
}

}  // namespace kvasir::tokenizer
