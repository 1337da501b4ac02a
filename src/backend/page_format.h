// backend/page_format.h
// The bytes of a KV page: keys and values of 32 positions, one layer, one KV head. One layout for every tier and every
// kernel.
//
// Codes are grouped in 4-byte groups of g = 4 / sizeof(code) values (f32: 1, f16: 2, 8-bit: 4), so that one load feeds
// every kernel family: g consecutive values along head_dim for K, g consecutive positions for V.
//
//   K codes   [32/8][dk/g][8 positions][g]     lanes are positions: a score needs no horizontal sum
//   K scales  [dk/32][32 positions] f16        block formats only
//   V codes   [32/g][dv][g positions]          lanes are channels: an output row needs no horizontal sum
//   V scales  [dv/32][32 positions] f16        block formats only
//
// Each of the four arrays starts at a multiple of 64 bytes; so does the next page. Rows (positions) that hold nothing
// are zero. Example: f16, dk = dv = 64: K 4096 bytes, V 4096 bytes, page 8192.  q8_0: 2048 + 128 + 2048 + 128 = 4352.
//
// Thread rule: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvasir::backend {

constexpr int kBlockTokens = 32;  // positions of a page
constexpr int kSpanBlocks = 8;    // pages of a span
constexpr int kSpanTokens =
    kBlockTokens * kSpanBlocks;    // the fixed unit of attention reduction (docs/numerics.md, rule 5)
constexpr int kMaxHeadDim = 1024;  // so that kernels keep a tile's state on the stack

enum class KvType : uint8_t { kF32, kF16, kQ8_0 };
constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8_0};

std::string_view Name(KvType type);  // "f16"
std::optional<KvType> ParseKvType(std::string_view name);

struct PageFormat {
  KvType k = KvType::kF16;
  KvType v = KvType::kF16;
  int dk = 0;  // head_dim of keys; a multiple of 4, of 32 for q8_0
  int dv = 0;  // head_dim of values; likewise

  // Byte offsets inside a page.
  size_t k_codes() const { return 0; }
  size_t k_scales() const;
  size_t v_codes() const;
  size_t v_scales() const;
  size_t page_bytes() const;

  // Null when the pair of type and head_dim can be stored, otherwise a sentence.
  std::optional<std::string_view> Unsupported() const;

  friend bool operator==(const PageFormat&, const PageFormat&) = default;
};

}  // namespace kvasir::backend
