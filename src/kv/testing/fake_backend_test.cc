// The layout that the fake backend spells out on its own, against the one clear that the product has.
#include "kv/testing/fake_backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/page_rows.h"

namespace kvasir::kv {
namespace {

using backend::KvType;
using backend::PageFormat;

TEST(ClearPageRows, ZeroesExactlyTheRowsFromTheGivenOneOn) {
  for (const KvType k : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
    for (const KvType v : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
      for (const int dk : {32, 96}) {
        const PageFormat format = {.k = k, .v = v, .dk = dk, .dv = 64};
        for (int from = 0; from <= backend::kBlockTokens; ++from) {
          std::vector<std::byte> page(format.page_bytes() + 64, std::byte{0xFF});
          std::vector<std::byte> expected = page;
          for (int row = from; row < backend::kBlockTokens; ++row) {
            for (const size_t offset : RowOffsets(format, row)) expected[offset] = std::byte{0};
          }
          backend::ClearPageRows(page.data(), format, from);
          ASSERT_EQ(page, expected) << Name(k) << " " << Name(v) << " dk " << dk << " from row " << from;
        }
      }
    }
  }
}

TEST(ClearPageRows, SmallestHeadsWork) {
  const PageFormat format = {.k = KvType::kF16, .v = KvType::kF32, .dk = 4, .dv = 4};
  std::vector<std::byte> page(format.page_bytes(), std::byte{0xFF});
  backend::ClearPageRows(page.data(), format, 31);
  size_t zeros = 0;
  for (const std::byte byte : page) zeros += byte == std::byte{0};
  EXPECT_EQ(zeros, 4u * 2 + 4u * 4);
}

TEST(RowOffsets, RowsOfAPageAreDisjointAndFillIt) {
  const PageFormat format = {.k = KvType::kQ8_0, .v = KvType::kF16, .dk = 64, .dv = 32};
  std::vector<int> owners(format.page_bytes());
  for (int row = 0; row < backend::kBlockTokens; ++row) {
    for (const size_t offset : RowOffsets(format, row)) ++owners[offset];
  }
  EXPECT_EQ(owners, std::vector<int>(format.page_bytes(), 1));
}

}  // namespace
}  // namespace kvasir::kv
