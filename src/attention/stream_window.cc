#include "attention/stream_window.h"

#include <algorithm>

namespace kvasir::attention {

using backend::CopyDirection;
using backend::kBlockTokens;
using backend::kSpanBlocks;

Result<std::unique_ptr<StreamWindow>> StreamWindow::Create(backend::Backend& backend, const kv::KvCache& cache,
                                                           int max_rows, int max_sequences, int slots) {
  KVASIR_CHECK(slots >= 2, "one slot is read while the next is filled");
  std::unique_ptr<StreamWindow> window(new StreamWindow(backend, cache, slots));
  size_t largest_page = 0, largest_lane = 0;
  for (const kv::Lane& lane : cache.placement()) {
    if (lane.home != kv::Tier::kHost) continue;
    largest_page = std::max(largest_page, window->PageBytes(lane));
    largest_lane =
        std::max(largest_lane, window->PageBytes(lane) * static_cast<size_t>(lane.unit_end - lane.unit_begin));
  }
  // A slice of n rows touches at most n / 32 + 2 blocks.
  window->max_staged_blocks_ = max_rows / kBlockTokens + 2 * std::min(max_sequences, max_rows);
  window->slot_bytes_ = largest_page * kSpanBlocks;
  KVASIR_ASSIGN_OR_RETURN(window->slot_memory_, backend.Allocate(backend::MemoryKind::kDevice,
                                                                 window->slot_bytes_ * static_cast<size_t>(slots)));
  KVASIR_ASSIGN_OR_RETURN(
      window->staging_,
      backend.Allocate(backend::MemoryKind::kDevice, largest_lane * static_cast<size_t>(window->max_staged_blocks_)));
  return window;
}

size_t StreamWindow::PageBytes(const kv::Lane& lane) const {
  return cache_.shape().layers[static_cast<size_t>(lane.layer)].format.page_bytes();
}

void StreamWindow::BeginStep(std::span<const Slice> slices) {
  slices_.assign(slices.begin(), slices.end());
  staged_begin_.clear();
  int staged = 0;
  for (const Slice& slice : slices_) {
    staged_begin_.push_back(staged);
    staged += EndStagedBlock(slice) - FirstStagedBlock(slice);
  }
  KVASIR_CHECK(staged <= max_staged_blocks_, "a step writes {} blocks, but {} can be staged", staged,
               max_staged_blocks_);
}

std::byte* StreamWindow::StagedPage(const kv::Lane& lane, int slice, int block, int unit) const {
  const auto s = static_cast<size_t>(slice);
  const int staged = staged_begin_[s] + block - FirstStagedBlock(slices_[s]);
  const int units = lane.unit_end - lane.unit_begin;
  return staging_.address() + static_cast<size_t>(staged * units + unit - lane.unit_begin) * PageBytes(lane);
}

void StreamWindow::StageForAppend(const kv::Lane& lane) {
  if (write_back_.has_value()) {
    backend_.Wait(*write_back_);
    write_back_.reset();
  }
  const backend::PageFormat& format = cache_.shape().layers[static_cast<size_t>(lane.layer)].format;
  items_.clear();
  for (size_t s = 0; s < slices_.size(); ++s) {
    const Slice& slice = slices_[s];
    const auto blocks = cache_.blocks(slice.sequence);
    for (int block = FirstStagedBlock(slice); block < EndStagedBlock(slice); ++block) {
      const bool begun = block * kBlockTokens < slice.first_position;
      for (int unit = lane.unit_begin; unit < lane.unit_end; ++unit) {
        std::byte* staged = StagedPage(lane, static_cast<int>(s), block, unit);
        if (begun) {
          items_.push_back(
              {staged, cache_.Page(blocks[static_cast<size_t>(block)], lane.layer, unit), format.page_bytes()});
        } else {
          backend_.ClearPageRows(staged, format, 0);
        }
      }
    }
  }
  if (!items_.empty()) backend_.Wait(backend_.Copy(CopyDirection::kHostToDevice, items_));
}

void StreamWindow::WriteBack(const kv::Lane& lane) {
  items_.clear();
  for (size_t s = 0; s < slices_.size(); ++s) {
    const Slice& slice = slices_[s];
    const auto blocks = cache_.blocks(slice.sequence);
    for (int block = FirstStagedBlock(slice); block < EndStagedBlock(slice); ++block) {
      for (int unit = lane.unit_begin; unit < lane.unit_end; ++unit) {
        items_.push_back({cache_.Page(blocks[static_cast<size_t>(block)], lane.layer, unit),
                          StagedPage(lane, static_cast<int>(s), block, unit), PageBytes(lane)});
      }
    }
  }
  write_back_ = backend_.Copy(CopyDirection::kDeviceToHost, items_);
}

StreamWindow::Transfer StreamWindow::Start(const kv::Lane& lane, int slice, int unit, int span, int keys) {
  const Slice& rows = slices_[static_cast<size_t>(slice)];
  const auto blocks = cache_.blocks(rows.sequence);
  const size_t page_bytes = PageBytes(lane);
  std::byte* const slot = slot_memory_.address() + static_cast<size_t>(next_slot_) * slot_bytes_;
  next_slot_ = (next_slot_ + 1) % slots_;

  Transfer transfer;
  items_.clear();
  const int first_block = span * kSpanBlocks;
  for (int i = 0; i * kBlockTokens < keys; ++i) {
    const int block = first_block + i;
    auto& page = transfer.pages[static_cast<size_t>(i)];
    if (block >= FirstStagedBlock(rows)) {  // written in this step: already on the device
      page = StagedPage(lane, slice, block, unit);
      continue;
    }
    const std::byte* const source = cache_.Page(blocks[static_cast<size_t>(block)], lane.layer, unit);
    page = slot + static_cast<size_t>(i) * page_bytes;
    // What was born together lies together: one copy for a run of neighbours.
    if (!items_.empty() && items_.back().from + items_.back().bytes == source &&
        items_.back().to + items_.back().bytes == page) {
      items_.back().bytes += page_bytes;
    } else {
      items_.push_back({slot + static_cast<size_t>(i) * page_bytes, source, page_bytes});
    }
  }
  if (!items_.empty()) transfer.event = backend_.Copy(CopyDirection::kHostToDevice, items_);
  return transfer;
}

void StreamWindow::Await(const Transfer& transfer) {
  if (transfer.event.has_value()) backend_.Wait(*transfer.event);
}

}  // namespace kvasir::attention
