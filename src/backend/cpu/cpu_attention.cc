// The operations of CpuBackend that read and write KV pages.
#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/attend/attend.h"
#include "backend/cpu/kernels/merge/merge.h"
#include "backend/cpu/kernels/page/page.h"
#include "backend/cpu/kernels/rope/rope.h"
#include "backend/page_rows.h"
#include "base/check.h"

namespace kvasir::backend::cpu {
namespace {

constexpr int kRowsPerChunk = 8;  // of RopeAppend and Merge: some microseconds of work

int64_t Chunks(int rows) {
  return (rows + kRowsPerChunk - 1) / kRowsPerChunk;
}

void CheckFormat(const PageFormat& format) {
  const auto unsupported = format.Unsupported();
  KVASIR_CHECK(!unsupported.has_value(), "{}", *unsupported);
}

}  // namespace

void CpuBackend::RopeAppend(const RopeAppendArgs& args) {
  CheckFormat(args.format);
  const size_t places = static_cast<size_t>(args.rows) * static_cast<size_t>(args.kv_heads);
  KVASIR_CHECK(args.pages.size() == places && args.page_rows.size() == static_cast<size_t>(args.rows));
  const PageFormat& format = args.format;
  const RotateFunction rotate = Rotate(level_);
  const EncodeFunction encode_key = EncodeKey(level_, format.k);
  const EncodeFunction encode_value = EncodeValue(level_, format.v);
  const size_t k_scales = format.k_scales(), v_codes = format.v_codes(), v_scales = format.v_scales();

  const auto append_row = [&](int64_t row) {
    Rotation rotation{.dim = format.dk,
                      .norm = args.q_norm,
                      .eps = args.eps,
                      .rope = args.rope,
                      .n_rot = args.n_rot,
                      .cos_sin = args.cos_sin == nullptr ? nullptr : args.cos_sin + row * args.n_rot,
                      .scale = args.q_scale};
    rotate(rotation, args.q + row * args.q_heads * format.dk, args.q_heads);
    rotation.norm = args.k_norm;
    rotation.scale = 1;
    float* k = args.k + row * args.kv_heads * format.dk;
    const float* v = args.v + row * args.kv_heads * format.dv;
    rotate(rotation, k, args.kv_heads);
    const int page_row = args.page_rows[static_cast<size_t>(row)];
    for (int head = 0; head < args.kv_heads; ++head) {
      std::byte* page = args.pages[static_cast<size_t>(row * args.kv_heads + head)];
      encode_key(k + head * format.dk, format.dk, page_row, page, page + k_scales);
      encode_value(v + head * format.dv, format.dv, page_row, page + v_codes, page + v_scales);
    }
  };
  pool_.Run(Chunks(args.rows), [&](int64_t chunk, int) {
    const int64_t end = std::min<int64_t>(args.rows, (chunk + 1) * kRowsPerChunk);
    for (int64_t row = chunk * kRowsPerChunk; row < end; ++row) append_row(row);
  });
}

void CpuBackend::Attend(const AttendArgs& args) {
  CheckFormat(args.format);
  const AttendFunction attend = AttendSpan(level_, args.format.k, args.format.v);
  pool_.Run(static_cast<int64_t>(args.tasks.size()), [&](int64_t chunk, int) {
    const AttendTask& task = args.tasks[static_cast<size_t>(chunk)];
    const int64_t first_head = int64_t{task.row_begin} * args.q_heads + int64_t{task.unit} * args.group;
    SpanTask span{.q = args.q + first_head * args.format.dk,
                  .q_stride = int64_t{args.q_heads} * args.format.dk,
                  .rows = task.rows,
                  .group = args.group,
                  .dk = args.format.dk,
                  .dv = args.format.dv,
                  .first_position = task.first_position,
                  .span_begin = task.span_begin,
                  .keys = task.keys,
                  .window = args.window,
                  .softcap = args.softcap,
                  .k_scales = args.format.k_scales(),
                  .v_codes = args.format.v_codes(),
                  .v_scales = args.format.v_scales(),
                  .partial = task.partial,
                  .partial_stride = PartialStride(args.format.dv)};
    std::copy(std::begin(task.pages), std::end(task.pages), span.pages);
    attend(span);
  });
}

void CpuBackend::Merge(const MergeArgs& args) {
  struct Chunk {
    const MergeTask* task;
    int row_begin, row_end;  // of the task
  };
  std::vector<Chunk> chunks;
  for (const MergeTask& task : args.tasks) {
    for (int row = 0; row < task.rows; row += kRowsPerChunk) {
      chunks.push_back({&task, row, std::min(task.rows, row + kRowsPerChunk)});
    }
  }
  const MergeFunction merge = MergePartials(level_);
  const int record = PartialStride(args.dv);
  pool_.Run(static_cast<int64_t>(chunks.size()), [&](int64_t index, int) {
    const Chunk& chunk = chunks[static_cast<size_t>(index)];
    const MergeTask& task = *chunk.task;
    for (int64_t row = chunk.row_begin; row < chunk.row_end; ++row) {
      for (int head = 0; head < args.group; ++head) {
        const int64_t out = (task.row_begin + row) * args.q_heads + int64_t{task.unit} * args.group + head;
        merge(task.partials + (row * args.group + head) * record, task.stride, task.count, args.dv,
              args.out + out * args.dv);
      }
    }
  });
}

void CpuBackend::ClearPageRows(std::byte* page, const PageFormat& format, int from_row) {
  CheckFormat(format);
  backend::ClearPageRows(page, format, from_row);
}

}  // namespace kvasir::backend::cpu
