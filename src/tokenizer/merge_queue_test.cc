#include "tokenizer/merge_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/trie.h"

namespace kvasir::tokenizer {
namespace {

// Tokens are strings; a pair merges to their concatenation if the table has it.
struct TableJoins {
  std::map<std::pair<Token, Token>, std::pair<uint32_t, Token>> table;
  bool Find(const Symbol& left, const Symbol& right, uint32_t& rank, Token& merged) const {
    const auto found = table.find({left.token, right.token});
    if (found == table.end()) return false;
    rank = found->second.first;
    merged = found->second.second;
    return true;
  }
};

std::vector<Symbol> SymbolsOf(const std::vector<Token>& tokens) {
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < tokens.size(); ++i) symbols.push_back({static_cast<uint32_t>(i), 1, tokens[i]});
  return symbols;
}

std::vector<Token> TokensOf(const std::vector<Symbol>& symbols) {
  std::vector<Token> tokens;
  for (const Symbol& symbol : symbols) tokens.push_back(symbol.token);
  return tokens;
}

// The definition: the smallest rank of all neighbours, the leftmost of those, again and again.
std::vector<Token> MergeSlowly(std::vector<Token> tokens, const TableJoins& joins) {
  for (;;) {
    uint32_t best_rank = 0;
    size_t best = tokens.size();
    Token best_merged = kNoToken;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      uint32_t rank;
      Token merged;
      if (!joins.Find({0, 1, tokens[i]}, {0, 1, tokens[i + 1]}, rank, merged)) continue;
      if (best == tokens.size() || rank < best_rank) {
        best_rank = rank;
        best = i;
        best_merged = merged;
      }
    }
    if (best == tokens.size()) return tokens;
    tokens[best] = best_merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// Ranks are shuffled, so that merging often makes pairs better than the one at hand, and shared, so that different
// pairs tie.
TEST(MergeQueue, MergesInTheOrderOfTheDefinition) {
  std::mt19937 random(11);
  MergeQueue queue;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> texts = {"a", "b", "c"};
    std::map<std::string, Token> ids = {{"a", 0}, {"b", 1}, {"c", 2}};
    TableJoins joins;
    const uint32_t ranks = 1 + random() % 30;
    for (int i = 0; i < 25; ++i) {
      const auto left = static_cast<Token>(random() % texts.size()),
                 right = static_cast<Token>(random() % texts.size());
      const std::string text = texts[static_cast<size_t>(left)] + texts[static_cast<size_t>(right)];
      if (text.size() > 9) continue;
      const auto [entry, fresh] = ids.emplace(text, static_cast<Token>(texts.size()));
      if (fresh) texts.push_back(text);
      joins.table.emplace(std::pair{left, right}, std::pair{static_cast<uint32_t>(random() % ranks), entry->second});
    }
    std::vector<Token> tokens;
    const size_t count = 1 + random() % (round % 2 == 0 ? 32 : 300);
    for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<Token>(random() % 3));
    std::vector<Symbol> symbols = SymbolsOf(tokens);
    queue.Merge(symbols, joins, ranks);
    ASSERT_EQ(TokensOf(symbols), MergeSlowly(tokens, joins)) << "round " << round;
    uint32_t begin = 0;
    for (const Symbol& symbol : symbols) {
      ASSERT_EQ(symbol.begin, begin);
      ASSERT_EQ(symbol.size, texts[static_cast<size_t>(symbol.token)].size());
      begin += symbol.size;
    }
  }
}

TEST(MergeQueue, NothingToMerge) {
  MergeQueue queue;
  std::vector<Symbol> none;
  queue.Merge(none, TableJoins{}, 1);
  EXPECT_TRUE(none.empty());
  std::vector<Symbol> many = SymbolsOf(std::vector<Token>(100, 7));
  queue.Merge(many, TableJoins{}, 0);
  EXPECT_EQ(many.size(), 100u);
}

TEST(Trie, FindsEveryTextAndNoOther) {
  std::mt19937 random(5);
  std::map<std::string, int32_t> texts;
  for (int i = 0; i < 600; ++i) {
    std::string text;
    for (size_t n = 1 + random() % 5; n > 0; --n) text += static_cast<char>(random() % (i % 3 == 0 ? 256 : 4));
    texts.emplace(text, i);
  }
  const Trie trie({texts.begin(), texts.end()});
  const auto value_of = [&](const std::string& text) {
    Trie::Node node = Trie::kRoot;
    for (const char byte : text) {
      node = trie.Step(node, byte);
      if (node == Trie::kNowhere) return Trie::kNone;
    }
    return trie.Value(node);
  };
  for (const auto& [text, value] : texts) EXPECT_EQ(value_of(text), value);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (size_t n = 1 + random() % 5; n > 0; --n) text += static_cast<char>(random() % 4);
    const auto found = texts.find(text);
    EXPECT_EQ(value_of(text), found == texts.end() ? Trie::kNone : found->second);
  }
  EXPECT_EQ(Trie().Step(Trie::kRoot, 'a'), Trie::kNowhere);
}

}  // namespace
}  // namespace kvasir::tokenizer
