#include "backend/cpu/products.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

int64_t RoundUp(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// A run of columns cut into tiles: as few as `widest` allows, of equal width up to one, or each but the last as wide as
// it can be.
struct Tiles {
  int begin;
  int columns;
  int count;
  int step = 0;  // 0: equal widths

  Tiles(int column, int column_count, int widest)
      : begin(column), columns(column_count), count((column_count + widest - 1) / widest) {}
  int first(int tile) const {
    if (step != 0) return begin + std::min(step * tile, columns);
    return begin + columns * tile / count;
  }
  int width(int tile) const { return first(tile + 1) - first(tile); }
};

bool UsesAmx(const MatMulKernels& kernels, int columns) {
  return kernels.amx[0][0] != nullptr && columns > kDirectColumns;
}

// Direct tiles are one tile.
Tiles QuantTiles(const MatMulKernels& kernels, int column, int columns) {
  if (!UsesAmx(kernels, columns))
    return {column, columns, columns <= kDirectColumns ? kDirectColumns : kernels.quant_columns};
  Tiles tiles(column, columns, kAmxColumns);
  tiles.step = kAmxColumns;
  return tiles;
}

Tiles FloatTiles(const MatMulKernels& kernels, int column, int columns) {
  return {column, columns, kernels.float_columns};
}

// Blocks of columns, each but the last a multiple of every tile's width.
Tiles ColumnBlocks(int columns) {
  Tiles blocks(0, columns, kColumnBlock);
  blocks.step = static_cast<int>(RoundUp((columns + blocks.count - 1) / blocks.count, kAmxColumns));
  return blocks;
}

// Calls pack(block columns, column, width) for every tile, on the team when there is enough to do.
template <typename TilesOf, typename PackTile>
void PackTiles(int columns, ThreadPool& pool, TilesOf tiles_of, PackTile pack) {
  struct Place {
    int block_columns, column, width;
  };
  std::vector<Place> places;
  const Tiles blocks = ColumnBlocks(columns);
  for (int block = 0; block < blocks.count; ++block) {
    const Tiles tiles = tiles_of(blocks.first(block), blocks.width(block));
    for (int tile = 0; tile < tiles.count; ++tile)
      places.push_back({blocks.width(block), tiles.first(tile), tiles.width(tile)});
  }
  const auto pack_place = [&](int64_t index, int) {
    const Place& place = places[static_cast<size_t>(index)];
    pack(place.block_columns, place.column, place.width);
  };
  if (places.size() < 3) {
    for (size_t i = 0; i < places.size(); ++i) pack_place(static_cast<int64_t>(i), 0);
  } else {
    pool.Run(static_cast<int64_t>(places.size()), std::cref(pack_place));
  }
}

const FloatKernels& KernelsOf(const MatMulKernels& kernels, FloatKind kind) {
  switch (kind) {
    case FloatKind::kF32:
      return kernels.f32;
    case FloatKind::kF16:
      return kernels.f16;
    case FloatKind::kBF16:
      return kernels.bf16;
  }
  return kernels.f32;
}

}  // namespace

void PackedColumns::Reset(const Activations& x, int columns, int64_t cols) {
  x_ = x;
  columns_ = columns;
  cols_ = cols;
  has_quant_ = has_float_ = false;
}

void PackedColumns::NeedQuant(const MatMulKernels& kernels, ThreadPool& pool) {
  if (std::exchange(has_quant_, true)) return;
  KVASIR_CHECK(x_.codes != nullptr && x_.scales != nullptr && x_.sums != nullptr,
               "a quantized product needs the 8-bit form of its input");
  const int64_t blocks = cols_ / kBlock;
  // The last tile may have more slots than columns; whole cache lines, for tiles of whole registers.
  const auto needed = static_cast<size_t>(RoundUp(columns_, kAmxColumns) * blocks * kPackedBytes);
  if (quant_.size() < needed + 64) quant_.resize(needed + 64);
  quant_begin_ = quant_.data() + (64 - reinterpret_cast<uintptr_t>(quant_.data()) % 64);
  PackTiles(
      columns_, pool, [&](int column, int columns) { return QuantTiles(kernels, column, columns); },
      [&](int block_columns, int column, int width) {
        const int slots = UsesAmx(kernels, block_columns) ? kAmxColumns : width;
        kernels.pack(x_.codes + column * cols_, x_.scales + column * blocks, x_.sums + column * blocks,
                     static_cast<int>(cols_), width, slots, quant_begin_ + column * blocks * kPackedBytes);
      });
}

