#include "kv/page_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kv/testing/fake_backend.h"

namespace kvasir::kv {
namespace {

using backend::KvType;
using backend::MemoryKind;
using backend::PageFormat;

CacheShape SmallShape() {
  return {.layers = {{.units = 3, .format = {.k = KvType::kF16, .v = KvType::kF16, .dk = 4, .dv = 8}},
                     {.units = 2, .format = {.k = KvType::kQ8_0, .v = KvType::kF32, .dk = 32, .dv = 4}}}};
}

Placement HalfAndHalf() {
  return PlaceSplit(SmallShape(), 0.5, Tier::kDevice, Tier::kHost);
}

class PageStoreTest : public ::testing::Test {
 protected:
  PageStore MakeStore(Tier tier, StoreLimits limits) { return PageStore(backend_, tier, shape_, placement_, limits); }

  struct UnitOf {
    int layer;
    int unit;
  };
  std::vector<UnitOf> Units(Tier tier) const {
    std::vector<UnitOf> units;
    for (const Lane& lane : placement_) {
      for (int unit = lane.unit_begin; lane.home == tier && unit < lane.unit_end; ++unit)
        units.push_back({lane.layer, unit});
    }
    return units;
  }
  size_t PageBytes(int layer) const { return shape_.layers[static_cast<size_t>(layer)].format.page_bytes(); }

  // The fake's device memory is ordinary memory.
  void Fill(const PageStore& store, Cell cell, int value) {
    backend_.Synchronize();
    for (const UnitOf& at : Units(store.tier())) {
      std::memset(store.Page(cell, at.layer, at.unit), value, PageBytes(at.layer));
    }
  }
  // Rows [0, rows) all `value`, the others zero.
  bool HoldsOnly(const PageStore& store, Cell cell, int rows, int value) {
    backend_.Synchronize();
    for (const UnitOf& at : Units(store.tier())) {
      for (int row = 0; row < backend::kBlockTokens; ++row) {
        for (const size_t offset : RowOffsets(shape_.layers[static_cast<size_t>(at.layer)].format, row)) {
          const auto expected = static_cast<std::byte>(row < rows ? value : 0);
          if (store.Page(cell, at.layer, at.unit)[offset] != expected) return false;
        }
      }
    }
    return true;
  }

  FakeBackend backend_;
  CacheShape shape_ = SmallShape();
  Placement placement_ = HalfAndHalf();
};

// Cells for a sequence of `blocks` blocks.
std::vector<Cell> Grow(PageStore& store, int blocks) {
  std::vector<Cell> cells;
  for (int i = 0; i < blocks; ++i) {
    cells.push_back(store.Allocate(cells.empty() ? kNoCell : cells.back(), i % kExtentCells).value());
  }
  return cells;
}

TEST_F(PageStoreTest, ASpanOfAUnitIsContiguous) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    PageStore store = MakeStore(tier, {.slab_extents = 3});
    const std::vector<Cell> cells = Grow(store, 40);
    for (const UnitOf& at : Units(tier)) {
      for (size_t i = 0; i < cells.size(); ++i) {
        const std::byte* span = store.Page(cells[i / 8 * 8], at.layer, at.unit);
        EXPECT_EQ(store.Page(cells[i], at.layer, at.unit), span + i % 8 * PageBytes(at.layer));
      }
    }
    store.CheckInvariants();
  }
}

TEST_F(PageStoreTest, SequencesThatGrowInTurnKeepTheirSpansTogether) {
  PageStore store = MakeStore(Tier::kDevice, {.slab_extents = 2});
  std::vector<Cell> a, b;
  for (int i = 0; i < 16; ++i) {
    a.push_back(store.Allocate(a.empty() ? kNoCell : a.back(), i % 8).value());
    b.push_back(store.Allocate(b.empty() ? kNoCell : b.back(), i % 8).value());
  }
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i], a[i / 8 * 8] + static_cast<int>(i % 8));
    EXPECT_EQ(b[i], b[i / 8 * 8] + static_cast<int>(i % 8));
  }
}

TEST_F(PageStoreTest, ABranchThatStartsInsideASpanMeetsExtentBordersAtSpanBorders) {
  PageStore store = MakeStore(Tier::kDevice, {.slab_extents = 2});
  const std::vector<Cell> trunk = Grow(store, 12);
  Cell cell = store.Allocate(trunk[2], 3).value();  // trunk[3] is taken: another extent, same place
  EXPECT_EQ(cell % kExtentCells, 3);
  EXPECT_NE(cell / kExtentCells, trunk[0] / kExtentCells);
  for (int place = 4; place < 8; ++place) {
    const Cell next = store.Allocate(cell, place).value();
    EXPECT_EQ(next, cell + 1);
    cell = next;
  }
  EXPECT_EQ(store.Allocate(cell, 0).value() % kExtentCells, 0);
}

