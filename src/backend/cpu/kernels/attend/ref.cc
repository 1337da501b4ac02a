// Decodes each page to f32 and follows the formula. The oracle of the other levels, so it shares nothing with them.
#include "backend/cpu/kernels/math/ref.h"

#include <limits>
#include <vector>

#include "backend/cpu/kernels/attend/attend.h"
#include "base/half.h"

namespace kvasir::backend::cpu::ref {
namespace {

constexpr int kTile = kBlockTokens;

float CodeValue(KvType type, const std::byte* codes, size_t index) {
  switch (type) {
    case KvType::kF32:
      return reinterpret_cast<const float*>(codes)[index];
    case KvType::kF16:
      return HalfToFloat(reinterpret_cast<const Half*>(codes)[index]);
    case KvType::kQ8_0:
      return reinterpret_cast<const int8_t*>(codes)[index];
  }
  return 0;
}

constexpr int GroupValues(KvType type) {
  return type == KvType::kF32 ? 1 : (type == KvType::kF16 ? 2 : 4);
}

float ScaleValue(KvType type, const std::byte* scales, int d, int position) {
  return type == KvType::kQ8_0 ? HalfToFloat(reinterpret_cast<const Half*>(scales)[d / 32 * kTile + position]) : 1.0f;
}

// out: [dk][32 positions]
template <KvType kType>
void DecodeKeys(const std::byte* codes, const std::byte* scales, int dk, float* out) {
  constexpr int kGroup = GroupValues(kType);
  size_t index = 0;
  for (int eight = 0; eight < kTile / 8; ++eight) {
    for (int d = 0; d < dk; d += kGroup) {
      for (int p = eight * 8; p < eight * 8 + 8; ++p) {
        for (int i = 0; i < kGroup; ++i) {
          out[(d + i) * kTile + p] = CodeValue(kType, codes, index++) * ScaleValue(kType, scales, d, p);
        }
      }
    }
  }
}

// out: [32 positions][dv]
template <KvType kType>
void DecodeValues(const std::byte* codes, const std::byte* scales, int dv, float* out) {
  constexpr int kGroup = GroupValues(kType);
  size_t index = 0;
  for (int p = 0; p < kTile; p += kGroup) {
    for (int d = 0; d < dv; ++d) {
      for (int i = 0; i < kGroup; ++i) {
        out[(p + i) * dv + d] = CodeValue(kType, codes, index++) * ScaleValue(kType, scales, d, p + i);
      }
    }
  }
}

// One query over one tile; o: the partial record. REQUIRES: begin < end.
void AttendTile(const SpanTask& task, const float* q, const float* keys, const float* values, int begin, int end,
                float* o) {
  float scores[kTile] = {};
  for (int d = 0; d < task.dk; ++d) {
    for (int p = 0; p < kTile; ++p) scores[p] += q[d] * keys[d * kTile + p];
  }
  float& m = o[task.dv];
  float& l = o[task.dv + 1];
  float largest = m;
  for (int p = begin; p < end; ++p) {
    if (task.softcap > 0) scores[p] = task.softcap * Tanh(scores[p] / task.softcap);
    if (scores[p] > largest) largest = scores[p];
  }
  const float keep = Exp(m - largest);
  for (int c = 0; c < task.dv; ++c) o[c] *= keep;
  float sum = 0;
  for (int p = begin; p < end; ++p) {
    const float weight = Exp(scores[p] - largest);
    sum += weight;
    for (int c = 0; c < task.dv; ++c) o[c] += weight * values[p * task.dv + c];
  }
  l = l * keep + sum;
  m = largest;
}

template <KvType kK, KvType kV>
void Attend(const SpanTask& task) {
  std::vector<float> keys(static_cast<size_t>(task.dk) * kTile);
  std::vector<float> values(static_cast<size_t>(task.dv) * kTile);
  for (int query = 0; query < task.rows * task.group; ++query) {
    float* o = task.partial + query * task.partial_stride;
    for (int c = 0; c < task.partial_stride; ++c) o[c] = 0;
    o[task.dv] = -std::numeric_limits<float>::infinity();
  }
  for (int tile = 0; tile * kTile < task.keys; ++tile) {
    const TileView view = ViewTile(task, tile);
    if (view.row_begin >= view.row_end) continue;
    const std::byte* page = task.pages[tile];
    DecodeKeys<kK>(page, page + task.k_scales, task.dk, keys.data());
    DecodeValues<kV>(page + task.v_codes, page + task.v_scales, task.dv, values.data());
    for (int row = view.row_begin; row < view.row_end; ++row) {
      for (int head = 0; head < task.group; ++head) {
        AttendTile(task, task.q + row * task.q_stride + head * task.dk, keys.data(), values.data(),
                   KeyBegin(task, view, row), KeyEnd(task, view, row),
                   task.partial + (row * task.group + head) * task.partial_stride);
      }
    }
  }
}

}  // namespace

#define KVASIR_ATTEND_REF(k, v)                 \
  void Attend_##k##_##v(const SpanTask& task) { \
    Attend<KvType::k, KvType::v>(task);         \
  }
KVASIR_ATTEND_REF(kF32, kF32)
KVASIR_ATTEND_REF(kF32, kF16)
KVASIR_ATTEND_REF(kF32, kQ8_0)
KVASIR_ATTEND_REF(kF16, kF32)
KVASIR_ATTEND_REF(kF16, kF16)
KVASIR_ATTEND_REF(kF16, kQ8_0)
KVASIR_ATTEND_REF(kQ8_0, kF32)
KVASIR_ATTEND_REF(kQ8_0, kF16)
KVASIR_ATTEND_REF(kQ8_0, kQ8_0)
#undef KVASIR_ATTEND_REF

}  // namespace kvasir::backend::cpu::ref
