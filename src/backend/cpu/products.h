// backend/cpu/products.h
// Runs matrix products on the thread team: packs the input once, cuts the weights into chunks of rows, and hands each
// chunk's results to a finishing step (bias, residual, gated activation).
//
//   input rows ("columns" of the tiles) -> blocks of at most kColumnBlock -> tiles
//   weight rows -> chunks of 32..128 rows -> panels;   K -> segments of 1,024, folded left to right
//
// Threads take chunks; K is never split, and a column's arithmetic is the same in a tile of any width, so the bits of a
// row depend on nothing but the row. Few columns read the packed panels directly, many expand a segment of a chunk
// first (L2) and reuse it.
//
// Thread rule: one thread calls; the team works.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/matmul/matmul.h"
#include "backend/cpu/weights.h"
#include "base/thread_pool.h"

namespace kvasir::backend::cpu {

constexpr int kColumnBlock = 256;
constexpr int kChunkRows = 128;

// Rows of activations in the forms that tiles read; a form is made when a product needs it.
class PackedColumns {
 public:
  // Borrows `x` until the products are done.
  void Reset(const Activations& x, int columns, int64_t cols);
  void NeedQuant(const MatMulKernels& kernels, ThreadPool& pool);
  void NeedFloat(const MatMulKernels& kernels, ThreadPool& pool);

  int columns() const { return columns_; }
  int64_t cols() const { return cols_; }
  // The tile that starts at `column`.
  const std::byte* quant_tile(int column) const {
    return quant_begin_ + int64_t{column} * cols_ / kBlock * kPackedBytes;
  }
  const float* float_tile(int column) const { return float_.data() + int64_t{column} * cols_; }

 private:
  Activations x_;
  int columns_ = 0;
  int64_t cols_ = 0;
  bool has_quant_ = false, has_float_ = false;
  std::vector<std::byte> quant_;
  std::byte* quant_begin_ = nullptr;
  std::vector<float> float_;
};

// One product, or two with the same shape (gate and up) whose results are finished together.
struct ProductJob {
  const CpuMatrix* weight = nullptr;
  const CpuMatrix* second = nullptr;
  PackedColumns* x = nullptr;
};

// The sums of one chunk: first[c * kChunkRows + r] is row (row + r) of the job's weight times column (column + c).
struct ChunkSums {
  int job = 0;
  int64_t row = 0;
  int rows = 0;
  int column = 0;
  int columns = 0;
  const float* first = nullptr;
  const float* second = nullptr;
};

class ProductRunner {
 public:
  ProductRunner(const MatMulKernels& kernels, ThreadPool& pool);

  // One parallel region (and one or two for packing, when there are many columns). `finish` runs on any worker, for
  // disjoint chunks that cover every (row, column) of every job; chunks start at multiples of 32 rows.
  void Run(std::span<const ProductJob> jobs, const std::function<void(const ChunkSums&)>& finish);

 private:
  struct Chunk {
    int job;
    int64_t row;
    int rows;
    int column;
    int columns;
  };
  struct Scratch {
    std::vector<std::byte> expanded;
    std::vector<float> first, second;
  };
  // Chunks [next, end) of one region.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  void Accumulate(const CpuMatrix& weight, const PackedColumns& x, const Chunk& chunk, Scratch& scratch,
                  float* sums) const;
  void AccumulateFloat(const CpuMatrix& weight, const PackedColumns& x, const Chunk& chunk, float* sums) const;

  const MatMulKernels& kernels_;
  ThreadPool& pool_;
  std::vector<Chunk> chunks_;
  std::vector<Scratch> scratch_;  // one per worker
  std::vector<Share> shares_;     // likewise
};

}  // namespace kvasir::backend::cpu
