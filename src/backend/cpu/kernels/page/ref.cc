#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels/page/page.h"
#include "base/half.h"

namespace kvasir::backend::cpu::ref {
namespace {

constexpr int kScaleValues = 32;

// Code index of value d of row `row`, where a 4-byte group holds g codes.
size_t KeyIndex(int g, int dim, int row, int d) {
  return (static_cast<size_t>(row / 8) * static_cast<size_t>(dim / g) + static_cast<size_t>(d / g)) * 8 *
             static_cast<size_t>(g) +
         static_cast<size_t>(row % 8 * g + d % g);
}

size_t ValueIndex(int g, int dim, int row, int d) {
  return (static_cast<size_t>(row / g) * static_cast<size_t>(dim) + static_cast<size_t>(d)) * static_cast<size_t>(g) +
         static_cast<size_t>(row % g);
}

using IndexFunction = size_t (*)(int g, int dim, int row, int d);

template <IndexFunction kIndex>
void EncodeF32(const float* x, int dim, int row, std::byte* codes) {
  float* out = reinterpret_cast<float*>(codes);
  for (int d = 0; d < dim; ++d) out[kIndex(1, dim, row, d)] = x[d];
}

template <IndexFunction kIndex>
void EncodeF16(const float* x, int dim, int row, std::byte* codes) {
  Half* out = reinterpret_cast<Half*>(codes);
  for (int d = 0; d < dim; ++d) out[kIndex(2, dim, row, d)] = FloatToHalf(x[d]);
}

template <IndexFunction kIndex>
void EncodeQ8_0(const float* x, int dim, int row, std::byte* codes, std::byte* scales) {
  int8_t* out = reinterpret_cast<int8_t*>(codes);
  Half* scale_out = reinterpret_cast<Half*>(scales);
  for (int block = 0; block < dim / kScaleValues; ++block) {
    const float* values = x + block * kScaleValues;
    float largest = 0;
    for (int i = 0; i < kScaleValues; ++i) {
      const float magnitude = std::fabs(values[i]);
      if (magnitude > largest) largest = magnitude;
    }
    scale_out[block * kBlockTokens + row] = FloatToHalf(largest / 127.0f);
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (int i = 0; i < kScaleValues; ++i) {
      // A tiny `largest` has an infinite inverse; its scale is 0, so any code in range will do. Comparisons put NaN in
      // range.
      float code = values[i] * inverse;
      code = code < 127 ? code : 127;
      code = code > -127 ? code : -127;
      out[kIndex(4, dim, row, block * kScaleValues + i)] = static_cast<int8_t>(std::nearbyint(code));
    }
  }
}

}  // namespace

void EncodeKey_kF32(const float* x, int dim, int row, std::byte* codes, std::byte*) {
  EncodeF32<KeyIndex>(x, dim, row, codes);
}
void EncodeKey_kF16(const float* x, int dim, int row, std::byte* codes, std::byte*) {
  EncodeF16<KeyIndex>(x, dim, row, codes);
}
void EncodeKey_kQ8_0(const float* x, int dim, int row, std::byte* codes, std::byte* scales) {
  EncodeQ8_0<KeyIndex>(x, dim, row, codes, scales);
}
void EncodeValue_kF32(const float* x, int dim, int row, std::byte* codes, std::byte*) {
  EncodeF32<ValueIndex>(x, dim, row, codes);
}
void EncodeValue_kF16(const float* x, int dim, int row, std::byte* codes, std::byte*) {
  EncodeF16<ValueIndex>(x, dim, row, codes);
}
void EncodeValue_kQ8_0(const float* x, int dim, int row, std::byte* codes, std::byte* scales) {
  EncodeQ8_0<ValueIndex>(x, dim, row, codes, scales);
}

}  // namespace kvasir::backend::cpu::ref
