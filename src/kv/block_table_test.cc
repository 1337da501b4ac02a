#include "kv/block_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvasir::kv {
namespace {

TEST(BlockTable, ABlockIsGoneWithItsLastHold) {
  BlockTable table;
  const BlockId root = table.Add(kNoBlock, {4, kNoCell});
  const BlockId child = table.Add(root, {5, kNoCell});
  table.Hold(root);
  EXPECT_FALSE(table.Drop(root));
  EXPECT_TRUE(table.Drop(root));
  EXPECT_EQ(table.size(), 1);
  EXPECT_EQ(table[child].parent, root);
  EXPECT_EQ(table.cells(root)[0], 4);  // until the number is used again
}

TEST(BlockTable, ANumberThatIsUsedAgainStartsWithoutRowsOrHolders) {
  BlockTable table;
  const BlockId first = table.Add(kNoBlock, {1, 2});
  const std::vector<Token> tokens = {7, 8, 9};
  table.Append(first, tokens);
  table.Drop(first);
  const BlockId second = table.Add(BlockId{40}, {3, 4});
  EXPECT_EQ(second, first);
  EXPECT_EQ(table[second].count, 0);
  EXPECT_EQ(table[second].references, 1);
  EXPECT_EQ(table[second].parent, BlockId{40});
  EXPECT_EQ(table.cells(second), (Cells{3, 4}));
}

TEST(BlockTable, AppendContinuesAtCountAndTrimGoesBack) {
  BlockTable table;
  const BlockId block = table.Add(kNoBlock, {0, kNoCell});
  table.Append(block, std::vector<Token>{1, 2, 3});
  table.Trim(block, 1);
  table.Append(block, std::vector<Token>{5});
  EXPECT_EQ(table[block].count, 2);
  EXPECT_EQ(table[block].tokens[0], 1);
  EXPECT_EQ(table[block].tokens[1], 5);
}

TEST(BlockTableDeathTest, RowsOfASharedBlockAreNotChanged) {
  BlockTable table;
  const BlockId block = table.Add(kNoBlock, {0, kNoCell});
  table.Append(block, std::vector<Token>{1, 2});
  table.Hold(block);
  EXPECT_DEATH(table.Append(block, std::vector<Token>{3}), "block 0");
  EXPECT_DEATH(table.Trim(block, 1), "block 0");
}

}  // namespace
}  // namespace kvasir::kv
