// kv/block_table.h
// The blocks in use: 32 tokens of one content each, how many hold them, and the cell of their pages in each tier.
//
// A block is filled from row 0 and never changes a row that more than one holder may read; that rule is the callers' to
// keep, the table counts. `count` is the number of rows that hold tokens: a holder may see fewer (it was truncated
// while the block was shared), never more. The table does not own cells: who drops the last hold frees them.
//
// Thread rule: engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/page_format.h"
#include "base/check.h"
#include "kv/page_store.h"
#include "kv/placement.h"

namespace kvasir::kv {

enum class BlockId : int32_t {};
constexpr BlockId kNoBlock{-1};

// A cell per tier, by static_cast<size_t>(Tier); kNoCell where nothing of the model lives.
constexpr size_t kTiers = 2;
using Cells = std::array<Cell, kTiers>;

struct Block {
  std::array<Token, backend::kBlockTokens> tokens{};
  int count = 0;              // rows that hold tokens
  BlockId parent = kNoBlock;  // the block before it in every sequence that holds it
  int references = 0;         // holders; 0: not in use
};

class BlockTable {
 public:
  // A block without rows, held once.
  BlockId Add(BlockId parent, const Cells& cells);
  void Hold(BlockId block) { ++Get(block).references; }
  // True when that was the last hold: the block is gone, and its cells are the caller's to free.
  bool Drop(BlockId block);

  // Puts tokens into the rows after `count`. REQUIRES: they fit, one holder.
  void Append(BlockId block, std::span<const Token> tokens);
  // Forgets the rows from `rows` on. REQUIRES: rows <= count, one holder.
  void Trim(BlockId block, int rows);

  const Block& operator[](BlockId block) const {
    const Block& found = blocks_[Index(block)];
    KVASIR_DCHECK(found.references > 0, "block {} is not in use", static_cast<int>(block));
    return found;
  }
  const Cells& cells(BlockId block) const { return cells_[Index(block)]; }
  int64_t size() const { return static_cast<int64_t>(blocks_.size() - free_.size()); }  // in use

  // Calls visit(BlockId, const Block&) for each block in use.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].references > 0) visit(BlockId{static_cast<int32_t>(i)}, blocks_[i]);
    }
  }

 private:
  static size_t Index(BlockId block) { return static_cast<size_t>(static_cast<uint32_t>(block)); }
  Block& Get(BlockId block);

  // Apart from the blocks, so that looking pages up walks dense memory.
  std::vector<Cells> cells_;
  std::vector<Block> blocks_;
  std::vector<BlockId> free_;
};

}  // namespace kvasir::kv
