// backend/sim/sim_backend.h
// A device with a memory of its own that needs no hardware: the CPU's kernels over memory that CPU code cannot touch.
//
// It exists so that everything between device and host (tiers, streaming, split lanes, eviction under pressure) is
// tested where there is no GPU, and tested harder than a GPU would: a wrong dereference faults, memory runs out at an
// exact byte, and the bytes of a copy arrive as late as they may. Arithmetic is that of the CPU backend, bit for bit.
//
// Copies run on a virtual clock. Copy poisons its destination (0xFF bytes, NaN) and returns; the bytes are there after
// Wait, not before. A source that changes in flight, or memory freed in flight, ends the process. A queue per direction
// is first in, first out: waiting for an event finishes the earlier copies of its queue too.
//
// What it does not do: run anything concurrently, or model the time of operations.
//
// Thread rule: one thread calls.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/sim/device_memory.h"

namespace kvasir::backend::sim {

struct LinkStatistics {
  int64_t copies = 0;  // calls of Copy
  int64_t bytes = 0;
  double busy_seconds = 0;  // of the virtual clock
};

class SimBackend : public Backend {
 public:
  // `cpu` does the arithmetic.
  SimBackend(std::unique_ptr<Backend> cpu, std::unique_ptr<DeviceMemory> memory, double link_bytes_per_second);
  ~SimBackend() override;

  const BackendProfile& profile() const override { return profile_; }
  Result<Buffer> Allocate(MemoryKind kind, size_t bytes) override;
  Result<std::unique_ptr<Matrix>> LoadMatrix(const MatrixSource& source) override;
  bool Quantizes(int64_t cols) const override { return cpu_->Quantizes(cols); }

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

  // For tests and cost models.
  const LinkStatistics& statistics(CopyDirection direction) const;
  size_t used_bytes() const { return memory_->used_bytes(); }
  double now_seconds() const { return now_; }
  void AdvanceClock(double seconds) { now_ += seconds; }
  // Reads and writes device memory, as a debugger would.
  void Peek(const void* device, void* to, size_t bytes) const;
  void Poke(void* device, const void* from, size_t bytes);

 protected:
  void Free(MemoryKind kind, std::byte* address, size_t bytes) override;

 private:
  struct Flight {
    Event event;
    double done;                  // on the virtual clock
    std::vector<CopyItem> items;  // real addresses
    uint64_t source_checksum;
  };
  struct Queue {
    std::deque<Flight> flights;
    double free_at = 0;  // when the last copy is done
    LinkStatistics statistics;
  };

  void Land(Queue& queue);
  void CheckNotInFlight(const std::byte* begin, size_t bytes) const;
  Activations Alias(const Activations& x) const;
  const Matrix* Inner(const Matrix* matrix) const;

  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Backend> cpu_;
  BackendProfile profile_;
  double link_bytes_per_second_;
  double now_ = 0;
  Event last_event_ = 0;
  std::array<Queue, 3> queues_;  // by direction
};

}  // namespace kvasir::backend::sim
