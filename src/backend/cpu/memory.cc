#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace kvasir::backend::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

// What is mapped for `bytes`: whole huge pages where there is at least one, otherwise whole pages.
size_t MappedBytes(size_t bytes) {
  return RoundUp(bytes, bytes >= kHugePage ? kHugePage : size_t{4096});
}

}  // namespace

Result<std::byte*> MapMemory(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const size_t mapped = MappedBytes(bytes);
  if (mapped < bytes || mapped + kHugePage < mapped) {
    return MakeError(ErrorCode::kResourceExhausted, "{} bytes are more than an address space has", bytes);
  }
  // mmap aligns to 4 KiB only: map one huge page more, and give back what is before and after the aligned part.
  const size_t asked = huge ? mapped + kHugePage : mapped;
  void* base = mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return MakeError(ErrorCode::kResourceExhausted, "the system has no {:.1f} MiB of memory: {}",
                     static_cast<double>(bytes) / (1 << 20), std::strerror(errno));
  }
  auto* address = static_cast<std::byte*>(base);
  if (!huge) return address;
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(address), kHugePage) - reinterpret_cast<uintptr_t>(address);
  if (before > 0) munmap(address, before);
  if (kHugePage - before > 0) munmap(address + before + mapped, kHugePage - before);
  address += before;
  madvise(address, mapped, MADV_HUGEPAGE);  // a hint: without it everything works, a little slower
  return address;
}

void UnmapMemory(std::byte* address, size_t bytes) {
  munmap(address, MappedBytes(bytes));
}

Result<Mapping> Mapping::Create(size_t bytes) {
  Mapping mapping;
  KVASIR_ASSIGN_OR_RETURN(mapping.address_, MapMemory(bytes));
  mapping.bytes_ = bytes;
  return mapping;
}

}  // namespace kvasir::backend::cpu
