// Every panel format of kernels.inc and every other tensor type, on every level this CPU has.
#include "backend/cpu/kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/activation_rows.h"
#include "backend/cpu/kernels/matmul/test_rows.h"
#include "backend/cpu/level.h"
#include "backend/cpu/products.h"
#include "backend/cpu/weights.h"
#include "backend/quant.h"

namespace kvasir::backend::cpu {
namespace {

struct LevelKernels {
  std::string name;
  MatMulKernels matmul;
};

// The levels that this CPU has; the number of the others is printed, so that a green run says what it did not run.
std::vector<LevelKernels> Levels() {
  std::vector<LevelKernels> out = {{"ref", ref::kMatMulKernels}};
  if (CpuHas(Level::kAvx2)) out.push_back({"avx2", avx2::kMatMulKernels});
  if (CpuHas(Level::kAvx512)) {
    out.push_back({"avx512", avx512::kMatMulKernels});
    const MatMulKernels best = avx512::KernelsOfThisCpu();
    if (best.amx[0][0] != nullptr) out.push_back({"avx512 with amx", best});
  }
  if (out.size() < 4) std::cout << 4 - out.size() << " level(s) skipped: this CPU lacks them\n";
  return out;
}

// Rows of activations with both forms, quantized by the ref kernels so that every level sees the same.
struct Input {
  std::vector<float> f32, scales, sums;
  std::vector<int8_t> codes;
  int64_t cols;

  Input(int rows, int64_t width, uint32_t seed) : cols(width) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    f32.resize(static_cast<size_t>(rows * cols));
    for (float& x : f32) x = normal(random);
    if (cols % kBlock != 0) return;
    codes.resize(f32.size());
    scales.resize(f32.size() / kBlock);
    sums.resize(f32.size() / kBlock);
    for (int row = 0; row < rows; ++row) {
      const RowOut out = RowAt(activations(), row, cols);
      ref::kRowKernels.norm(out.f32, nullptr, 0, static_cast<int>(cols), out);
    }
  }

