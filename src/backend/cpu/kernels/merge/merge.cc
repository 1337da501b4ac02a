#include "backend/cpu/kernels/merge/merge.h"

namespace kvasir::backend::cpu {

MergeFunction MergePartials(Level level) {
  struct Variant {
    Level level;
    MergeFunction function;
  };
  static constexpr Variant kVariants[] = {
#define KVASIR_MERGE(level, isa) {Level::level, isa::MergePartials},
#include "backend/cpu/kernels/merge/kernels.inc"
#undef KVASIR_MERGE
  };
  for (const Variant& variant : kVariants) {
    if (variant.level == level) return variant.function;
  }
  return ref::MergePartials;
}

}  // namespace kvasir::backend::cpu
