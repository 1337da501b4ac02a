#include "backend/sim/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>

#include "base/check.h"

namespace kvasir::backend::sim {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kPoison = 0xFF;

size_t RoundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

double MiB(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::Create(size_t bytes) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(bytes));
  const size_t mapped = RoundUp(std::max<size_t>(bytes, 1), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  const int file = memfd_create("kvasir-sim-device", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(mapped)) != 0) {
    const int error = errno;
    if (file >= 0) close(file);
    return MakeError(ErrorCode::kResourceExhausted, "no {:.1f} MiB for a simulated device: {}", MiB(bytes),
                     std::strerror(error));
  }
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, file, 0);
  void* alias = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  memory->mapped_bytes_ = mapped;
  if (base != MAP_FAILED) memory->base_ = static_cast<std::byte*>(base);
  if (alias != MAP_FAILED) memory->alias_ = static_cast<std::byte*>(alias);
  if (base == MAP_FAILED || alias == MAP_FAILED) {
    return MakeError(ErrorCode::kResourceExhausted, "no {:.1f} MiB for a simulated device: {}", MiB(bytes),
                     std::strerror(error));
  }
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
  if (alias_ != nullptr) munmap(alias_, mapped_bytes_);
}

Result<std::byte*> DeviceMemory::Allocate(size_t bytes) {
  if (bytes > bytes_) return Exhausted(bytes);
  const size_t rounded = RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  if (used_bytes() + rounded > bytes_) return Exhausted(bytes);
  size_t begin = 0;
  for (const auto& [offset, size] : allocations_) {
    if (offset - begin >= rounded) break;
    begin = offset + size;
  }
  if (begin + rounded > bytes_) return Exhausted(bytes);
  allocations_.emplace(begin, rounded);
  allocated_bytes_ += rounded;
  std::memset(alias_ + begin, 0, rounded);
  return base_ + begin;
}

void DeviceMemory::Free(std::byte* address) {
  const auto found = allocations_.find(static_cast<size_t>(address - base_));
  KVASIR_CHECK(found != allocations_.end(), "freed device memory that was not allocated");
  std::memset(alias_ + found->first, kPoison, found->second);
  allocated_bytes_ -= found->second;
  allocations_.erase(found);
}

Status DeviceMemory::Charge(size_t bytes) {
  if (bytes > bytes_ || used_bytes() + bytes > bytes_) return Exhausted(bytes);
  charged_bytes_ += bytes;
  return {};
}

void DeviceMemory::Refund(size_t bytes) {
  KVASIR_CHECK(bytes <= charged_bytes_);
  charged_bytes_ -= bytes;
}

bool DeviceMemory::Contains(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return std::less_equal<>()(base_, at) && std::less<>()(at, base_ + mapped_bytes_);
}

size_t DeviceMemory::OffsetOf(const void* address) const {
  KVASIR_CHECK(Contains(address), "address {} is not device memory", address);
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - base_);
  const auto next = allocations_.upper_bound(offset);
  KVASIR_CHECK(next != allocations_.begin() && offset < std::prev(next)->first + std::prev(next)->second,
               "device address {} is not in a live buffer", address);
  return offset;
}

Error DeviceMemory::Exhausted(size_t bytes) const {
  return MakeError(
      ErrorCode::kResourceExhausted,
      "{:.2f} MiB of device memory asked for, but of {:.2f} MiB weights take {:.2f} and {} buffers {:.2f}, which "
      "leaves {:.2f}, not all of it in one piece",
      MiB(bytes), MiB(bytes_), MiB(charged_bytes_), allocations_.size(), MiB(allocated_bytes_),
      MiB(bytes_ - used_bytes()));
}

}  // namespace kvasir::backend::sim
