// The plain quantizers of backend/quant.h: one pass, the block's extremes give the scale. Good enough for tests and
// synthetic models.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/quant.h"

namespace kvasir::backend {
namespace {

void Write16(uint16_t value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

int RoundTo(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::nearbyint(value)), low, high);
}

// Codes of `bits` bits around zero (the value of largest magnitude maps to the lowest code) or above a minimum.
struct Grid {
  int bits;
  bool has_min;
};

void EncodeSmall(const Grid& grid, const float* x, std::byte* to) {
  const int top = (1 << grid.bits) - 1;
  float scale = 0, minimum = 0;
  if (grid.has_min) {
    const auto [low, high] = std::minmax_element(x, x + 32);
    scale = (*high - *low) / static_cast<float>(top);
    minimum = *low;
  } else {
    const float extreme = *std::max_element(x, x + 32, [](float a, float b) { return std::abs(a) < std::abs(b); });
    scale = extreme / -static_cast<float>(1 << (grid.bits - 1));
  }
  const float inverse = scale != 0 ? 1 / scale : 0;
  const float base = grid.has_min ? -minimum * inverse : static_cast<float>(1 << (grid.bits - 1));
  Write16(FloatToHalf(scale), to);
  to += 2;
  if (grid.has_min) {
    Write16(FloatToHalf(minimum), to);
    to += 2;
  }
  uint32_t fifth = 0;
  uint8_t nibbles[16] = {};
  for (int i = 0; i < 32; ++i) {
    const int code = RoundTo(x[i] * inverse + base, 0, top);
    nibbles[i % 16] = static_cast<uint8_t>(nibbles[i % 16] | (code & 15) << (i < 16 ? 0 : 4));
    fifth |= static_cast<uint32_t>(code >> 4) << i;
  }
  if (grid.bits == 5) {
    std::memcpy(to, &fifth, 4);
    to += 4;
  }
  std::memcpy(to, nibbles, 16);
}

void EncodeQ8(const float* x, std::byte* to) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i) extreme = std::max(extreme, std::abs(x[i]));
  const float scale = extreme / 127;
  const float inverse = scale != 0 ? 1 / scale : 0;
  Write16(FloatToHalf(scale), to);
  for (int i = 0; i < 32; ++i) to[2 + i] = static_cast<std::byte>(RoundTo(x[i] * inverse, -127, 127));
}

}  // namespace

Status Encode(TensorType type, std::span<const float> values, std::byte* blocks) {
  const TensorTypeTraits& traits = Traits(type);
  KVASIR_CHECK(values.size() % static_cast<size_t>(traits.block_elements) == 0);
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(traits.block_elements), blocks += traits.block_bytes) {
    const float* x = values.data() + i;
    switch (type) {
      case TensorType::kF32:
        std::memcpy(blocks, x, 4);
        break;
      case TensorType::kF16:
        Write16(FloatToHalf(*x), blocks);
        break;
      case TensorType::kBF16:
        Write16(FloatToBFloat16(*x), blocks);
        break;
      case TensorType::kQ4_0:
        EncodeSmall({4, false}, x, blocks);
        break;
      case TensorType::kQ4_1:
        EncodeSmall({4, true}, x, blocks);
        break;
      case TensorType::kQ5_0:
        EncodeSmall({5, false}, x, blocks);
        break;
      case TensorType::kQ5_1:
        EncodeSmall({5, true}, x, blocks);
        break;
      case TensorType::kQ8_0:
        EncodeQ8(x, blocks);
        break;
      default:
        return MakeError(ErrorCode::kUnsupported, "there is no quantizer for {}", traits.name);
    }
  }
  return {};
}

}  // namespace kvasir::backend
