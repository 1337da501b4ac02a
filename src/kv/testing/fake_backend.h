// kv/testing/fake_backend.h
// For tests: a backend that is nothing but memory, and as unhelpful as the contract of backend/backend.h allows.
//
// A copy moves its bytes as late as it may: at Wait or Synchronize. So code that forgets to wait reads or clears the
// wrong bytes and fails its test. Every address is checked against the allocation it should lie in. Operations on
// activations abort.
//
// Thread rule: one thread.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"

namespace kvasir::kv {

// The bytes of one row in a page, value by value after the formulas of backend/page_format.h: K codes, K scales, V
// codes, V scales.
inline std::vector<size_t> RowOffsets(const backend::PageFormat& format, int row) {
  const auto code_bytes = [](backend::KvType type) -> size_t {
    return type == backend::KvType::kF32 ? 4 : type == backend::KvType::kF16 ? 2 : 1;
  };
  const auto p = static_cast<size_t>(row);
  const auto dk = static_cast<size_t>(format.dk);
  const auto dv = static_cast<size_t>(format.dv);
  std::vector<size_t> offsets;
  const auto add = [&](size_t offset, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) offsets.push_back(offset + i);
  };
  const size_t k_bytes = code_bytes(format.k);
  const size_t k_group = 4 / k_bytes;
  for (size_t c = 0; c < dk; ++c) {
    add(format.k_codes() + (((p / 8 * (dk / k_group) + c / k_group) * 8 + p % 8) * k_group + c % k_group) * k_bytes,
        k_bytes);
  }
  if (format.k == backend::KvType::kQ8_0) {
    for (size_t c = 0; c < dk / 32; ++c) add(format.k_scales() + (c * 32 + p) * 2, 2);
  }
  const size_t v_bytes = code_bytes(format.v);
  const size_t v_group = 4 / v_bytes;
  for (size_t c = 0; c < dv; ++c) {
    add(format.v_codes() + ((p / v_group * dv + c) * v_group + p % v_group) * v_bytes, v_bytes);
  }
  if (format.v == backend::KvType::kQ8_0) {
    for (size_t c = 0; c < dv / 32; ++c) add(format.v_scales() + (c * 32 + p) * 2, 2);
  }
  return offsets;
}

class FakeBackend final : public backend::Backend {
 public:
  // `memory_bytes` bounds each kind of memory; 0: no bound.
  explicit FakeBackend(size_t memory_bytes = 0) : memory_bytes_(memory_bytes) { profile_.kind = "fake"; }
  ~FakeBackend() override { KVASIR_CHECK(allocations_.empty(), "{} buffers are alive", allocations_.size()); }

  size_t allocated_bytes(backend::MemoryKind kind) const { return allocated_[static_cast<size_t>(kind)]; }
  int clears() const { return clears_; }  // ClearPageRows so far

  const backend::BackendProfile& profile() const override { return profile_; }

  Result<backend::Buffer> Allocate(backend::MemoryKind kind, size_t bytes) override {
    size_t& allocated = allocated_[static_cast<size_t>(kind)];
    if (memory_bytes_ != 0 && allocated + bytes > memory_bytes_) {
      return MakeError(ErrorCode::kResourceExhausted, "{} bytes asked, {} of {} in use", bytes, allocated,
                       memory_bytes_);
    }
    const size_t rounded = (bytes + 63) / 64 * 64;
    auto* address = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    std::memset(address, 0, rounded);
    allocated += bytes;
    allocations_[address] = {kind, bytes};
    return backend::Buffer(this, kind, address, bytes);
  }

  void ClearPageRows(std::byte* page, const backend::PageFormat& format, int from_row) override {
    CheckInside(page, format.page_bytes(), backend::MemoryKind::kDevice);
    ++clears_;
    for (int row = from_row; row < backend::kBlockTokens; ++row) {
      for (const size_t offset : RowOffsets(format, row)) page[offset] = std::byte{0};
    }
  }

  backend::Event Copy(backend::CopyDirection direction, std::span<const backend::CopyItem> items) override {
    using backend::CopyDirection;
    using backend::MemoryKind;
    const auto from = direction == CopyDirection::kHostToDevice ? MemoryKind::kHost : MemoryKind::kDevice;
    const auto to = direction == CopyDirection::kDeviceToHost ? MemoryKind::kHost : MemoryKind::kDevice;
    for (const backend::CopyItem& item : items) {
      CheckInside(item.from, item.bytes, from);
      CheckInside(item.to, item.bytes, to);
    }
    pending_[++last_event_].assign(items.begin(), items.end());
    return last_event_;
  }
  void Wait(backend::Event event) override {
    while (!pending_.empty() && pending_.begin()->first <= event) {
      for (const backend::CopyItem& item : pending_.begin()->second) std::memcpy(item.to, item.from, item.bytes);
      pending_.erase(pending_.begin());
    }
  }
  void Synchronize() override { Wait(last_event_); }

  Result<std::unique_ptr<backend::Matrix>> LoadMatrix(const backend::MatrixSource&) override {
    return Error(ErrorCode::kUnsupported, "no arithmetic here");
  }
  bool Quantizes(int64_t) const override { return false; }
  void Embed(const backend::EmbedArgs&) override { Refuse(); }
  void Norm(const backend::NormArgs&) override { Refuse(); }
  void NormAdd(const backend::NormAddArgs&) override { Refuse(); }
  void MatMul(const backend::MatMulArgs&) override { Refuse(); }
  void Glu(const backend::GluArgs&) override { Refuse(); }
  void MoeFfn(const backend::MoeArgs&) override { Refuse(); }
  void RopeAppend(const backend::RopeAppendArgs&) override { Refuse(); }
  void Attend(const backend::AttendArgs&) override { Refuse(); }
  void Merge(const backend::MergeArgs&) override { Refuse(); }

 protected:
  void Free(backend::MemoryKind kind, std::byte* address, size_t bytes) override {
    KVASIR_CHECK(pending_.empty(), "memory goes while a copy is in flight");
    const auto found = allocations_.find(address);
    KVASIR_CHECK(found != allocations_.end() && found->second.kind == kind && found->second.bytes == bytes);
    allocations_.erase(found);
    allocated_[static_cast<size_t>(kind)] -= bytes;
    std::free(address);
  }

 private:
  struct Allocation {
    backend::MemoryKind kind = backend::MemoryKind::kDevice;
    size_t bytes = 0;
  };

  static void Refuse() { KVASIR_CHECK(false, "the fake backend has no arithmetic"); }

  void CheckInside(const std::byte* address, size_t bytes, backend::MemoryKind kind) const {
    auto found = allocations_.upper_bound(address);
    KVASIR_CHECK(found != allocations_.begin(), "an address below all memory");
    --found;
    KVASIR_CHECK(address + bytes <= found->first + found->second.bytes, "an address outside all memory");
    KVASIR_CHECK(found->second.kind == kind, "an address of the wrong memory");
  }

  backend::BackendProfile profile_;
  size_t memory_bytes_;
  size_t allocated_[2] = {};
  int clears_ = 0;
  std::map<const std::byte*, Allocation> allocations_;
  std::map<backend::Event, std::vector<backend::CopyItem>> pending_;
  backend::Event last_event_ = 0;
};

}  // namespace kvasir::kv
