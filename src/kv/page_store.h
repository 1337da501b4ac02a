// kv/page_store.h
// One tier's cells: memory in slabs, handed out in extents of eight cells (a span), within a budget.
//
// A cell is a place for one block: the pages of every layer and unit that has its home in this tier. A slab lays them
// out as [layer][extent][unit][8 cells], so what a sequence grows into is contiguous per layer and unit, and a span of
// one unit is one copy. Slabs are added on demand and given back when empty (Shrink): a context costs what is used, not
// what is allowed. The store owns bytes; it does not know sequences or contents.
//
//   extent 5 of slab 0, layer 2, unit 1:   page of cell 40 | 41 | 42 | 43 | 44 | 45 | 46 | 47
//
// Device pages are touched only by backend operations, in the order of the calls. Host pages are touched by plain CPU
// code, after Synchronize, since a copy may still be reading or writing them. Copies that others started on pages of a
// device cell must have been waited for (Backend::Wait) before the cell is cleared, copied or freed.
//
// Thread rule: engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"
#include "base/result.h"
#include "kv/placement.h"

namespace kvasir::kv {

using Cell = int32_t;  // extent * 8 + index in extent
constexpr Cell kNoCell = -1;
using Extent = int32_t;
constexpr int kExtentCells = backend::kSpanBlocks;

struct StoreLimits {
  size_t budget_bytes = 0;  // slabs never exceed it; 0: no limit but the memory's
  int slab_extents = 0;     // extents of a slab; 0: chosen so that a slab is about 4 MiB, at least one extent
};

class PageStore {
 public:
  // Stores the lanes of `placement` whose home is `tier`. Nothing is allocated yet. `backend` must outlive the store.
  PageStore(backend::Backend& backend, Tier tier, const CacheShape& shape, const Placement& placement,
            StoreLimits limits);
  ~PageStore();
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  bool empty() const { return cell_bytes_ == 0; }  // no lane lives here

  // A cell for the block at `place` (0..7) of its span, after the block in `previous` (kNoCell: a sequence's first):
  // the next cell of that extent where the span goes on and it is free, else the same place of a fresh extent, so that
  // spans and extents fall together again, else any free cell. Its pages are zero. kResourceExhausted when the budget
  // or the memory is used up.
  Result<Cell> Allocate(Cell previous, int place);
  void Free(Cell cell);

  // Where the page of (layer, unit) lies. REQUIRES: the cell is in use, that lane's home is this tier.
  std::byte* Page(Cell cell, int layer, int unit) const {
    const UnitPlace& place = places_[static_cast<size_t>(layer * unit_stride_ + unit)];
    const size_t number = static_cast<uint32_t>(cell);
    const ExtentState& extent = extents_[number / kExtentCells];
    KVASIR_DCHECK(place.page_bytes != 0 && extent.slab != nullptr);
    return extent.slab + place.offset + static_cast<size_t>(extent.index) * place.extent_stride +
           number % kExtentCells * place.page_bytes;
  }

  // Copies every page of `from` to `to`, then clears the rows from `rows` on.
  void CopyRows(Cell to, Cell from, int rows);
  // Clears the rows from `rows` on, in every page of the cell.
  void ClearRows(Cell cell, int rows);

  // Gives slabs without a used cell back.
  void Shrink();

  Tier tier() const { return tier_; }
  size_t cell_bytes() const { return cell_bytes_; }
  size_t extent_bytes() const { return cell_bytes_ * kExtentCells; }
  size_t reserved_bytes() const { return static_cast<size_t>(slab_count_) * slab_bytes(); }  // slabs
  size_t used_bytes() const { return static_cast<size_t>(used_cells_) * cell_bytes_; }       // cells in use
  int64_t used_cells() const { return used_cells_; }
  int64_t free_cells() const { return slab_count_ * slab_cells() - used_cells_; }  // in slabs that exist
  // Free ones and those of slabs the budget still allows. The memory may allow less.
  int64_t allocatable_cells() const { return max_slabs_ * slab_cells() - used_cells_; }

  // Aborts when a mask, a list or a count disagrees with another.
  void CheckInvariants() const;

 private:
  struct UnitPlace {             // of a (layer, unit); all zero when its home is another tier
    size_t offset = 0;           // of its first page in a slab
    uint32_t extent_stride = 0;  // to the same unit of the next extent
    uint32_t page_bytes = 0;
  };
  struct ExtentState {
    std::byte* slab = nullptr;  // null while the slab is given back
    int32_t index = 0;          // in the slab
    uint8_t used = 0;           // a bit per cell
    uint8_t dirty = 0;          // free cells whose pages may hold bytes
  };
  struct Slab {
    backend::Buffer memory;  // empty while given back
    int used_cells = 0;
  };
  struct StoredUnit {
    int layer = 0;
    int unit = 0;
    backend::PageFormat format;
  };

  size_t slab_bytes() const { return static_cast<size_t>(slab_extents_) * extent_bytes(); }
  int64_t slab_cells() const { return int64_t{slab_extents_} * kExtentCells; }
  Status AddSlab();
  Cell Take(Extent extent, int index);
  // Waits until host pages may be touched by the CPU.
  void Settle();
  // Tells free, partly used and full extents apart after a change of `used`.
  void File(Extent extent);

  backend::Backend& backend_;
  Tier tier_;
  size_t cell_bytes_ = 0;
  int unit_stride_ = 0;
  int slab_extents_ = 1;
  int64_t max_slabs_ = 0;
  std::vector<UnitPlace> places_;   // [layers, unit_stride_]
  std::vector<StoredUnit> stored_;  // those of this tier
  std::vector<ExtentState> extents_;
  std::vector<Slab> slabs_;
  // The lowest first, so that the highest slabs empty and can be given back.
  std::set<Extent> fresh_;   // no cell used
  std::set<Extent> partly_;  // some used, some free
  int64_t slab_count_ = 0;
  int64_t used_cells_ = 0;
};

}  // namespace kvasir::kv
