#include "backend/cpu/kernels/page/page.h"

#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

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

}  // namespace kvasir::backend::cpu