void PackedColumns::NeedFloat(const MatMulKernels& kernels, ThreadPool& pool) {
  if (std::exchange(has_float_, true)) return;
  KVASIR_CHECK(x_.f32 != nullptr);
  float_.resize(std::max(float_.size(), static_cast<size_t>(columns_ * cols_)));
  PackTiles(
      columns_, pool, [&](int column, int columns) { return FloatTiles(kernels, column, columns); },
      [&](int /*block_columns*/, int column, int width) {
        float* to = float_.data() + column * cols_;
        for (int c = 0; c < width; ++c) {
          const float* from = x_.f32 + (column + c) * cols_;
          for (int64_t k = 0; k < cols_; ++k) to[k * width + c] = from[k];
        }
      });
}

ProductRunner::ProductRunner(const MatMulKernels& kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      scratch_(static_cast<size_t>(pool.threads())),
      shares_(static_cast<size_t>(pool.threads())) {}

void ProductRunner::Run(std::span<const ProductJob> jobs, const std::function<void(const ChunkSums&)>& finish) {
  int64_t total_rows = 0;
  for (const ProductJob& job : jobs) {
    KVASIR_CHECK(job.weight->cols() == job.x->cols(), "a product of {} columns with {} inputs", job.weight->cols(),
                 job.x->cols());
    for (const CpuMatrix* weight : {job.weight, job.second}) {
      if (weight == nullptr) continue;
      total_rows += weight->rows();
      if (weight->quant() != nullptr) {
        job.x->NeedQuant(kernels_, pool_);
      } else {
        job.x->NeedFloat(kernels_, pool_);
      }
    }
  }
  // Small enough that the team stays even to the end, large enough that a chunk is some microseconds.
  const int64_t chunk_rows = std::clamp<int64_t>(total_rows / (pool_.threads() * 16) / 32 * 32, 32, kChunkRows);
  chunks_.clear();
  for (size_t job = 0; job < jobs.size(); ++job) {
    const Tiles blocks = ColumnBlocks(jobs[job].x->columns());
    const int64_t rows = jobs[job].weight->rows();
    for (int block = 0; block < blocks.count; ++block) {
      for (int64_t row = 0; row < rows; row += chunk_rows) {
        chunks_.push_back({static_cast<int>(job), row, static_cast<int>(std::min(chunk_rows, rows - row)),
                           blocks.first(block), blocks.width(block)});
      }
    }
  }
  const auto run_chunk = [&](int64_t index, int worker) {
    const Chunk& chunk = chunks_[static_cast<size_t>(index)];
    const ProductJob& job = jobs[static_cast<size_t>(chunk.job)];
    Scratch& scratch = scratch_[static_cast<size_t>(worker)];
    const auto sums_of = [&](const CpuMatrix& weight, std::vector<float>& sums) {
      const size_t size = static_cast<size_t>(chunk.columns) * kChunkRows;
      if (sums.size() < size) sums.resize(size);
      std::fill_n(sums.data(), size, 0.0f);
      if (weight.quant() != nullptr) {
        Accumulate(weight, *job.x, chunk, scratch, sums.data());
      } else {
        AccumulateFloat(weight, *job.x, chunk, sums.data());
      }
      return sums.data();
    };
    ChunkSums out = {chunk.job, chunk.row, chunk.rows, chunk.column, chunk.columns, nullptr, nullptr};
    out.first = sums_of(*job.weight, scratch.first);
    if (job.second != nullptr) out.second = sums_of(*job.second, scratch.second);
    finish(out);
  };
  // A contiguous share for each worker, so that each reads one stream of weights; who is done early helps the others.
  const auto count = static_cast<int64_t>(chunks_.size());
  const auto shares = static_cast<int64_t>(shares_.size());
  for (int64_t i = 0; i < shares; ++i) {
    shares_[static_cast<size_t>(i)].next.store(count * i / shares, std::memory_order_relaxed);
    shares_[static_cast<size_t>(i)].end = count * (i + 1) / shares;
  }
  const auto work = [&](int64_t first, int worker) {
    for (int64_t i = 0; i < shares; ++i) {
      Share& share = shares_[static_cast<size_t>((first + i) % shares)];
      for (;;) {
        const int64_t index = share.next.fetch_add(1, std::memory_order_relaxed);
        if (index >= share.end) break;
        run_chunk(index, worker);
      }
    }
  };
  pool_.Run(shares, std::cref(work));
}

void ProductRunner::Accumulate(const CpuMatrix& weight, const PackedColumns& x, const Chunk& chunk, Scratch& scratch,
                               float* sums) const {
  const QuantKernels& kernels = *weight.quant();
  const PanelSpec& spec = kernels.spec;
  const int lanes = kernels_.lanes;
  const int64_t first_panel = chunk.row / lanes;
  const int panels = static_cast<int>(RoundUp(chunk.rows, lanes)) / lanes;
  const int64_t blocks = weight.cols() / kBlock;
  const Tiles tiles = QuantTiles(kernels_, chunk.column, chunk.columns);

  if (chunk.columns <= kDirectColumns) {
    const int columns = chunk.columns;
    for (int panel = 0; panel < panels; ++panel) {
      for (int64_t block = 0; block < blocks; block += kSegmentBlocks) {
        kernels.direct[columns - 1](weight.panel(first_panel + panel) + spec.bytes(lanes, block),
                                    static_cast<int>(std::min<int64_t>(kSegmentBlocks, blocks - block)),
                                    x.quant_tile(chunk.column) + block * columns * kPackedBytes, sums + panel * lanes,
                                    kChunkRows);
      }
    }
    return;
  }

  const bool amx = UsesAmx(kernels_, chunk.columns);
  const ExpandSegment expand = amx ? kernels.expand_signed : kernels.expand;
  const ExpandedTile run_tile = amx ? kernels_.amx[spec.subs() - 1][spec.has_min() ? 1 : 0] : kernels.expanded;
  const int64_t panel_bytes = Expanded(spec).bytes(lanes, kSegmentBlocks);
  scratch.expanded.resize(std::max(scratch.expanded.size(), static_cast<size_t>(panels * panel_bytes) + 64));
  std::byte* segment = scratch.expanded.data() + (64 - reinterpret_cast<uintptr_t>(scratch.expanded.data()) % 64);
  for (int64_t block = 0; block < blocks; block += kSegmentBlocks) {
    const int count = static_cast<int>(std::min<int64_t>(kSegmentBlocks, blocks - block));
    for (int panel = 0; panel < panels; ++panel) {
      expand(weight.panel(first_panel + panel) + spec.bytes(lanes, block), count, segment + panel * panel_bytes);
    }
    for (int tile = 0; tile < tiles.count; ++tile) {
      const int column = tiles.first(tile), width = tiles.width(tile);
      const std::byte* packed = x.quant_tile(column) + block * (amx ? kAmxColumns : width) * kPackedBytes;
      run_tile(segment, panel_bytes, panels, count, packed, width, sums + int64_t{column - chunk.column} * kChunkRows,
               kChunkRows);
    }
  }
}

void ProductRunner::AccumulateFloat(const CpuMatrix& weight, const PackedColumns& x, const Chunk& chunk,
                                    float* sums) const {
  const FloatKernels& kernels = KernelsOf(kernels_, weight.float_kind());
  const int64_t value_bytes = weight.float_kind() == FloatKind::kF32 ? 4 : 2;
  const int64_t first_panel = chunk.row / kFloatRows;
  const int panels = static_cast<int>(RoundUp(chunk.rows, kFloatRows)) / kFloatRows;
  const Tiles tiles = FloatTiles(kernels_, chunk.column, chunk.columns);
  for (int panel = 0; panel < panels; ++panel) {
    for (int64_t k = 0; k < weight.cols(); k += kSegment) {
      const int count = static_cast<int>(std::min<int64_t>(kSegment, weight.cols() - k));
      const std::byte* from = weight.panel(first_panel + panel) + k * kFloatRows * value_bytes;
      for (int tile = 0; tile < tiles.count; ++tile) {
        const int column = tiles.first(tile), width = tiles.width(tile);
        kernels.tile[width - 1](from, count, x.float_tile(column) + k * width,
                                sums + int64_t{column - chunk.column} * kChunkRows + panel * kFloatRows, kChunkRows);
      }
    }
  }
}

}  // namespace kvasir::backend::cpu