TEST_F(PageStoreTest, PagesOfASlabAreDisjointAlignedAndFillIt) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    PageStore store = MakeStore(tier, {.slab_extents = 4});
    std::vector<std::pair<std::byte*, size_t>> pages;
    for (const Cell cell : Grow(store, 4 * kExtentCells)) {
      for (const UnitOf& at : Units(tier)) pages.emplace_back(store.Page(cell, at.layer, at.unit), PageBytes(at.layer));
    }
    std::sort(pages.begin(), pages.end());
    size_t bytes = 0;
    for (const auto& [address, size] : pages) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
      EXPECT_EQ(address, pages.front().first + bytes);
      bytes += size;
    }
    EXPECT_EQ(bytes, store.reserved_bytes());
    EXPECT_EQ(bytes, store.used_bytes());
    EXPECT_EQ(backend_.allocated_bytes(tier == Tier::kDevice ? MemoryKind::kDevice : MemoryKind::kHost), bytes);
  }
}

TEST_F(PageStoreTest, UnitsOfAnotherTierTakeNoSpace) {
  const PageStore device = MakeStore(Tier::kDevice, {});
  const PageStore host = MakeStore(Tier::kHost, {});
  EXPECT_EQ(device.cell_bytes() + host.cell_bytes(), shape_.block_bytes());
  placement_ = PlaceWhole(shape_, Tier::kDevice);
  EXPECT_TRUE(MakeStore(Tier::kHost, {}).empty());
  EXPECT_EQ(MakeStore(Tier::kDevice, {}).cell_bytes(), shape_.block_bytes());
}

TEST_F(PageStoreTest, NothingIsAllocatedUntilACellIs) {
  PageStore store = MakeStore(Tier::kDevice, {});
  EXPECT_EQ(backend_.allocated_bytes(MemoryKind::kDevice), 0u);
  Grow(store, 1);
  EXPECT_EQ(backend_.allocated_bytes(MemoryKind::kDevice), store.reserved_bytes());
}

TEST_F(PageStoreTest, SlabsAreAboutFourMebibytesUnlessTheBudgetIsSmaller) {
  PageStore free = MakeStore(Tier::kDevice, {});
  Grow(free, 1);
  EXPECT_LE(free.reserved_bytes(), size_t{4} << 20);
  EXPECT_GT(free.reserved_bytes(), (size_t{4} << 20) - free.extent_bytes());

  PageStore tight = MakeStore(Tier::kDevice, {.budget_bytes = 3 * free.extent_bytes() + 1});
  Grow(tight, 1);
  EXPECT_EQ(tight.reserved_bytes(), 3 * free.extent_bytes());
}

TEST_F(PageStoreTest, EveryCellOfTheBudgetIsHandedOutAndNoneMore) {
  for (const int slab_extents : {1, 2, 3}) {
    const size_t extent_bytes = MakeStore(Tier::kDevice, {}).extent_bytes();
    PageStore store = MakeStore(Tier::kDevice, {.budget_bytes = 6 * extent_bytes + 100, .slab_extents = slab_extents});
    EXPECT_EQ(store.allocatable_cells(), 48);
    // Only first blocks: each wants an extent of its own while there is one, and takes any cell when there is none.
    std::vector<Cell> cells;
    for (int i = 0; i < 48; ++i) {
      EXPECT_EQ(store.allocatable_cells(), 48 - i);
      cells.push_back(store.Allocate(kNoCell, 0).value());
    }
    const auto refused = store.Allocate(kNoCell, 0);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
    EXPECT_EQ(store.allocatable_cells(), 0);
    EXPECT_EQ(store.free_cells(), 0);
    store.CheckInvariants();
    store.Free(cells[17]);
    EXPECT_EQ(store.Allocate(kNoCell, 5).value(), cells[17]);
  }
}

