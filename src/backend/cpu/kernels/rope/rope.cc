#include "backend/cpu/kernels/rope/rope.h"

namespace kvasir::backend::cpu {

RotateFunction Rotate(Level level) {
  struct Variant {
    Level level;
    RotateFunction function;
  };
  static constexpr Variant kVariants[] = {
#define KVASIR_ROTATE(level, isa) {Level::level, isa::Rotate},
#include "backend/cpu/kernels/rope/kernels.inc"
#undef KVASIR_ROTATE
  };
  for (const Variant& variant : kVariants) {
    if (variant.level == level) return variant.function;
  }
  return ref::Rotate;
}

}  // namespace kvasir::backend::cpu
