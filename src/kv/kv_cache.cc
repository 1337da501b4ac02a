#include "kv/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvasir::kv {
namespace {

using backend::kBlockTokens;
using backend::kSpanBlocks;

size_t BlocksFor(size_t tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}
double MiB(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}
const char* TierName(Tier tier) {
  return tier == Tier::kDevice ? "device" : "host";
}

}  // namespace

Reservation::Reservation(Reservation&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)), sequences_(std::move(other.sequences_)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  // What this one held rolls back in the temporary's destructor.
  Reservation moved(std::move(other));
  std::swap(cache_, moved.cache_);
  std::swap(sequences_, moved.sequences_);
  return *this;
}

Reservation::~Reservation() {
  if (cache_ == nullptr) return;
  for (const SequenceId sequence : sequences_) cache_->RollBack(sequence);
}

Result<std::unique_ptr<KvCache>> KvCache::Create(backend::Backend& backend, CacheShape shape, Placement placement,
                                                 CacheLimits limits) {
  KVASIR_RETURN_IF_ERROR(ValidatePlacement(shape, placement));
  std::unique_ptr<KvCache> cache(new KvCache(backend, std::move(shape), std::move(placement), limits));
  for (const PageStore& store : cache->stores_) {
    if (store.empty() || store.allocatable_cells() > 0) continue;
    const StoreLimits& limit = store.tier() == Tier::kDevice ? limits.device : limits.host;
    return MakeError(ErrorCode::kInvalidArgument,
                     "the {} KV budget of {:.2f} MiB does not hold {} tokens, the least that is allocated ({:.2f} MiB)",
                     TierName(store.tier()), MiB(limit.budget_bytes), backend::kSpanTokens, MiB(store.extent_bytes()));
  }
  return cache;
}

KvCache::KvCache(backend::Backend& backend, CacheShape shape, Placement placement, CacheLimits limits)
    : shape_(std::move(shape)),
      placement_(std::move(placement)),
      stores_{PageStore(backend, Tier::kDevice, shape_, placement_, limits.device),
              PageStore(backend, Tier::kHost, shape_, placement_, limits.host)} {
  for (const LayerShape& layer : shape_.layers) unit_stride_ = std::max(unit_stride_, layer.units);
  homes_.resize(shape_.layers.size() * static_cast<size_t>(unit_stride_));
  first_lane_.resize(shape_.layers.size() + 1);
  for (const Lane& lane : placement_) {
    ++first_lane_[static_cast<size_t>(lane.layer) + 1];
    for (int unit = lane.unit_begin; unit < lane.unit_end; ++unit) {
      homes_[static_cast<size_t>(lane.layer * unit_stride_ + unit)] = lane.home;
    }
  }
  for (size_t layer = 0; layer < shape_.layers.size(); ++layer) first_lane_[layer + 1] += first_lane_[layer];
}

KvCache::~KvCache() {
  for (const auto& [id, sequence] : sequences_) {
    KVASIR_CHECK(!sequence.reserved(), "sequence {} has a reservation that outlives the cache", static_cast<int>(id));
  }
}

const KvCache::Sequence& KvCache::At(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  KVASIR_CHECK(found != sequences_.end(), "sequence {} is not open", static_cast<int>(sequence));
  return found->second;
}

KvCache::Sequence& KvCache::At(SequenceId sequence) {
  return const_cast<Sequence&>(std::as_const(*this).At(sequence));
}

SequenceId KvCache::Open() {
  KVASIR_CHECK(next_sequence_ < std::numeric_limits<int32_t>::max());
  const SequenceId id{next_sequence_++};
  sequences_.try_emplace(id);
  return id;
}

void KvCache::Close(SequenceId sequence) {
  Truncate(sequence, 0);
  sequences_.erase(sequence);
}

