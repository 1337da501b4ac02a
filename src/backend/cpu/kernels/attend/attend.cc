#include "backend/cpu/kernels/attend/attend.h"

#include "backend/cpu/kernels/attend/attend_variants.h"
#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

constexpr AttendVariant kVariants[] = {
#define KVASIR_ATTEND(level, isa, k, v) {Level::level, KvType::k, KvType::v, isa::Attend_##k##_##v},
#include "backend/cpu/kernels/attend/kernels.inc"
#undef KVASIR_ATTEND
};

}  // namespace

std::span<const AttendVariant> AttendVariants() {
  return kVariants;
}

AttendFunction AttendSpan(Level level, KvType k, KvType v) {
  for (const AttendVariant& variant : kVariants) {
    if (variant.level == level && variant.k == k && variant.v == v) return variant.function;
  }
  KVASIR_CHECK(level != Level::kRef, "no attention for {}/{}", Name(k), Name(v));
  return AttendSpan(Level::kRef, k, v);
}

}  // namespace kvasir::backend::cpu