  Activations activations(int row = 0) {
    const auto at = static_cast<size_t>(row * cols);
    if (codes.empty()) return {f32.data() + at, nullptr, nullptr, nullptr};
    return {f32.data() + at, codes.data() + at, scales.data() + at / kBlock, sums.data() + at / kBlock};
  }
};

std::unique_ptr<Matrix> Load(const TestRows& rows, const MatMulKernels& kernels, Compute compute, ThreadPool& pool) {
  auto matrix = CpuMatrix::Load(rows.source(), kernels, compute, pool);
  EXPECT_TRUE(matrix.ok());
  return std::move(matrix).value();
}

// [columns][rows]
std::vector<float> Multiply(const Matrix& weight, const Activations& x, int columns, const MatMulKernels& kernels,
                            ThreadPool& pool) {
  std::vector<float> out(static_cast<size_t>(weight.rows() * columns), NAN);
  PackedColumns packed;
  packed.Reset(x, columns, weight.cols());
  ProductRunner runner(kernels, pool);
  const ProductJob job = {&CpuMatrix::From(&weight), nullptr, &packed};
  runner.Run({&job, 1}, [&](const ChunkSums& sums) {
    for (int c = 0; c < sums.columns; ++c) {
      for (int r = 0; r < sums.rows; ++r) {
        out[static_cast<size_t>((sums.column + c) * weight.rows() + sums.row + r)] = sums.first[c * kChunkRows + r];
      }
    }
  });
  return out;
}

// numerics.md rule 1, from the GGUF bytes: exact integer dots, one FMA per scale in block order, segments folded left
// to right.
float ExactFormula(const TestRows& rows, int64_t row, const Input& x, int column) {
  const QuantCodes& codes = *FindQuantCodes(rows.type);
  const std::byte* from = rows.bytes.data() + row * *TensorBytes(rows.type, rows.cols);
  const bool halves =
      rows.type == TensorType::kQ2_K || rows.type == TensorType::kQ3_K || rows.type == TensorType::kQ6_K;
  const int sub = halves ? 16 : 32;
  float total = 0;
  for (int64_t segment = 0; segment < rows.cols; segment += kSegment) {
    float sum = 0;
    for (int64_t k = segment; k < std::min(segment + kSegment, rows.cols); k += kBlock) {
      const QuantBlock block = UnpackQuantBlock(rows.type, from, k / kBlock);
      const auto at = static_cast<size_t>(column * rows.cols + k);
      for (int first = 0; first < kBlock; first += sub) {
        int dot = 0, code_sum = 0;
        for (int i = first; i < first + sub; ++i) {
          const uint8_t stored = block.codes[static_cast<size_t>(i)];
          const int w = codes.codebook != nullptr ? (*codes.codebook)[stored] : stored - codes.offset;
          dot += w * x.codes[at + static_cast<size_t>(i)];
          code_sum += x.codes[at + static_cast<size_t>(i)];
        }
        const auto half = static_cast<size_t>(first / 16);
        const float scale = x.scales[at / kBlock];
        sum = std::fma(static_cast<float>(dot), block.d * static_cast<float>(block.sub_scale[half]) * scale, sum);
        if (block.m != 0) {
          sum = std::fma(block.m * static_cast<float>(block.sub_min[half]), scale * static_cast<float>(code_sum), sum);
        }
      }
    }
    total += sum;
  }
  return total;
}

std::vector<int64_t> Widths(TensorType type) {
  if (Traits(type).block_elements == 256) return {256, 2304};
  if (Traits(type).block_elements == 64) return {64, 896};
  return {32, 64, 96, 896, 2048 + 32};
}

bool LessMagnitude(float a, float b) {
  return std::abs(a) < std::abs(b);
}

constexpr int kRows = 37;  // a multiple of no panel

TEST(MatMul, QuantizedProductIsTheExactFormulaOnEveryLevel) {
  ThreadPool pool(2);
  int formats = 0;
  for (const TensorType type : kQuantizedTestTypes) {
    if (FindQuantCodes(type) == nullptr) continue;
    ++formats;
    for (const int64_t cols : Widths(type)) {
      const TestRows rows(type, kRows, cols, 11);
      Input x(6, cols, 12);
      for (const LevelKernels& level : Levels()) {
        const auto weight = Load(rows, level.matmul, Compute::kFast, pool);
        for (const int columns : {1, 6}) {
          const std::vector<float> out = Multiply(*weight, x.activations(), columns, level.matmul, pool);
          for (int c = 0; c < columns; ++c) {
            for (int64_t row = 0; row < kRows; ++row) {
              ASSERT_EQ(out[static_cast<size_t>(c * kRows + row)], ExactFormula(rows, row, x, c))
                  << Name(type) << " " << level.name << " cols " << cols << " row " << row << " column " << c << "/"
                  << columns;
            }
          }
        }
      }
    }
  }
  // Every format of kernels.inc but Int8.
  int listed = 0;
#define KVASIR_QUANT_PANEL(name, ...) ++listed;
#include "backend/cpu/kernels/matmul/kernels.inc"
#undef KVASIR_QUANT_PANEL
  EXPECT_EQ(formats, listed - 1);
}

TEST(MatMul, EveryTypeIsCloseToTheProductOfItsDecodedValues) {
  ThreadPool pool(1);
  for (const TensorType type : kAllTestTypes) {
    const bool quantized = Traits(type).block_elements > 1;
    for (const int64_t cols : quantized ? Widths(type) : std::vector<int64_t>{1, 33, 1100}) {
      const TestRows rows(type, kRows, cols, 21);
      std::vector<float> decoded(static_cast<size_t>(kRows * cols));
      Decode(type, rows.bytes.data(), kRows * cols, decoded.data());
      Input x(5, cols, 22);
      for (const Compute compute : {Compute::kFast, Compute::kF32}) {
        const bool eight_bit = quantized && compute == Compute::kFast;
        const bool rounded = eight_bit && FindQuantCodes(type) == nullptr;
        std::vector<float> first;
        for (const LevelKernels& level : Levels()) {
          const auto weight = Load(rows, level.matmul, compute, pool);
          const std::vector<float> out = Multiply(*weight, x.activations(), 5, level.matmul, pool);
          for (size_t c = 0; c < 5; ++c) {
            for (size_t row = 0; row < kRows; ++row) {
              double expected = 0, magnitude = 0, rounding = 0, extreme = 0;
              for (size_t k = 0; k < static_cast<size_t>(cols); ++k) {
                const size_t at = c * static_cast<size_t>(cols) + k;
                const double input = eight_bit ? double{x.scales[at / kBlock]} * x.codes[at] : double{x.f32[at]};
                const double term = decoded[row * static_cast<size_t>(cols) + k] * input;
                expected += term;
                magnitude += std::abs(term);
                if (!rounded) continue;
                // An Int8 panel moves each weight by up to 1/254 of its block's largest.
                const auto block =
                    decoded.begin() + static_cast<int64_t>(row) * cols + static_cast<int64_t>(k / kBlock * kBlock);
                if (k % kBlock == 0) extreme = std::abs(*std::max_element(block, block + kBlock, LessMagnitude));
                rounding += extreme / 254 * std::abs(input);
              }
              ASSERT_NEAR(out[c * kRows + row], expected, 2e-6 * magnitude + rounding + 1e-30)
                  << Name(type) << " " << level.name << " cols " << cols << " row " << row << " column " << c;
            }
          }
          if (first.empty()) first = out;
          ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0)
              << Name(type) << ": " << level.name << " and ref differ at " << cols << " columns";
        }
      }
    }
  }
}