Result<SequenceId> KvCache::Fork(SequenceId source, int tokens) {
  const Sequence& from = At(source);
  KVASIR_CHECK(!from.reserved() && tokens >= 0 && tokens <= from.length, "fork of sequence {} at {} of {} tokens",
               static_cast<int>(source), tokens, from.length);
  const auto count = static_cast<size_t>(tokens);
  const size_t whole = count / kBlockTokens;
  const int rest = tokens % kBlockTokens;

  Sequence fork;
  if (rest > 0) {
    KVASIR_RETURN_IF_ERROR(CheckRoom(1, rest));
    KVASIR_ASSIGN_OR_RETURN(const BlockId copy, AddBlock(from, whole));
    CopyRows(copy, from.blocks[whole], rest);
    fork.blocks.reserve(whole + 1);
    fork.blocks.assign(from.blocks.begin(), from.blocks.begin() + static_cast<ptrdiff_t>(whole));
    fork.blocks.push_back(copy);
  } else {
    fork.blocks.assign(from.blocks.begin(), from.blocks.begin() + static_cast<ptrdiff_t>(whole));
  }
  for (size_t i = 0; i < whole; ++i) blocks_.Hold(fork.blocks[i]);
  fork.tokens.assign(from.tokens.begin(), from.tokens.begin() + tokens);
  fork.length = tokens;
  tokens_ += tokens;

  const SequenceId id = Open();
  At(id) = std::move(fork);
  return id;
}

void KvCache::Truncate(SequenceId sequence, int tokens) {
  Sequence& found = At(sequence);
  KVASIR_CHECK(!found.reserved() && tokens >= 0 && tokens <= found.length, "sequence {} cut at {} of {} tokens",
               static_cast<int>(sequence), tokens, found.length);
  const auto count = static_cast<size_t>(tokens);
  while (found.blocks.size() > BlocksFor(count)) {
    DropBlock(found.blocks.back());
    found.blocks.pop_back();
  }
  found.tokens.resize(count);
  tokens_ -= found.length - tokens;
  found.length = tokens;
  // A shared tail stays as it is: others read its rows.
  if (const int rows = tokens % kBlockTokens; rows > 0 && blocks_[found.blocks.back()].references == 1) {
    TrimRows(found.blocks.back(), rows);
  }
}

int64_t KvCache::CellsToGrow(const Sequence& sequence, size_t tokens) const {
  const auto length = static_cast<size_t>(sequence.length);
  const bool copies_tail = length % kBlockTokens != 0 && blocks_[sequence.blocks.back()].references > 1;
  return static_cast<int64_t>(BlocksFor(length + tokens) - BlocksFor(length)) + (copies_tail ? 1 : 0);
}

Status KvCache::CheckRoom(int64_t cells, int64_t tokens) const {
  for (const PageStore& store : stores_) {
    if (store.empty() || cells <= store.allocatable_cells()) continue;
    return MakeError(
        ErrorCode::kResourceExhausted,
        "{} more tokens need {} cells of {} KV ({:.3f} MiB for {} tokens each) but {} are free: {} missing", tokens,
        cells, TierName(store.tier()), MiB(store.cell_bytes()), kBlockTokens, store.allocatable_cells(),
        cells - store.allocatable_cells());
  }
  return {};
}

Result<Reservation> KvCache::Reserve(std::span<const Growth> growths) {
  int64_t cells = 0;
  int64_t tokens = 0;
  for (const Growth& growth : growths) {
    const Sequence& sequence = At(growth.sequence);
    KVASIR_CHECK(!growth.tokens.empty() && !sequence.reserved(), "growth of sequence {} by {} tokens",
                 static_cast<int>(growth.sequence), growth.tokens.size());
    cells += CellsToGrow(sequence, growth.tokens.size());
    tokens += static_cast<int64_t>(growth.tokens.size());
  }
  KVASIR_RETURN_IF_ERROR(CheckRoom(cells, tokens));

  // Below the budget the memory itself may still refuse; then the reservation's destructor undoes what was done.
  Reservation reservation(this);
  reservation.sequences_.reserve(growths.size());
  for (const Growth& growth : growths) {
    Sequence& sequence = At(growth.sequence);
    KVASIR_CHECK(!sequence.reserved(), "sequence {} grows twice in one step", static_cast<int>(growth.sequence));
    reservation.sequences_.push_back(growth.sequence);
    KVASIR_RETURN_IF_ERROR(Extend(sequence, growth.tokens));
  }
  return reservation;
}

Status KvCache::Extend(Sequence& sequence, std::span<const Token> tokens) {
  KVASIR_CHECK(tokens.size() <= static_cast<size_t>(std::numeric_limits<int>::max() - sequence.length));
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  if (const int rows = sequence.length % kBlockTokens; rows > 0) {
    const BlockId tail = sequence.blocks.back();
    if (blocks_[tail].references > 1) {
      KVASIR_ASSIGN_OR_RETURN(const BlockId copy, AddBlock(sequence, sequence.blocks.size() - 1));
      CopyRows(copy, tail, rows);
      sequence.replaced_tail = tail;
      sequence.blocks.back() = copy;
    } else {
      // Rows of former holders, kept when this sequence was truncated beside them.
      TrimRows(tail, rows);
    }
  }
  while (sequence.blocks.size() < BlocksFor(sequence.tokens.size())) {
    KVASIR_ASSIGN_OR_RETURN(const BlockId block, AddBlock(sequence, sequence.blocks.size()));
    sequence.blocks.push_back(block);
  }
  return {};
}

