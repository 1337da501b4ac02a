// backend/sim/device_memory.h
// A bounded region that plays the part of device memory: its addresses can be handed out but not dereferenced.
//
// The region is one anonymous file mapped twice: once without access rights (the addresses that callers see: a CPU read
// or write of one faults) and once readable and writable (the alias, for the operations of the simulated device).
// Allocation is first fit over the region, so fragmentation is real. Fresh memory is zero, freed memory is filled with
// 0xFF bytes, NaN in every float type.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "base/result.h"

namespace kvasir::backend::sim {

class DeviceMemory {
 public:
  // kResourceExhausted when the host cannot back it.
  static Result<std::unique_ptr<DeviceMemory>> Create(size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // 64-byte aligned, zeroed. kResourceExhausted, with the arithmetic, when no hole is large enough.
  Result<std::byte*> Allocate(size_t bytes);
  // REQUIRES: `address` came from Allocate.
  void Free(std::byte* address);

  // Bytes that are not in buffers (weights, which the CPU backend holds) but count against the bound.
  // kResourceExhausted.
  Status Charge(size_t bytes);
  void Refund(size_t bytes);

  bool Contains(const void* address) const;
  // Where the bytes of a device address really are. Null stays null. REQUIRES: inside a live allocation.
  template <typename T>
  T* Alias(T* address) const {
    return address == nullptr ? nullptr : reinterpret_cast<T*>(alias_ + OffsetOf(address));
  }

  size_t bytes() const { return bytes_; }
  size_t used_bytes() const { return allocated_bytes_ + charged_bytes_; }

 private:
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) {}
  size_t OffsetOf(const void* address) const;
  Error Exhausted(size_t bytes) const;

  size_t bytes_;                          // the bound
  size_t mapped_bytes_ = 0;               // in whole pages of the system
  std::byte* base_ = nullptr;             // no access
  std::byte* alias_ = nullptr;            // the same bytes
  std::map<size_t, size_t> allocations_;  // offset -> bytes
  size_t allocated_bytes_ = 0;
  size_t charged_bytes_ = 0;
};

}  // namespace kvasir::backend::sim
