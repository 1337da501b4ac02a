// backend/cpu/kernels/attend/attend_variants.h
// Every line of kernels.inc as data, for dispatch, tests and benches. Apart from attend.h, which the instruction-set
// files include.
//
// Thread rule: constant.
#pragma once

#include <span>

#include "backend/cpu/kernels/attend/attend.h"

namespace kvasir::backend::cpu {

struct AttendVariant {
  Level level;
  KvType k;
  KvType v;
  AttendFunction function;
};

std::span<const AttendVariant> AttendVariants();

}  // namespace kvasir::backend::cpu
