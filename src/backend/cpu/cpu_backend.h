// backend/cpu/cpu_backend.h
// The CPU as a backend: device memory is ordinary memory, operations run at once on a thread team with the kernels of
// one level.
//
// What it does not do: choose a level (backend/factory.h), or copy asynchronously (a copy is done when Copy returns).
//
// Thread rule: one thread calls.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/activation_rows.h"
#include "backend/cpu/kernels/rowwise/rowwise.h"
#include "backend/cpu/level.h"
#include "backend/cpu/products.h"
#include "backend/factory.h"
#include "base/thread_pool.h"

namespace kvasir::backend::cpu {

class CpuBackend : public Backend {
 public:
  CpuBackend(Level level, int threads, Compute compute);
  ~CpuBackend() override;

  const BackendProfile& profile() const override { return profile_; }
  Result<Buffer> Allocate(MemoryKind kind, size_t bytes) override;
  Result<std::unique_ptr<Matrix>> LoadMatrix(const MatrixSource& source) override;
  bool Quantizes(int64_t cols) const override;

  void Embed(const EmbedArgs& args) override;
  void Norm(const NormArgs& args) override;
  void NormAdd(const NormAddArgs& args) override;
  void MatMul(const MatMulArgs& args) override;
  void Glu(const GluArgs& args) override;
  void MoeFfn(const MoeArgs& args) override;
  void RopeAppend(const RopeAppendArgs& args) override;
  void Attend(const AttendArgs& args) override;
  void Merge(const MergeArgs& args) override;
  void ClearPageRows(std::byte* page, const PageFormat& format, int from_row) override;
  Event Copy(CopyDirection direction, std::span<const CopyItem> items) override;
  void Wait(Event event) override;
  void Synchronize() override;

 protected:
  void Free(MemoryKind kind, std::byte* address, size_t bytes) override;

 private:
  Level level_;
  Compute compute_;
  BackendProfile profile_;
  ThreadPool pool_;
  const RowKernels& row_kernels_;
  const MatMulKernels matmul_kernels_;
  ProductRunner products_;
  PackedColumns input_;  // of the product that runs
  ActivationBuffer moe_input_, moe_hidden_, moe_shared_hidden_;
};

}  // namespace kvasir::backend::cpu
