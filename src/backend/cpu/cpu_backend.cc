#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "backend/cpu/memory.h"
#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

// Raised whenever a change moves bits.
constexpr int kKernelEpoch = 1;
constexpr int kRowsPerChunk = 4;  // of row-wise work: about a microsecond

const RowKernels& RowKernelsOf(Level level) {
  switch (level) {
    case Level::kRef:
      return ref::kRowKernels;
    case Level::kAvx2:
      return avx2::kRowKernels;
    case Level::kAvx512:
      return avx512::kRowKernels;
  }
  return ref::kRowKernels;
}

MatMulKernels MatMulKernelsOf(Level level) {
  switch (level) {
    case Level::kRef:
      return ref::kMatMulKernels;
    case Level::kAvx2:
      return avx2::kMatMulKernels;
    case Level::kAvx512:
      return avx512::KernelsOfThisCpu();
  }
  return ref::kMatMulKernels;
}

// Calls row(i) for every i, on the team.
template <typename Row>
void ForRows(ThreadPool& pool, int rows, Row row) {
  const auto run = [&](int64_t chunk, int) {
    const int end = static_cast<int>(std::min<int64_t>((chunk + 1) * kRowsPerChunk, rows));
    for (int i = static_cast<int>(chunk) * kRowsPerChunk; i < end; ++i) row(i);
  };
  pool.Run((rows + kRowsPerChunk - 1) / kRowsPerChunk, std::cref(run));
}

}  // namespace

CpuBackend::CpuBackend(Level level, int threads, Compute compute)
    : level_(level),
      compute_(compute),
      pool_(threads),
      row_kernels_(RowKernelsOf(level)),
      matmul_kernels_(MatMulKernelsOf(level)),
      products_(matmul_kernels_, pool_) {
  profile_.kind = "cpu";
  profile_.level = std::string(Name(level));
  profile_.numerics =
      fmt::format("cpu/{}/{}/{}", Name(level), compute == Compute::kFast ? "fast" : "f32", kKernelEpoch);
  profile_.threads = threads;
}

CpuBackend::~CpuBackend() = default;

Result<Buffer> CpuBackend::Allocate(MemoryKind kind, size_t bytes) {
  KVASIR_ASSIGN_OR_RETURN(std::byte * address, MapMemory(std::max<size_t>(bytes, 1)));
  return Buffer(this, kind, address, bytes);
}

void CpuBackend::Free(MemoryKind /*kind*/, std::byte* address, size_t bytes) {
  UnmapMemory(address, std::max<size_t>(bytes, 1));
}

Result<std::unique_ptr<Matrix>> CpuBackend::LoadMatrix(const MatrixSource& source) {
  return CpuMatrix::Load(source, matmul_kernels_, compute_, pool_);
}

bool CpuBackend::Quantizes(int64_t cols) const {
  return compute_ == Compute::kFast && cols % kBlock == 0;
}

void CpuBackend::Embed(const EmbedArgs& args) {
  const CpuMatrix& table = CpuMatrix::From(args.table);
  ForRows(pool_, static_cast<int>(args.tokens.size()), [&](int i) {
    const int32_t token = args.tokens[static_cast<size_t>(i)];
    KVASIR_CHECK(token >= 0 && token < table.rows(), "token {} of {}", token, table.rows());
    float* out = args.out + i * table.cols();
    table.ReadRow(token, out);
    for (int64_t k = 0; k < table.cols(); ++k) out[k] *= args.scale;
  });
}

void CpuBackend::Norm(const NormArgs& args) {
  ForRows(pool_, args.rows, [&](int i) {
    row_kernels_.norm(args.x + int64_t{i} * args.cols, args.weight, args.eps, args.cols, RowAt(args.out, i, args.cols));
  });
}

void CpuBackend::NormAdd(const NormAddArgs& args) {
  ForRows(pool_, args.rows, [&](int i) {
    const int64_t at = int64_t{i} * args.cols;
    row_kernels_.norm_add(args.x + at, args.weight, args.eps, args.cols, args.residual + at);
  });
}

void CpuBackend::MatMul(const MatMulArgs& args) {
  if (args.rows == 0 || args.products.empty()) return;
  input_.Reset(args.x, args.rows, args.products[0].weight->cols());
  std::vector<ProductJob> jobs;
  for (const Product& product : args.products) jobs.push_back({&CpuMatrix::From(product.weight), nullptr, &input_});
  products_.Run(jobs, [&](const ChunkSums& sums) {
    const Product& product = args.products[static_cast<size_t>(sums.job)];
    float values[kChunkRows];
    for (int c = 0; c < sums.columns; ++c) {
      const float* from = sums.first + c * kChunkRows;
      for (int r = 0; r < sums.rows; ++r) {
        values[r] = args.scale * (from[r] + (product.bias != nullptr ? product.bias[sums.row + r] : 0.0f));
      }
      if (args.softcap > 0) row_kernels_.softcap(values, sums.rows, args.softcap);
      float* out = product.out + (sums.column + c) * product.out_stride + sums.row;
      if (args.store == Store::kAdd) {
        for (int r = 0; r < sums.rows; ++r) out[r] += values[r];
      } else {
        std::memcpy(out, values, static_cast<size_t>(sums.rows) * sizeof(float));
      }
    }
  });
}

void CpuBackend::Glu(const GluArgs& args) {
  if (args.rows == 0) return;
  input_.Reset(args.x, args.rows, args.gate->cols());
  const ProductJob job = {&CpuMatrix::From(args.gate), &CpuMatrix::From(args.up), &input_};
  const auto glu = args.activation == Activation::kSilu ? row_kernels_.glu_silu : row_kernels_.glu_gelu;
  const int64_t cols = args.gate->rows();
  products_.Run({&job, 1}, [&](const ChunkSums& sums) {
    for (int c = 0; c < sums.columns; ++c) {
      glu(sums.first + c * kChunkRows, sums.second + c * kChunkRows, sums.rows,
          RowAt(args.out, sums.column + c, cols, sums.row));
    }
  });
}

// Copies are done when this returns, so the event needs no record.
Event CpuBackend::Copy(CopyDirection /*direction*/, std::span<const CopyItem> items) {
  for (const CopyItem& item : items) std::memcpy(item.to, item.from, item.bytes);
  return 0;
}

void CpuBackend::Wait(Event /*event*/) {}
void CpuBackend::Synchronize() {}

}  // namespace kvasir::backend::cpu
