#include "kv/block_table.h"

#include <algorithm>

namespace kvasir::kv {

Block& BlockTable::Get(BlockId block) {
  KVASIR_CHECK(Index(block) < blocks_.size() && blocks_[Index(block)].references > 0, "block {} is not in use",
               static_cast<int>(block));
  return blocks_[Index(block)];
}

BlockId BlockTable::Add(BlockId parent, const Cells& cells) {
  if (free_.empty()) {
    free_.push_back(BlockId{static_cast<int32_t>(blocks_.size())});
    blocks_.emplace_back();
    cells_.emplace_back();
  }
  const BlockId id = free_.back();
  free_.pop_back();
  blocks_[Index(id)].count = 0;
  blocks_[Index(id)].parent = parent;
  blocks_[Index(id)].references = 1;
  cells_[Index(id)] = cells;
  return id;
}

bool BlockTable::Drop(BlockId block) {
  if (--Get(block).references > 0) return false;
  free_.push_back(block);
  return true;
}

void BlockTable::Append(BlockId block, std::span<const Token> tokens) {
  Block& found = Get(block);
  const size_t count = static_cast<size_t>(found.count);
  KVASIR_CHECK(found.references == 1 && count + tokens.size() <= found.tokens.size(), "block {}",
               static_cast<int>(block));
  std::copy(tokens.begin(), tokens.end(), found.tokens.begin() + found.count);
  found.count += static_cast<int>(tokens.size());
}

void BlockTable::Trim(BlockId block, int rows) {
  Block& found = Get(block);
  KVASIR_CHECK(found.references == 1 && rows >= 0 && rows <= found.count, "block {}", static_cast<int>(block));
  found.count = rows;
}

}  // namespace kvasir::kv
