// tokenizer/trie.h
// A byte trie over token texts: every token that begins at a place of a text, found in one walk.
//
// Nodes of one parent lie side by side and sorted, so a step is a short scan or a binary search; building is by
// sorting, not by insertion. It does not own the texts.
//
// Thread rule: const after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir::tokenizer {

class Trie {
 public:
  static constexpr int32_t kNone = -1;
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNowhere = 0xFFFFFFFF;

  Trie() : nodes_(1) {}
  // Of equal texts the first stays; empty ones are left out.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> texts);

  Node Step(Node node, char byte) const;
  int32_t Value(Node node) const { return nodes_[node].value; }

 private:
  struct Entry {
    uint32_t first_child = 0;
    int32_t value = kNone;
    uint16_t children = 0;
    unsigned char byte = 0;  // on the edge that leads here
  };
  std::vector<Entry> nodes_;
};

}  // namespace kvasir::tokenizer
