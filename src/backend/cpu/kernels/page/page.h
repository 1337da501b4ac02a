// backend/cpu/kernels/page/page.h
// Encodes one key or value vector into its row of a page (layout: backend/page_format.h).
//
// f32 is stored as it is, f16 rounded to nearest even. q8_0: per 32 values, scale = max|x| / 127 as f16 and
// code = round(x * 127 / max|x|), ties to even. Every level writes the same bytes: all steps are exact or correctly
// rounded.
//
// Thread rule: pure functions. Rows of one page may be written by different threads.
#pragma once

#include <cstddef>

#include "backend/cpu/level.h"
#include "backend/page_format.h"

namespace kvasir::backend::cpu {

// x: [dim] f32. codes, scales: the arrays of the page (scales unused when the type has none). REQUIRES: 0 <= row < 32.
using EncodeFunction = void (*)(const float* x, int dim, int row, std::byte* codes, std::byte* scales);

EncodeFunction EncodeKey(Level level, KvType type);
EncodeFunction EncodeValue(Level level, KvType type);

#define KVASIR_ENCODE(level, isa, type)                                                           \
  namespace isa {                                                                                 \
  void EncodeKey_##type(const float* x, int dim, int row, std::byte* codes, std::byte* scales);   \
  void EncodeValue_##type(const float* x, int dim, int row, std::byte* codes, std::byte* scales); \
  }
#include "backend/cpu/kernels/page/kernels.inc"
#undef KVASIR_ENCODE

}  // namespace kvasir::backend::cpu
