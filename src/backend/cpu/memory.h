// backend/cpu/memory.h
// Zeroed memory straight from the kernel, in huge pages where that helps.
//
// A weight or KV buffer is read once per token and far larger than the TLB reaches: 2 MiB pages are worth 3-7 % of read
// bandwidth. What it does not do: small allocations, reuse.
//
// Thread rule: plain values.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace kvasir::backend::cpu {

// At least 64-byte aligned; 2 MiB aligned from 2 MiB on. kResourceExhausted when the kernel has no room. REQUIRES:
// bytes > 0.
Result<std::byte*> MapMemory(size_t bytes);
void UnmapMemory(std::byte* address, size_t bytes);

// Owned mapped memory. Move-only.
class Mapping {
 public:
  static Result<Mapping> Create(size_t bytes);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (address_ != nullptr) UnmapMemory(address_, bytes_);
  }

  std::byte* address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* address_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace kvasir::backend::cpu