TEST_F(PageStoreTest, MemoryThatRefusesBelowTheBudgetIsAnErrorNotAnAbort) {
  const size_t extent_bytes = MakeStore(Tier::kDevice, {}).extent_bytes();
  FakeBackend small(extent_bytes);
  PageStore store(small, Tier::kDevice, shape_, placement_, {.slab_extents = 1});
  for (int i = 0; i < kExtentCells; ++i) ASSERT_TRUE(store.Allocate(kNoCell, 0).ok());
  const auto refused = store.Allocate(kNoCell, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  store.CheckInvariants();
}

TEST_F(PageStoreTest, RecycledCellsAreZeroAndFreshOnesAreNotCleared) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    PageStore store = MakeStore(tier, {.slab_extents = 1});
    const int clears = backend_.clears();
    const std::vector<Cell> cells = Grow(store, 8);
    EXPECT_EQ(backend_.clears(), clears);
    for (const Cell cell : cells) Fill(store, cell, 0xAB);
    store.Free(cells[3]);
    ASSERT_EQ(store.Allocate(cells[2], 3).value(), cells[3]);
    EXPECT_TRUE(HoldsOnly(store, cells[3], 0, 0));
    EXPECT_TRUE(HoldsOnly(store, cells[2], 32, 0xAB));
    EXPECT_TRUE(HoldsOnly(store, cells[4], 32, 0xAB));
  }
}

TEST_F(PageStoreTest, ACopyInFlightToAFreedHostCellDoesNotReachItsNextOwner) {
  PageStore host = MakeStore(Tier::kHost, {.slab_extents = 1});
  const std::vector<Cell> cells = Grow(host, 8);
  const backend::Buffer device = backend_.Allocate(MemoryKind::kDevice, PageBytes(1)).value();
  std::memset(device.address(), 0xCD, device.bytes());
  const backend::CopyItem item = {.to = host.Page(cells[1], 1, 1), .from = device.address(), .bytes = device.bytes()};
  backend_.Copy(backend::CopyDirection::kDeviceToHost, {&item, 1});
  host.Free(cells[1]);
  ASSERT_EQ(host.Allocate(cells[0], 1).value(), cells[1]);
  EXPECT_TRUE(HoldsOnly(host, cells[1], 0, 0));
}

TEST_F(PageStoreTest, CopyTakesTheKeptRowsAndLeavesTheOthersZero) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    PageStore store = MakeStore(tier, {.slab_extents = 2});
    const Cell from = store.Allocate(kNoCell, 0).value();
    Fill(store, from, 0x5A);
    for (const int rows : {1, 7, 8, 13, 31, 32}) {
      const Cell to = store.Allocate(kNoCell, 0).value();
      store.CopyRows(to, from, rows);
      EXPECT_TRUE(HoldsOnly(store, to, rows, 0x5A)) << rows;
      EXPECT_TRUE(HoldsOnly(store, from, 32, 0x5A)) << rows;
    }
    store.ClearRows(from, 9);
    EXPECT_TRUE(HoldsOnly(store, from, 9, 0x5A));
  }
}

TEST_F(PageStoreTest, ShrinkGivesEmptySlabsBackAndKeepsTheOthers) {
  PageStore store =
      MakeStore(Tier::kDevice, {.budget_bytes = 8 * MakeStore(Tier::kDevice, {}).extent_bytes(), .slab_extents = 2});
  const std::vector<Cell> cells = Grow(store, 64);  // four slabs of sixteen cells
  Fill(store, cells[20], 0x11);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i != 20 && i != 63) store.Free(cells[i]);
  }
  store.Shrink();
  store.CheckInvariants();
  EXPECT_EQ(store.reserved_bytes(), 4 * store.extent_bytes());
  EXPECT_EQ(backend_.allocated_bytes(MemoryKind::kDevice), store.reserved_bytes());
  EXPECT_EQ(store.allocatable_cells(), 62);
  EXPECT_TRUE(HoldsOnly(store, cells[20], 32, 0x11));

  for (int i = 0; i < 62; ++i) {
    const Cell cell = store.Allocate(kNoCell, i % 8).value();
    EXPECT_TRUE(HoldsOnly(store, cell, 0, 0));
  }
  EXPECT_FALSE(store.Allocate(kNoCell, 0).ok());
  store.CheckInvariants();
}

TEST_F(PageStoreTest, ShrinkWaitsForCopiesFromTheMemoryItGivesBack) {
  PageStore store = MakeStore(Tier::kDevice, {.slab_extents = 1});
  const Cell cell = store.Allocate(kNoCell, 0).value();
  const backend::Buffer host = backend_.Allocate(MemoryKind::kHost, PageBytes(0)).value();
  Fill(store, cell, 0x77);
  const backend::CopyItem item = {.to = host.address(), .from = store.Page(cell, 0, 0), .bytes = host.bytes()};
  backend_.Copy(backend::CopyDirection::kDeviceToHost, {&item, 1});
  store.Free(cell);
  store.Shrink();  // the fake aborts when memory goes that a copy in flight may read
  EXPECT_EQ(store.reserved_bytes(), 0u);
  EXPECT_EQ(host.address()[0], std::byte{0x77});
}

}  // namespace
}  // namespace kvasir::kv
