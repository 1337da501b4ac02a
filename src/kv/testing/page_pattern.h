// kv/testing/page_pattern.h
// For tests: fills pages like a forward pass would, with bytes that tell where they belong, and reads them back.
//
// The bytes of a row are a hash of the tokens up to it, the layer and the unit, none of them zero. So a row that was
// lost, moved, overwritten or never cleared shows. Pages are reached as the engine reaches them: host pages by address
// after Synchronize, device pages by copies only, so it works on every backend.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "kv/kv_cache.h"
#include "kv/testing/fake_backend.h"

namespace kvasir::kv {

class PagePattern {
 public:
  PagePattern(backend::Backend& backend, const KvCache& cache)
      : backend_(backend),
        cache_(cache),
        staging_(backend.Allocate(backend::MemoryKind::kHost, cache.shape().block_bytes()).value()) {
    size_t offset = 0;
    for (size_t layer = 0; layer < cache.shape().layers.size(); ++layer) {
      const LayerShape& shape = cache.shape().layers[layer];
      for (int row = 0; row < backend::kBlockTokens; ++row) row_offsets_.push_back(RowOffsets(shape.format, row));
      for (int unit = 0; unit < shape.units; ++unit) {
        pages_.push_back({static_cast<int>(layer), unit, offset, shape.format.page_bytes()});
        offset += shape.format.page_bytes();
      }
    }
  }

  // hashes[i] stands for tokens[0..i].
  static std::vector<uint64_t> Histories(std::span<const Token> tokens) {
    std::vector<uint64_t> hashes;
    uint64_t hash = 1;
    for (const Token token : tokens) hashes.push_back(hash = Mix(hash ^ static_cast<uint32_t>(token)));
    return hashes;
  }

  // Writes the rows [begin, end) of a sequence whose tokens, committed and reserved, are `tokens`.
  void Write(SequenceId sequence, std::span<const Token> tokens, size_t begin, size_t end) {
    const std::vector<uint64_t> hashes = Histories(tokens);
    for (size_t at = begin; at < end;) {
      const size_t block = at / backend::kBlockTokens;
      const size_t stop = std::min(end, (block + 1) * backend::kBlockTokens);
      const BlockId id = cache_.blocks(sequence)[block];
      Load(id);
      for (; at < stop; ++at) Paint(staging_.address(), at % backend::kBlockTokens, hashes[at]);
      Store(id);
    }
  }

  // All pages of a block, in order of layer and unit.
  std::span<const std::byte> Read(BlockId block) {
    Load(block);
    return {staging_.address(), staging_.bytes()};
  }

  // What Read gives when the rows are those of `hashes` and the others are zero.
  std::vector<std::byte> Image(std::span<const uint64_t> hashes) const {
    std::vector<std::byte> image(staging_.bytes());
    for (size_t row = 0; row < hashes.size(); ++row) Paint(image.data(), row, hashes[row]);
    return image;
  }

  // Whether row `row` of both images is the same.
  bool SameRow(std::span<const std::byte> a, std::span<const std::byte> b, size_t row) const {
    for (const PagePlace& page : pages_) {
      for (const size_t offset : OffsetsOf(page, row)) {
        if (a[page.offset + offset] != b[page.offset + offset]) return false;
      }
    }
    return true;
  }

  // Whether every row of the sequence holds its own bytes, and the rows that hold nothing are zero.
  bool Holds(SequenceId sequence, std::span<const Token> tokens) {
    const std::vector<uint64_t> hashes = Histories(tokens);
    for (size_t begin = 0; begin < tokens.size(); begin += backend::kBlockTokens) {
      const BlockId block = cache_.blocks(sequence)[begin / backend::kBlockTokens];
      const size_t rows = std::min<size_t>(backend::kBlockTokens, tokens.size() - begin);
      if (!HoldsRows(Read(block), Image(std::span(hashes).subspan(begin, rows)), rows,
                     static_cast<size_t>(cache_.rows(block)))) {
        return false;
      }
    }
    return true;
  }

  // `image` beyond `seen` rows is zero; rows between `seen` and `held` belong to others and may be anything.
  bool HoldsRows(std::span<const std::byte> bytes, std::span<const std::byte> image, size_t seen, size_t held) const {
    if (seen == held) return std::memcmp(bytes.data(), image.data(), bytes.size()) == 0;
    for (size_t row = 0; row < backend::kBlockTokens; ++row) {
      if ((row < seen || row >= held) && !SameRow(bytes, image, row)) return false;
    }
    return true;
  }

 private:
  struct PagePlace {
    int layer = 0;
    int unit = 0;
    size_t offset = 0;  // in the staging buffer
    size_t bytes = 0;
  };

  static uint64_t Mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  const std::vector<size_t>& OffsetsOf(const PagePlace& page, size_t row) const {
    return row_offsets_[static_cast<size_t>(page.layer) * backend::kBlockTokens + row];
  }

  void Paint(std::byte* image, size_t row, uint64_t history) const {
    for (const PagePlace& page : pages_) {
      uint64_t bits = Mix(history ^ static_cast<uint64_t>(page.layer * 1000 + page.unit));
      for (const size_t offset : OffsetsOf(page, row)) {
        image[page.offset + offset] = static_cast<std::byte>((bits >> 56) | 1);
        bits = bits * 6364136223846793005u + 1442695040888963407u;
      }
    }
  }

  void Load(BlockId block) {
    std::vector<backend::CopyItem> items;
    backend_.Synchronize();
    for (const PagePlace& page : pages_) {
      const std::byte* from = cache_.Page(block, page.layer, page.unit);
      if (cache_.home(page.layer, page.unit) == Tier::kHost) {
        std::memcpy(staging_.address() + page.offset, from, page.bytes);
      } else {
        items.push_back({.to = staging_.address() + page.offset, .from = from, .bytes = page.bytes});
      }
    }
    if (!items.empty()) backend_.Wait(backend_.Copy(backend::CopyDirection::kDeviceToHost, items));
    backend_.Synchronize();
  }

  void Store(BlockId block) {
    std::vector<backend::CopyItem> items;
    for (const PagePlace& page : pages_) {
      std::byte* to = cache_.Page(block, page.layer, page.unit);
      if (cache_.home(page.layer, page.unit) == Tier::kHost) {
        std::memcpy(to, staging_.address() + page.offset, page.bytes);
      } else {
        items.push_back({.to = to, .from = staging_.address() + page.offset, .bytes = page.bytes});
      }
    }
    if (!items.empty()) backend_.Wait(backend_.Copy(backend::CopyDirection::kHostToDevice, items));
    backend_.Synchronize();
  }

  backend::Backend& backend_;
  const KvCache& cache_;
  backend::Buffer staging_;
  std::vector<PagePlace> pages_;
  std::vector<std::vector<size_t>> row_offsets_;  // [layers, 32]
};

}  // namespace kvasir::kv
