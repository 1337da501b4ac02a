#include "backend/page_format.h"

namespace kvasir::backend {
namespace {

constexpr int kScaleValues = 32;  // values of a vector that share one f16 scale

size_t RoundUp(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

size_t CodeBytes(KvType type, int dim) {
  const size_t values = size_t{kBlockTokens} * static_cast<size_t>(dim);
  switch (type) {
    case KvType::kF32:
      return values * 4;
    case KvType::kF16:
      return values * 2;
    case KvType::kQ8_0:
      return values;
  }
  return 0;
}

size_t ScaleBytes(KvType type, int dim) {
  return type == KvType::kQ8_0 ? size_t{kBlockTokens} * static_cast<size_t>(dim / kScaleValues) * 2 : 0;
}

bool Fits(KvType type, int dim) {
  return type == KvType::kQ8_0 ? dim % kScaleValues == 0 : dim % 4 == 0;
}

}  // namespace

std::string_view Name(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kQ8_0:
      return "q8_0";
  }
  return "f32";
}

std::optional<KvType> ParseKvType(std::string_view name) {
  for (const KvType type : kKvTypes) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

size_t PageFormat::k_scales() const {
  return RoundUp(CodeBytes(k, dk));
}
size_t PageFormat::v_codes() const {
  return k_scales() + RoundUp(ScaleBytes(k, dk));
}
size_t PageFormat::v_scales() const {
  return v_codes() + RoundUp(CodeBytes(v, dv));
}
size_t PageFormat::page_bytes() const {
  return v_scales() + RoundUp(ScaleBytes(v, dv));
}

std::optional<std::string_view> PageFormat::Unsupported() const {
  if (dk < 4 || dv < 4) return "a head needs at least 4 values";
  if (dk > kMaxHeadDim || dv > kMaxHeadDim) return "a head may have at most 1024 values";
  if (!Fits(k, dk) || !Fits(v, dv)) {
    return "head_dim must be a multiple of 4 for f32 and f16, and of 32 for q8_0";
  }
  return std::nullopt;
}

}  // namespace kvasir::backend
