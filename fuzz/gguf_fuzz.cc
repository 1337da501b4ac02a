// Any bytes as a GGUF file: parsed, every key read in every way, every tensor touched. Nothing may crash, and opening
// may not allocate more than gguf_file.h promises.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>

#include "base/check.h"
#include "gguf/gguf_file.h"
#include "gguf/read_entry.h"

namespace {

std::atomic<size_t> allocated_bytes{0};  // in sum; what is freed stays counted

constexpr size_t kAllowance = 64 * 1024;

// Calls `read` and ends the process when it allocates more than `limit`.
template <typename Read>
auto Metered(size_t limit, const char* what, Read read) {
  allocated_bytes = 0;
  auto result = read();
  const size_t bytes = allocated_bytes;
  KVASIR_CHECK(bytes <= limit, "{} allocated {} bytes; {} is the limit", what, bytes, limit);
  return result;
}

}  // namespace

// All forms but the aligned ones: a sanitizer's own do not come through the plain one.
void* operator new(size_t size) {
  allocated_bytes += size;
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new[](size_t size) {
  return operator new(size);
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kvasir::gguf::GgufFile;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  // The messages and the object itself are small; they share the allowance with the listing.
  const auto file = Metered(2 * size + kAllowance + 4096, "opening", [&] { return GgufFile::Parse(bytes, "input"); });
  if (!file.ok()) {
    KVASIR_CHECK(!file.error().message().empty() && file.error().message().size() < 1024);
    return 0;
  }
  for (const auto& entry : file->metadata()) {
    // A byte of an array becomes 8 of a vector at most; as text, which grows by doubling, it takes no more.
    Metered(16 * size + kAllowance, "a key", [&] {
      kvasir::gguf::ReadEntry(*file, entry);
      return 0;
    });
  }
  KVASIR_CHECK(kvasir::gguf::TouchTensors(*file) >= file->tensors().size());
  return 0;
}
