// backend/cpu/weights.h
// A weight matrix on the CPU: repacked at load into panels of interleaved rows (kernels/matmul/panel.h).
//
// Scaled-integer types keep their codes and scales, to the bit. With 8-bit activations every other quantized type (IQ1,
// IQ2, IQ3, ternary, NVFP4) becomes the Int8 panel: each 32 values of a row rounded to 8 bits with a scale of their
// own, an error of at most 1/254 of the block's largest value, far below what those types lost already. Float types
// keep their bits; with f32 compute everything is decoded to f32.
//
// Thread rule: const after load.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/kernels/matmul/matmul.h"
#include "backend/cpu/memory.h"
#include "backend/factory.h"
#include "base/thread_pool.h"

namespace kvasir::backend::cpu {

class CpuMatrix final : public Matrix {
 public:
  // Uses the whole team. kUnsupported, kResourceExhausted.
  static Result<std::unique_ptr<Matrix>> Load(const MatrixSource& source, const MatMulKernels& kernels, Compute compute,
                                              ThreadPool& pool);

  // REQUIRES: `matrix` was loaded by a CPU backend.
  static const CpuMatrix& From(const Matrix* matrix) { return static_cast<const CpuMatrix&>(*matrix); }

  size_t bytes() const override { return data_.bytes(); }

  // Null for float panels.
  const QuantKernels* quant() const { return quant_; }
  FloatKind float_kind() const { return float_kind_; }
  int panel_rows() const { return panel_rows_; }
  const std::byte* panel(int64_t index) const { return data_.address() + index * panel_bytes_; }

  // Row `row`, decoded. REQUIRES: 0 <= row < rows().
  void ReadRow(int64_t row, float* out) const;

 private:
  CpuMatrix(TensorType type, int64_t rows, int64_t cols) : Matrix(type, rows, cols) {}
  void PackQuantPanel(const MatrixSource& source, int64_t index);
  void PackFloatPanel(const MatrixSource& source, int64_t index);

  const QuantKernels* quant_ = nullptr;
  FloatKind float_kind_ = FloatKind::kF32;
  int panel_rows_ = 0;
  int64_t panel_bytes_ = 0;
  Mapping data_;
};

}  // namespace kvasir::backend::cpu
