// backend/cpu/kernels/merge/merge.h
// Folds the partials of one query head, left to right, and normalises.
//
//   acc = first partial that saw a key;  then for each next one that did:
//   M = max(m_acc, m);  acc = (O_acc e^(m_acc - M) + O e^(m - M),  M,  l_acc e^(m_acc - M) + l e^(m - M))
//   out = O_acc / l_acc, or zero when no partial saw a key.
// One at a time and in order: the fold is part of the numerics class.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "backend/cpu/level.h"

namespace kvasir::backend::cpu {

// partials: record i at + i * stride, laid out as PartialStride says (backend/backend.h). out: [dv].
using MergeFunction = void (*)(const float* partials, int64_t stride, int count, int dv, float* out);

MergeFunction MergePartials(Level level);

#define KVASIR_MERGE(level, isa)                                                            \
  namespace isa {                                                                           \
  void MergePartials(const float* partials, int64_t stride, int count, int dv, float* out); \
  }
#include "backend/cpu/kernels/merge/kernels.inc"
#undef KVASIR_MERGE

}  // namespace kvasir::backend::cpu