TEST(MatMul, BitsDependNeitherOnTheNumberOfRowsNorOnThreads) {
  ThreadPool one(1), two(2);
  constexpr int kColumns = 19;
  for (const TensorType type : kAllTestTypes) {
    const int64_t cols = Traits(type).block_elements == 256 ? 1280 : Traits(type).block_elements == 64 ? 1088 : 1056;
    const TestRows rows(type, 133, cols, 31);
    Input x(kColumns, cols, 32);
    for (const LevelKernels& level : Levels()) {
      if (level.name == "ref" && type != TensorType::kQ4_K && type != TensorType::kF16)
        continue;  // slow, the same code for all
      for (const Compute compute : {Compute::kFast, Compute::kF32}) {
        const auto weight = Load(rows, level.matmul, compute, two);
        const std::vector<float> alone = [&] {
          std::vector<float> out;
          for (int c = 0; c < kColumns; ++c) {
            const std::vector<float> column = Multiply(*weight, x.activations(c), 1, level.matmul, one);
            out.insert(out.end(), column.begin(), column.end());
          }
          return out;
        }();
        for (const int columns : {2, 3, 4, 5, 6, 7, 8, 9, 11, 13, kColumns}) {
          for (ThreadPool* pool : {&one, &two}) {
            if (pool == &one && columns != kColumns) continue;
            const std::vector<float> out = Multiply(*weight, x.activations(), columns, level.matmul, *pool);
            ASSERT_EQ(std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0)
                << Name(type) << " " << level.name << " " << columns << " columns, " << pool->threads() << " threads";
          }
        }
      }
    }
  }
}

TEST(MatMul, MoreColumnsThanABlockAreTheSameColumns) {
  ThreadPool pool(2);
  constexpr int kColumns = 2 * kColumnBlock + 5;
  const TestRows rows(TensorType::kQ4_K, 40, 256, 41);
  Input x(kColumns, 256, 42);
  for (const LevelKernels& level : Levels()) {
    for (const Compute compute : {Compute::kFast, Compute::kF32}) {
      const auto weight = Load(rows, level.matmul, compute, pool);
      const std::vector<float> all = Multiply(*weight, x.activations(), kColumns, level.matmul, pool);
      for (const int c : {0, 171, 172, 255, 256, 300, kColumns - 1}) {
        const std::vector<float> alone = Multiply(*weight, x.activations(c), 1, level.matmul, pool);
        ASSERT_EQ(std::memcmp(all.data() + c * 40, alone.data(), 40 * sizeof(float)), 0) << level.name << " " << c;
      }
    }
  }
}

TEST(CpuMatrix, ReadsBackTheRowsItWasLoadedFrom) {
  ThreadPool pool(2);
  for (const TensorType type : kAllTestTypes) {
    const int64_t cols = Traits(type).block_elements == 256 ? 1280 : Traits(type).block_elements == 64 ? 1088 : 1056;
    const TestRows rows(type, kRows, cols, 51);
    std::vector<float> decoded(static_cast<size_t>(kRows * cols)), row(static_cast<size_t>(cols));
    Decode(type, rows.bytes.data(), kRows * cols, decoded.data());
    const bool exact = Traits(type).block_elements == 1 || FindQuantCodes(type) != nullptr;
    for (const LevelKernels& level : Levels()) {
      for (const Compute compute : {Compute::kFast, Compute::kF32}) {
        const auto weight = Load(rows, level.matmul, compute, pool);
        for (int64_t r = 0; r < kRows; ++r) {
          CpuMatrix::From(weight.get()).ReadRow(r, row.data());
          for (size_t k = 0; k < row.size(); ++k) {
            const float expected = decoded[static_cast<size_t>(r * cols) + k];
            if (exact || compute == Compute::kF32) {
              ASSERT_EQ(row[k], expected) << Name(type) << " " << level.name << " row " << r << " value " << k;
            } else {
              float extreme = 0;
              for (size_t i = k / 32 * 32; i < k / 32 * 32 + 32; ++i) {
                extreme = std::max(extreme, std::abs(decoded[static_cast<size_t>(r * cols) + i]));
              }
              ASSERT_NEAR(row[k], expected, extreme / 253) << Name(type) << " row " << r << " value " << k;
            }
          }
        }
      }
    }
  }
}

TEST(CpuMatrix, PanelsAreAboutAsSmallAsTheFile) {
  ThreadPool pool(2);
  for (const TensorType type : kQuantizedTestTypes) {
    if (FindQuantCodes(type) == nullptr) continue;
    const TestRows rows(type, 64, 2048, 61);
    for (const LevelKernels& level : Levels()) {
      const auto weight = Load(rows, level.matmul, Compute::kFast, pool);
      EXPECT_LE(static_cast<double>(weight->bytes()), 1.05 * static_cast<double>(rows.bytes.size())) << Name(type);
    }
  }
}

}  // namespace
}  // namespace kvasir::backend::cpu
