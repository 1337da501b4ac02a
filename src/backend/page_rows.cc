#include "backend/page_rows.h"

#include <cstring>

#include "base/check.h"

namespace kvasir::backend {
namespace {

constexpr size_t kTilePositions = 8;  // of K codes
constexpr size_t kGroupBytes = 4;
constexpr size_t kScaleValues = 32;  // values that share a scale
constexpr size_t kScaleBytes = 2;

size_t CodeBytes(KvType type) {
  switch (type) {
    case KvType::kF32:
      return 4;
    case KvType::kF16:
      return 2;
    case KvType::kQ8_0:
      return 1;
  }
  return 0;
}

void Zero(std::byte* at, size_t bytes) {
  std::memset(at, 0, bytes);
}

// [outer][inner][lanes] cells of `cell` bytes, rows along (outer, lanes): clears the rows from `from` on.
void ClearTiles(std::byte* base, size_t inner, size_t lanes, size_t cell, size_t from) {
  const size_t tile_bytes = inner * lanes * cell;
  size_t tile = from / lanes;
  if (const size_t lane = from % lanes; lane != 0) {
    for (size_t i = 0; i < inner; ++i) {
      Zero(base + tile * tile_bytes + (i * lanes + lane) * cell, (lanes - lane) * cell);
    }
    ++tile;
  }
  Zero(base + tile * tile_bytes, (kBlockTokens / lanes - tile) * tile_bytes);
}

}  // namespace

void ClearPageRows(std::byte* page, const PageFormat& format, int from_row) {
  KVASIR_CHECK(from_row >= 0 && from_row <= kBlockTokens, "row {} of a page", from_row);
  if (from_row == kBlockTokens) return;
  if (from_row == 0) return Zero(page, format.page_bytes());
  const auto from = static_cast<size_t>(from_row);
  const auto dk = static_cast<size_t>(format.dk);
  const auto dv = static_cast<size_t>(format.dv);

  const size_t k_group = kGroupBytes / CodeBytes(format.k);
  ClearTiles(page + format.k_codes(), dk / k_group, kTilePositions, kGroupBytes, from);
  const size_t v_group = kGroupBytes / CodeBytes(format.v);
  ClearTiles(page + format.v_codes(), dv, v_group, CodeBytes(format.v), from);

  // Scales are [d / 32][32 positions]: in the terms above, one tile of 32 lanes.
  if (format.k == KvType::kQ8_0)
    ClearTiles(page + format.k_scales(), dk / kScaleValues, kBlockTokens, kScaleBytes, from);
  if (format.v == KvType::kQ8_0)
    ClearTiles(page + format.v_scales(), dv / kScaleValues, kBlockTokens, kScaleBytes, from);
}

}  // namespace kvasir::backend
