#include "backend/cpu/kernels/page/page.h"

#include <cstring>

#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

int CodeSize(KvType type) {
  return type == KvType::kF32 ? 4 : (type == KvType::kF16 ? 2 : 1);
}

void Zero(std::byte* at, int bytes) {
  std::memset(at, 0, static_cast<size_t>(bytes));
}

void ClearKeys(std::byte* codes, KvType type, int dim, int from_row) {
  const int groups = dim * CodeSize(type) / 4;
  for (int row = from_row; row < kBlockTokens; ++row) {
    std::byte* tile = codes + row / 8 * groups * 32;
    if (row % 8 == 0) {
      Zero(tile, groups * 32);
      row += 7;
    } else {
      for (int group = 0; group < groups; ++group) Zero(tile + group * 32 + row % 8 * 4, 4);
    }
  }
}

void ClearValues(std::byte* codes, KvType type, int dim, int from_row) {
  const int size = CodeSize(type);
  const int positions = 4 / size;  // of a 4-byte group
  for (int row = from_row; row < kBlockTokens; ++row) {
    std::byte* tile = codes + row / positions * dim * 4;
    if (row % positions == 0) {
      Zero(tile, dim * 4);
      row += positions - 1;
    } else {
      for (int d = 0; d < dim; ++d) Zero(tile + d * 4 + row % positions * size, size);
    }
  }
}

void ClearScales(std::byte* scales, KvType type, int dim, int from_row) {
  if (type != KvType::kQ8_0) return;
  for (int block = 0; block < dim / 32; ++block) {
    Zero(scales + (block * kBlockTokens + from_row) * 2, (kBlockTokens - from_row) * 2);
  }
}

struct Variant {
  Level level;
  KvType type;
  EncodeFunction key;
  EncodeFunction value;
};

constexpr Variant kVariants[] = {
#define KVASIR_ENCODE(level, isa, type) {Level::level, KvType::type, isa::EncodeKey_##type, isa::EncodeValue_##type},
#include "backend/cpu/kernels/page/kernels.inc"
#undef KVASIR_ENCODE
};

const Variant& Find(Level level, KvType type) {
  for (const Variant& variant : kVariants) {
    if (variant.level == level && variant.type == type) return variant;
  }
  KVASIR_CHECK(level != Level::kRef, "no encoder for {}", Name(type));
  return Find(Level::kRef, type);
}

}  // namespace

EncodeFunction EncodeKey(Level level, KvType type) {
  return Find(level, type).key;
}
EncodeFunction EncodeValue(Level level, KvType type) {
  return Find(level, type).value;
}

void ClearRows(std::byte* page, const PageFormat& format, int from_row) {
  KVASIR_CHECK(from_row >= 0 && from_row <= kBlockTokens, "row {} of a page", from_row);
  ClearKeys(page + format.k_codes(), format.k, format.dk, from_row);
  ClearScales(page + format.k_scales(), format.k, format.dk, from_row);
  ClearValues(page + format.v_codes(), format.v, format.dv, from_row);
  ClearScales(page + format.v_scales(), format.v, format.dv, from_row);
}

}  // namespace kvasir::backend::cpu
