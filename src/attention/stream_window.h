// attention/stream_window.h
// Device memory through which the pages of host-homed lanes pass: a staging area for the blocks being written, and a
// ring of slots that spans are copied into, one ahead of the span being attended.
//
// Pages stay packed: a slot is read by the same kernel as a resident page (docs/numerics.md, rule 7). New rows are
// encoded into staged pages on the device; the pages then go down to their host cells. What it does not do: decide what
// is streamed.
//
// Thread rule: engine thread only.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attention/wave_plan.h"
#include "backend/backend.h"
#include "base/result.h"
#include "kv/kv_cache.h"

namespace kvasir::attention {

class StreamWindow {
 public:
  static Result<std::unique_ptr<StreamWindow>> Create(backend::Backend& backend, const kv::KvCache& cache, int max_rows,
                                                      int max_sequences, int slots);

  // The blocks that this step writes: numbered per slice, for StagedPage.
  void BeginStep(std::span<const Slice> slices);

  // Brings a lane's staged pages into the state of their host cells: rows of the block that was begun earlier, zero
  // elsewhere.
  void StageForAppend(const kv::Lane& lane);
  // Device address of the page of (slice, block index of the sequence, unit). REQUIRES: the step writes that block.
  std::byte* StagedPage(const kv::Lane& lane, int slice, int block, int unit) const;
  // Sends the lane's staged pages to their host cells.
  void WriteBack(const kv::Lane& lane);

  // A span of one unit on its way to the device.
  struct Transfer {
    std::optional<backend::Event> event;                         // nothing to wait for when every page was staged
    std::array<const std::byte*, backend::kSpanBlocks> pages{};  // device addresses, valid after Await
  };
  // Starts copying; blocks until nothing (a slot that is still being read was enqueued before, so order protects it).
  Transfer Start(const kv::Lane& lane, int slice, int unit, int span, int keys);
  void Await(const Transfer& transfer);

  int slots() const { return slots_; }

 private:
  StreamWindow(backend::Backend& backend, const kv::KvCache& cache, int slots)
      : backend_(backend), cache_(cache), slots_(slots) {}

  int FirstStagedBlock(const Slice& slice) const { return slice.first_position / backend::kBlockTokens; }
  int EndStagedBlock(const Slice& slice) const {
    return (slice.first_position + slice.rows - 1) / backend::kBlockTokens + 1;
  }
  size_t PageBytes(const kv::Lane& lane) const;

  backend::Backend& backend_;
  const kv::KvCache& cache_;
  int slots_;
  int next_slot_ = 0;
  size_t slot_bytes_ = 0;
  backend::Buffer slot_memory_;
  backend::Buffer staging_;
  int max_staged_blocks_ = 0;
  std::vector<Slice> slices_;
  std::vector<int> staged_begin_;             // per slice: number of its first staged block
  std::optional<backend::Event> write_back_;  // of the layer before: staging is busy until it is done
  std::vector<backend::CopyItem> items_;
};

}  // namespace kvasir::attention
