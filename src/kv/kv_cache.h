// kv/kv_cache.h
// The KV of all live sequences: which blocks a sequence is made of, and how it grows, forks and shrinks.
//
// A sequence is a list of blocks of 32 tokens. Blocks are shared by reference between sequences; a shared block that
// would be written is copied first, only the rows that are kept. Growth is in two moves: Reserve finds every page a
// step will write, or nothing at all; Commit makes the tokens part of the sequence. A Reservation that is destroyed
// rolls back. What it does not do: run attention, choose victims, or know the model.
//
// Layers with a window keep their pages for all positions, so that any prefix can be taken up again exactly; their
// window bounds what attention reads, not yet what is stored.
//
// Thread rule: engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/block_table.h"
#include "kv/page_store.h"
#include "kv/placement.h"

namespace kvasir::kv {

enum class SequenceId : int32_t {};

struct Growth {
  SequenceId sequence{};
  std::span<const Token> tokens;  // appended; at least one
};

struct CacheLimits {
  StoreLimits device{};
  StoreLimits host{};
};

struct CacheUsage {
  size_t used_bytes = 0;      // pages of blocks in use, each shared block counted once
  size_t reserved_bytes = 0;  // slabs
  int64_t blocks = 0;
  int64_t tokens = 0;  // over all sequences, shared ones counted for each
};

class KvCache;

// Room for one step. Move-only; destroyed without Commit, the sequences are as before. The cache must outlive it.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

 private:
  friend class KvCache;
  explicit Reservation(KvCache* cache) : cache_(cache) {}

  KvCache* cache_ = nullptr;  // null: committed, or moved from
  std::vector<SequenceId> sequences_;
};

class KvCache {
 public:
  // Nothing is allocated until tokens come. `backend` must outlive the cache. kInvalidArgument: see ValidatePlacement;
  // or a budget that does not hold one extent.
  static Result<std::unique_ptr<KvCache>> Create(backend::Backend& backend, CacheShape shape, Placement placement,
                                                 CacheLimits limits);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  SequenceId Open();
  // REQUIRES: no reservation open on it.
  void Close(SequenceId sequence);
  // A new sequence with the first `tokens` tokens of `source`: whole blocks by reference, the rest of one block by
  // copy. kResourceExhausted when there is no cell for the copy. REQUIRES: tokens <= length(source), no reservation
  // open on it.
  Result<SequenceId> Fork(SequenceId source, int tokens);
  // Forgets the tokens from `tokens` on. REQUIRES: tokens <= length(sequence), no reservation open on it.
  void Truncate(SequenceId sequence, int tokens);

  // Pages for all of `growths` or for none. Until Commit, length() is unchanged, but Page() answers for the new
  // positions. kResourceExhausted says how many cells are missing. REQUIRES: each sequence at most once; no reservation
  // open on any.
  Result<Reservation> Reserve(std::span<const Growth> growths);
  // REQUIRES: the rows of the new positions are written, or will be by operations already enqueued.
  void Commit(Reservation reservation);

  int length(SequenceId sequence) const { return At(sequence).length; }
  std::span<const Token> tokens(SequenceId sequence) const;    // committed ones
  std::span<const BlockId> blocks(SequenceId sequence) const;  // with reserved ones, in position order
  // Rows of the block that hold tokens; apart from what an open reservation writes, the rows past them are zero. More
  // than a sequence sees where it was truncated while the block was shared: length() decides.
  int rows(BlockId block) const { return blocks_[block].count; }
  // Address of the page of `block` for (layer, unit), in the tier that is the unit's home. Stays until the block is
  // gone.
  std::byte* Page(BlockId block, int layer, int unit) const {
    const auto tier = static_cast<size_t>(homes_[static_cast<size_t>(layer * unit_stride_ + unit)]);
    return stores_[tier].Page(blocks_.cells(block)[tier], layer, unit);
  }
  Tier home(int layer, int unit) const { return homes_[static_cast<size_t>(layer * unit_stride_ + unit)]; }

  const CacheShape& shape() const { return shape_; }
  const Placement& placement() const { return placement_; }
  std::span<const Lane> lanes(int layer) const;
  CacheUsage usage() const;
  // Tokens that could still be appended to one fresh sequence, as far as budgets decide.
  int64_t free_tokens() const;
  void Shrink();  // gives empty slabs back

  // Aborts when a count, a link or a byte of accounting is wrong: for tests and debug builds. Costs O(all blocks and
  // tokens).
  void CheckInvariants() const;

 private:
  friend class Reservation;

  struct Sequence {
    int length = 0;                    // committed tokens
    std::vector<Token> tokens;         // longer than `length` while a reservation is open
    std::vector<BlockId> blocks;       // for all of `tokens`
    BlockId replaced_tail = kNoBlock;  // still held: the shared tail that the open reservation replaced by a copy
    bool reserved() const { return tokens.size() > static_cast<size_t>(length); }
  };

  KvCache(backend::Backend& backend, CacheShape shape, Placement placement, CacheLimits limits);

  const Sequence& At(SequenceId sequence) const;
  Sequence& At(SequenceId sequence);
  int64_t CellsToGrow(const Sequence& sequence, size_t tokens) const;
  Status CheckRoom(int64_t cells, int64_t tokens) const;
  Status Extend(Sequence& sequence, std::span<const Token> tokens);
  // REQUIRES: `index` <= the number of blocks. Follows the block at index - 1; the caller puts it in its place.
  Result<BlockId> AddBlock(const Sequence& sequence, size_t index);
  void DropBlock(BlockId block);
  void CopyRows(BlockId to, BlockId from, int rows);
  // Makes the rows from `rows` on of a block with one holder empty and zero.
  void TrimRows(BlockId block, int rows);
  void ClearRows(BlockId block, int rows);
  void RollBack(SequenceId sequence);

  CacheShape shape_;
  Placement placement_;
  std::vector<size_t> first_lane_;  // [layers + 1] into placement_
  int unit_stride_ = 0;
  std::vector<Tier> homes_;  // [layers, unit_stride_]
  std::array<PageStore, kTiers> stores_;
  BlockTable blocks_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  int32_t next_sequence_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace kvasir::kv
