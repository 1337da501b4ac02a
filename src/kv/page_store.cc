#include "kv/page_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "backend/page_rows.h"

namespace kvasir::kv {
namespace {

constexpr size_t kSlabBytes = size_t{4} << 20;
constexpr uint8_t kAllCells = 0xFF;
constexpr int64_t kMaxExtents = std::numeric_limits<Cell>::max() / kExtentCells;

uint8_t Bit(int index) {
  return static_cast<uint8_t>(1u << index);
}
std::string_view TierName(Tier tier) {
  return tier == Tier::kDevice ? "device" : "host";
}

}  // namespace

PageStore::PageStore(backend::Backend& backend, Tier tier, const CacheShape& shape, const Placement& placement,
                     StoreLimits limits)
    : backend_(backend), tier_(tier) {
  for (const LayerShape& layer : shape.layers) unit_stride_ = std::max(unit_stride_, layer.units);
  for (const Lane& lane : placement) {
    if (lane.home != tier) continue;
    const LayerShape& layer = shape.layers[static_cast<size_t>(lane.layer)];
    for (int unit = lane.unit_begin; unit < lane.unit_end; ++unit) {
      stored_.push_back({.layer = lane.layer, .unit = unit, .format = layer.format});
      cell_bytes_ += layer.format.page_bytes();
    }
  }
  if (empty()) return;

  // 64-bit sums: a wish for huge slabs must not wrap before the budget cuts it.
  const size_t wished = limits.slab_extents > 0 ? static_cast<size_t>(limits.slab_extents)
                                                : std::max<size_t>(1, kSlabBytes / extent_bytes());
  const size_t affordable = limits.budget_bytes > 0 ? limits.budget_bytes / extent_bytes() : kMaxExtents;
  slab_extents_ =
      static_cast<int>(std::clamp<size_t>(wished, 1, std::max<size_t>(1, std::min<size_t>(affordable, kMaxExtents))));
  max_slabs_ = kMaxExtents / slab_extents_;
  if (limits.budget_bytes > 0)
    max_slabs_ = std::min(max_slabs_, static_cast<int64_t>(limits.budget_bytes / slab_bytes()));

  places_.resize(shape.layers.size() * static_cast<size_t>(unit_stride_));
  size_t layer_offset = 0;
  for (size_t begin = 0; begin < stored_.size();) {
    size_t end = begin;
    while (end < stored_.size() && stored_[end].layer == stored_[begin].layer) ++end;
    const size_t page_bytes = stored_[begin].format.page_bytes();
    const size_t extent_stride = (end - begin) * kExtentCells * page_bytes;
    for (size_t i = begin; i < end; ++i) {
      places_[static_cast<size_t>(stored_[i].layer * unit_stride_ + stored_[i].unit)] = {
          .offset = layer_offset + (i - begin) * kExtentCells * page_bytes,
          .extent_stride = static_cast<uint32_t>(extent_stride),
          .page_bytes = static_cast<uint32_t>(page_bytes)};
    }
    layer_offset += extent_stride * static_cast<size_t>(slab_extents_);
    begin = end;
  }
}

PageStore::~PageStore() {
  if (slab_count_ > 0) backend_.Synchronize();
}

Result<Cell> PageStore::Allocate(Cell previous, int place) {
  KVASIR_CHECK(!empty() && place >= 0 && place < kExtentCells);
  if (previous != kNoCell && place > 0 && previous % kExtentCells + 1 < kExtentCells) {
    const Extent extent = previous / kExtentCells;
    const int next = previous % kExtentCells + 1;
    if ((extents_[static_cast<size_t>(extent)].used & Bit(next)) == 0) return Take(extent, next);
  }
  if (fresh_.empty()) {
    const Status added = AddSlab();
    if (!added.ok()) {
      if (partly_.empty()) return added.error();
      const Extent extent = *partly_.begin();
      return Take(extent, std::countr_one(extents_[static_cast<size_t>(extent)].used));
    }
  }
  return Take(*fresh_.begin(), place);
}

Cell PageStore::Take(Extent extent, int index) {
  ExtentState& state = extents_[static_cast<size_t>(extent)];
  const Cell cell = extent * kExtentCells + index;
  state.used |= Bit(index);
  ++slabs_[static_cast<size_t>(extent / slab_extents_)].used_cells;
  ++used_cells_;
  File(extent);
  if ((state.dirty & Bit(index)) != 0) {
    state.dirty = static_cast<uint8_t>(state.dirty & ~Bit(index));
    ClearRows(cell, 0);
  }
  return cell;
}

void PageStore::Free(Cell cell) {
  const Extent extent = cell / kExtentCells;
  const uint8_t bit = Bit(cell % kExtentCells);
  KVASIR_CHECK(cell >= 0 && static_cast<size_t>(extent) < extents_.size(), "cell {}", cell);
  ExtentState& state = extents_[static_cast<size_t>(extent)];
  KVASIR_CHECK((state.used & bit) != 0, "cell {} is freed twice", cell);
  state.used = static_cast<uint8_t>(state.used & ~bit);
  state.dirty |= bit;
  --slabs_[static_cast<size_t>(extent / slab_extents_)].used_cells;
  --used_cells_;
  File(extent);
}

void PageStore::File(Extent extent) {
  const uint8_t used = extents_[static_cast<size_t>(extent)].used;
  if (used == 0) {
    partly_.erase(extent);
    fresh_.insert(extent);
  } else if (used == kAllCells) {
    partly_.erase(extent);
    fresh_.erase(extent);
  } else {
    fresh_.erase(extent);
    partly_.insert(extent);
  }
}

Status PageStore::AddSlab() {
  if (slab_count_ >= max_slabs_) {
    return MakeError(ErrorCode::kResourceExhausted, "the {} KV budget is used up: {} slabs of {} bytes",
                     TierName(tier_), slab_count_, slab_bytes());
  }
  const auto kind = tier_ == Tier::kDevice ? backend::MemoryKind::kDevice : backend::MemoryKind::kHost;
  KVASIR_ASSIGN_OR_RETURN(backend::Buffer memory, backend_.Allocate(kind, slab_bytes()));
  size_t index = 0;
  while (index < slabs_.size() && slabs_[index].memory.address() != nullptr) ++index;
  if (index == slabs_.size()) {
    slabs_.emplace_back();
    extents_.resize(extents_.size() + static_cast<size_t>(slab_extents_));
  }
  const size_t first = index * static_cast<size_t>(slab_extents_);
  for (int i = 0; i < slab_extents_; ++i) {
    extents_[first + static_cast<size_t>(i)] = {.slab = memory.address(), .index = i};
    fresh_.insert(static_cast<Extent>(first) + i);
  }
  slabs_[index].memory = std::move(memory);
  ++slab_count_;
  return {};
}

void PageStore::Settle() {
  if (tier_ == Tier::kHost) backend_.Synchronize();
}

void PageStore::CopyRows(Cell to, Cell from, int rows) {
  if (tier_ == Tier::kHost) {
    Settle();
    for (const StoredUnit& unit : stored_) {
      std::byte* page = Page(to, unit.layer, unit.unit);
      std::memcpy(page, Page(from, unit.layer, unit.unit), unit.format.page_bytes());
      backend::ClearPageRows(page, unit.format, rows);
    }
    return;
  }
  std::vector<backend::CopyItem> items;
  items.reserve(stored_.size());
  for (const StoredUnit& unit : stored_) {
    items.push_back({.to = Page(to, unit.layer, unit.unit),
                     .from = Page(from, unit.layer, unit.unit),
                     .bytes = unit.format.page_bytes()});
  }
  backend_.Wait(backend_.Copy(backend::CopyDirection::kDeviceToDevice, items));
  ClearRows(to, rows);
}

void PageStore::ClearRows(Cell cell, int rows) {
  if (rows >= backend::kBlockTokens) return;
  Settle();
  for (const StoredUnit& unit : stored_) {
    std::byte* page = Page(cell, unit.layer, unit.unit);
    if (tier_ == Tier::kHost) {
      backend::ClearPageRows(page, unit.format, rows);
    } else {
      backend_.ClearPageRows(page, unit.format, rows);
    }
  }
}

void PageStore::Shrink() {
  bool settled = false;
  for (size_t index = 0; index < slabs_.size(); ++index) {
    Slab& slab = slabs_[index];
    if (slab.memory.address() == nullptr || slab.used_cells != 0) continue;
    // Operations that were enqueued while the cells were in use may still run.
    if (!settled) backend_.Synchronize();
    settled = true;
    const auto first = static_cast<Extent>(index) * slab_extents_;
    for (Extent extent = first; extent < first + slab_extents_; ++extent) {
      extents_[static_cast<size_t>(extent)] = {};
      fresh_.erase(extent);
    }
    slab.memory = {};
    --slab_count_;
  }
}

void PageStore::CheckInvariants() const {
  KVASIR_CHECK(extents_.size() == slabs_.size() * static_cast<size_t>(slab_extents_));
  KVASIR_CHECK(slab_count_ <= max_slabs_, "{} slabs, {} allowed", slab_count_, max_slabs_);
  int64_t used_cells = 0;
  int64_t slab_count = 0;
  size_t fresh = 0;
  size_t partly = 0;
  for (size_t index = 0; index < slabs_.size(); ++index) {
    const Slab& slab = slabs_[index];
    std::byte* memory = slab.memory.address();
    KVASIR_CHECK(slab.memory.bytes() == (memory != nullptr ? slab_bytes() : 0));
    slab_count += memory != nullptr;
    int slab_used = 0;
    for (int i = 0; i < slab_extents_; ++i) {
      const auto extent = static_cast<Extent>(index) * slab_extents_ + i;
      const ExtentState& state = extents_[static_cast<size_t>(extent)];
      KVASIR_CHECK(state.slab == memory, "extent {} points outside its slab", extent);
      KVASIR_CHECK(memory == nullptr || state.index == i);
      KVASIR_CHECK(memory != nullptr || (state.used == 0 && state.dirty == 0), "extent {} of no slab is in use",
                   extent);
      KVASIR_CHECK((state.used & state.dirty) == 0, "extent {}: a used cell counts as dirty", extent);
      const bool is_fresh = memory != nullptr && state.used == 0;
      const bool is_partly = state.used != 0 && state.used != kAllCells;
      KVASIR_CHECK(fresh_.contains(extent) == is_fresh && partly_.contains(extent) == is_partly, "extent {}", extent);
      fresh += is_fresh;
      partly += is_partly;
      slab_used += std::popcount(state.used);
    }
    KVASIR_CHECK(slab_used == slab.used_cells, "slab {}: {} cells used, {} counted", index, slab_used, slab.used_cells);
    used_cells += slab_used;
  }
  KVASIR_CHECK(fresh == fresh_.size() && partly == partly_.size());
  KVASIR_CHECK(used_cells == used_cells_ && slab_count == slab_count_);
}

}  // namespace kvasir::kv
