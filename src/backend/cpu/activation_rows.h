// backend/cpu/activation_rows.h
// Rows of backend::Activations: where one begins, and memory for some.
//
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/matmul/panel.h"
#include "backend/cpu/kernels/rowwise/rowwise.h"

namespace kvasir::backend::cpu {

// Row `row` of activations that are `cols` wide, from `column` on. REQUIRES: `column` is a multiple of 32 where there
// are codes.
inline RowOut RowAt(const Activations& x, int64_t row, int64_t cols, int64_t column = 0) {
  const int64_t at = row * cols + column;
  RowOut out;
  out.f32 = x.f32 + at;
  if (x.codes == nullptr) return out;
  out.codes = x.codes + at;
  out.scales = x.scales + at / kBlock;
  out.sums = x.sums + at / kBlock;
  return out;
}

inline Activations RowsFrom(const Activations& x, int64_t row, int64_t cols) {
  const RowOut at = RowAt(x, row, cols);
  return {at.f32, at.codes, at.scales, at.sums};
}

// Room for rows that an operation needs between two products.
class ActivationBuffer {
 public:
  // The content is undefined. Valid until the next call.
  Activations Resize(int64_t rows, int64_t cols, bool quantized) {
    const auto size = static_cast<size_t>(rows * cols);
    f32_.resize(size);
    if (!quantized) return {f32_.data(), nullptr, nullptr, nullptr};
    codes_.resize(size);
    scales_.resize(size / kBlock);
    sums_.resize(size / kBlock);
    return {f32_.data(), codes_.data(), scales_.data(), sums_.data()};
  }

 private:
  std::vector<float> f32_, scales_, sums_;
  std::vector<int8_t> codes_;
};

}  // namespace kvasir::backend::cpu