void KvCache::Commit(Reservation reservation) {
  KVASIR_CHECK(reservation.cache_ == this, "a reservation is committed twice or by another cache");
  for (const SequenceId id : reservation.sequences_) {
    Sequence& sequence = At(id);
    if (sequence.replaced_tail != kNoBlock) DropBlock(std::exchange(sequence.replaced_tail, kNoBlock));
    const std::span<const Token> all = sequence.tokens;
    for (auto at = static_cast<size_t>(sequence.length); at < all.size();) {
      const size_t end = std::min(all.size(), (at / kBlockTokens + 1) * kBlockTokens);
      blocks_.Append(sequence.blocks[at / kBlockTokens], all.subspan(at, end - at));
      at = end;
    }
    tokens_ += static_cast<int64_t>(all.size()) - sequence.length;
    sequence.length = static_cast<int>(all.size());
  }
  reservation.cache_ = nullptr;
}

void KvCache::RollBack(SequenceId id) {
  Sequence& sequence = At(id);
  const auto length = static_cast<size_t>(sequence.length);
  while (sequence.blocks.size() > BlocksFor(length)) {
    DropBlock(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
  sequence.tokens.resize(length);
  if (sequence.replaced_tail != kNoBlock) {
    DropBlock(sequence.blocks.back());
    sequence.blocks.back() = std::exchange(sequence.replaced_tail, kNoBlock);
  } else if (const int rows = sequence.length % kBlockTokens; rows > 0) {
    // Not the shared tail for whose copy there was no memory: nothing was written there.
    const BlockId tail = sequence.blocks.back();
    if (blocks_[tail].references > 1) return;
    blocks_.Trim(tail, rows);
    ClearRows(tail, rows);
  }
}

Result<BlockId> KvCache::AddBlock(const Sequence& sequence, size_t index) {
  const BlockId parent = index > 0 ? sequence.blocks[index - 1] : kNoBlock;
  Cells cells = {kNoCell, kNoCell};
  for (size_t tier = 0; tier < kTiers; ++tier) {
    if (stores_[tier].empty()) continue;
    const Cell previous = parent != kNoBlock ? blocks_.cells(parent)[tier] : kNoCell;
    Result<Cell> cell = stores_[tier].Allocate(previous, static_cast<int>(index % kSpanBlocks));
    if (!cell.ok()) {
      for (size_t done = 0; done < tier; ++done) {
        if (cells[done] != kNoCell) stores_[done].Free(cells[done]);
      }
      return cell.error();
    }
    cells[tier] = *cell;
  }
  return blocks_.Add(parent, cells);
}

void KvCache::DropBlock(BlockId block) {
  if (!blocks_.Drop(block)) return;
  for (size_t tier = 0; tier < kTiers; ++tier) {
    if (const Cell cell = blocks_.cells(block)[tier]; cell != kNoCell) stores_[tier].Free(cell);
  }
}

void KvCache::CopyRows(BlockId to, BlockId from, int rows) {
  for (size_t tier = 0; tier < kTiers; ++tier) {
    if (!stores_[tier].empty()) stores_[tier].CopyRows(blocks_.cells(to)[tier], blocks_.cells(from)[tier], rows);
  }
  blocks_.Append(to, std::span(blocks_[from].tokens).first(static_cast<size_t>(rows)));
}

void KvCache::TrimRows(BlockId block, int rows) {
  if (blocks_[block].count == rows) return;
  blocks_.Trim(block, rows);
  ClearRows(block, rows);
}

void KvCache::ClearRows(BlockId block, int rows) {
  for (size_t tier = 0; tier < kTiers; ++tier) {
    if (!stores_[tier].empty()) stores_[tier].ClearRows(blocks_.cells(block)[tier], rows);
  }
}

std::span<const Token> KvCache::tokens(SequenceId sequence) const {
  const Sequence& found = At(sequence);
  return std::span(found.tokens).first(static_cast<size_t>(found.length));
}

std::span<const BlockId> KvCache::blocks(SequenceId sequence) const {
  return At(sequence).blocks;
}

std::span<const Lane> KvCache::lanes(int layer) const {
  const auto index = static_cast<size_t>(layer);
  return std::span(placement_).subspan(first_lane_[index], first_lane_[index + 1] - first_lane_[index]);
}

CacheUsage KvCache::usage() const {
  CacheUsage usage{.blocks = blocks_.size(), .tokens = tokens_};
  for (const PageStore& store : stores_) {
    usage.used_bytes += store.used_bytes();
    usage.reserved_bytes += store.reserved_bytes();
  }
  return usage;
}

int64_t KvCache::free_tokens() const {
  int64_t cells = std::numeric_limits<int32_t>::max();
  for (const PageStore& store : stores_) {
    if (!store.empty()) cells = std::min(cells, store.allocatable_cells());
  }
  return cells * kBlockTokens;
}

void KvCache::Shrink() {
  for (PageStore& store : stores_) store.Shrink();
}

void KvCache::CheckInvariants() const {
  std::unordered_map<BlockId, int> holders;
  int64_t tokens = 0;
  for (const auto& [id, sequence] : sequences_) {
    const int name = static_cast<int>(id);
    const auto length = static_cast<size_t>(sequence.length);
    tokens += sequence.length;
    KVASIR_CHECK(sequence.tokens.size() >= length);
    KVASIR_CHECK(sequence.blocks.size() == BlocksFor(sequence.tokens.size()), "sequence {}: {} blocks for {} tokens",
                 name, sequence.blocks.size(), sequence.tokens.size());
    KVASIR_CHECK(sequence.replaced_tail == kNoBlock || sequence.reserved(), "sequence {} still replaces a tail", name);
    if (sequence.replaced_tail != kNoBlock) ++holders[sequence.replaced_tail];
    for (size_t i = 0; i < sequence.blocks.size(); ++i) {
      const Block& block = blocks_[sequence.blocks[i]];
      ++holders[sequence.blocks[i]];
      KVASIR_CHECK(block.parent == (i > 0 ? sequence.blocks[i - 1] : kNoBlock), "sequence {}, block {}: parent", name,
                   i);
      const size_t begin = std::min(length, i * kBlockTokens);
      const size_t seen = std::min(length, (i + 1) * kBlockTokens) - begin;
      KVASIR_CHECK(static_cast<size_t>(block.count) >= seen, "sequence {}, block {}: {} rows of {}", name, i,
                   block.count, seen);
      KVASIR_CHECK(std::equal(block.tokens.begin(), block.tokens.begin() + static_cast<ptrdiff_t>(seen),
                              sequence.tokens.begin() + static_cast<ptrdiff_t>(begin)),
                   "sequence {}, block {}: tokens differ", name, i);
      // What an open reservation writes is its own and starts where the tokens end.
      if ((i + 1) * kBlockTokens > length && sequence.reserved()) {
        KVASIR_CHECK(block.references == 1 && static_cast<size_t>(block.count) == seen,
                     "sequence {}, block {} is written to", name, i);
      }
    }
  }
  KVASIR_CHECK(tokens == tokens_, "{} tokens, {} counted", tokens, tokens_);

  std::array<std::unordered_map<Cell, BlockId>, kTiers> owners;
  int64_t blocks = 0;
  blocks_.ForEach([&](BlockId id, const Block& block) {
    const int name = static_cast<int>(id);
    ++blocks;
    KVASIR_CHECK(holders[id] == block.references, "block {}: {} holders, {} counted", name, holders[id],
                 block.references);
    KVASIR_CHECK(block.count >= 0 && block.count <= kBlockTokens, "block {}: {} rows", name, block.count);
    for (size_t tier = 0; tier < kTiers; ++tier) {
      const Cell cell = blocks_.cells(id)[tier];
      KVASIR_CHECK((cell == kNoCell) == stores_[tier].empty(), "block {}: cell {} of tier {}", name, cell, tier);
      if (cell != kNoCell) KVASIR_CHECK(owners[tier].emplace(cell, id).second, "cell {} has two blocks", cell);
    }
  });
  KVASIR_CHECK(static_cast<size_t>(blocks) == holders.size() && blocks == blocks_.size());
  for (const PageStore& store : stores_) {
    store.CheckInvariants();
    KVASIR_CHECK(store.used_cells() == (store.empty() ? 0 : blocks), "{} cells for {} blocks", store.used_cells(),
                 blocks);
  }
}

}  // namespace kvasir::kv
