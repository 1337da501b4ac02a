// The formulas of matmul.h as they stand. Expanded segments have the packed form's panels of eight lanes.
#include <cmath>
#include <utility>

#include "backend/cpu/kernels/matmul/matmul.h"
#include "backend/cpu/kernels/matmul/panel_reader.h"

namespace kvasir::backend::cpu::ref {
namespace {

constexpr int kLanes = 8;

template <PanelSpec S, int kColumns>
void QuantTileOf(const std::byte* weights, int blocks, const std::byte* x, float* out, int64_t stride) {
  for (int lane = 0; lane < kLanes; ++lane) {
    float sum[kColumns] = {};
    for (int first = 0; first < blocks; first += kGroupBlocks) {
      const int count = blocks - first < kGroupBlocks ? blocks - first : kGroupBlocks;
      const std::byte* group = weights + S.bytes(kLanes, first);
      for (int b = 0; b < count; ++b) {
        const PanelBlock w = ReadPanelBlock(S, kLanes, group, count, b, lane);
        const std::byte* packed = x + int64_t{first + b} * kColumns * kPackedBytes;
        const auto* scales = reinterpret_cast<const float*>(packed + kColumns * 32);
        const float* sums = scales + kColumns;
        const auto* minus = reinterpret_cast<const int32_t*>(sums + kColumns);
        for (int c = 0; c < kColumns; ++c) {
          const auto* codes = reinterpret_cast<const int8_t*>(packed + c * 32);
          for (int sub = 0; sub < S.subs(); ++sub) {
            int dot = 0;
            for (int i = sub * S.sub; i < (sub + 1) * S.sub; ++i) dot += w.codes[i] * codes[i];
            sum[c] = std::fma(static_cast<float>(dot), w.scale[sub] * scales[c], sum[c]);
            if constexpr (S.has_min()) {
              const float x_sum =
                  S.subs() == 1 ? sums[c] : scales[c] * static_cast<float>(-minus[(1 + sub) * kColumns + c]);
              sum[c] = std::fma(w.min[sub], x_sum, sum[c]);
            }
          }
        }
      }
    }
    for (int c = 0; c < kColumns; ++c) out[c * stride + lane] += sum[c];
  }
}

template <PanelSpec S>
void Expand(const std::byte* weights, int blocks, std::byte* out) {
  constexpr PanelSpec kTo = Expanded(S);
  for (int first = 0; first < blocks; first += kGroupBlocks) {
    const int count = blocks - first < kGroupBlocks ? blocks - first : kGroupBlocks;
    const std::byte* group = weights + S.bytes(kLanes, first);
    std::byte* scales = out + kTo.bytes(kLanes, first);
    std::byte* minima = scales + count * kTo.scale_bytes(kLanes);
    std::byte* codes = minima + count * kTo.min_bytes(kLanes);
    for (int b = 0; b < count; ++b) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const PanelBlock w = ReadPanelBlock(S, kLanes, group, count, b, lane);
        for (int sub = 0; sub < S.subs(); ++sub) {
          const int at = ((b * S.subs() + sub) * kLanes + lane) * 4;
          std::memcpy(scales + at, &w.scale[sub], 4);
          if constexpr (S.has_min()) std::memcpy(minima + at, &w.min[sub], 4);
        }
        for (int i = 0; i < 32; ++i) {
          codes[b * kTo.code_bytes(kLanes) + (i / 4 * kLanes + lane) * 4 + i % 4] =
              static_cast<std::byte>(w.codes[i] + S.offset());
        }
      }
    }
  }
}

template <FloatKind kKind, int kColumns>
void FloatTileOf(const std::byte* weights, int count, const float* x, float* out, int64_t stride) {
  for (int row = 0; row < kFloatRows; ++row) {
    float sum[kColumns] = {};
    for (int k = 0; k < count; ++k) {
      const int at = k * kFloatRows + row;
      float w = 0;
      if constexpr (kKind == FloatKind::kF32) w = ReadPanel<float>(weights + 4 * at);
      if constexpr (kKind == FloatKind::kF16) w = HalfToFloat(ReadPanel<Half>(weights + 2 * at));
      if constexpr (kKind == FloatKind::kBF16) w = BFloat16ToFloat(ReadPanel<BFloat16>(weights + 2 * at));
      for (int c = 0; c < kColumns; ++c) sum[c] = std::fma(w, x[k * kColumns + c], sum[c]);
    }
    for (int c = 0; c < kColumns; ++c) out[c * stride + row] += sum[c];
  }
}

void Pack(const int8_t* codes, const float* scales, const float* sums, int cols, int columns, int slots,
          std::byte* out) {
  const int blocks = cols / kBlock;
  std::memset(out, 0, static_cast<size_t>(blocks) * static_cast<size_t>(slots) * kPackedBytes);
  for (int b = 0; b < blocks; ++b) {
    std::byte* to_codes = out + int64_t{b} * slots * kPackedBytes;
    auto* to_scales = reinterpret_cast<float*>(to_codes + slots * 32);
    auto* to_minus = reinterpret_cast<int32_t*>(to_scales + 2 * slots);
    for (int c = 0; c < columns; ++c) {
      const int8_t* from = codes + int64_t{c} * cols + b * 32;
      std::memcpy(to_codes + c * 32, from, 32);
      to_scales[c] = scales[int64_t{c} * blocks + b];
      to_scales[slots + c] = sums[int64_t{c} * blocks + b];
      int32_t half[2] = {};
      for (int i = 0; i < 32; ++i) half[i / 16] -= from[i];
      to_minus[c] = half[0] + half[1];
      to_minus[slots + c] = half[0];
      to_minus[2 * slots + c] = half[1];
    }
  }
}

template <PanelSpec S, int... kIndex>
void ExpandedTileOf(std::integer_sequence<int, kIndex...>, const std::byte* weights, int64_t panel_bytes, int panels,
                    int blocks, const std::byte* x, int columns, float* out, int64_t stride) {
  static constexpr QuantTile kTiles[] = {QuantTileOf<S, kIndex + 1>...};
  for (int panel = 0; panel < panels; ++panel) {
    kTiles[columns - 1](weights + panel * panel_bytes, blocks, x, out + panel * kLanes, stride);
  }
}

using Widths = std::make_integer_sequence<int, kMaxColumns>;

template <PanelSpec S>
void ExpandedTileOf(const std::byte* weights, int64_t panel_bytes, int panels, int blocks, const std::byte* x,
                    int columns, float* out, int64_t stride) {
  ExpandedTileOf<S>(Widths{}, weights, panel_bytes, panels, blocks, x, columns, out, stride);
}

template <PanelSpec S>
constexpr QuantKernels QuantKernelsOf() {
  return {S,
          {QuantTileOf<S, 1>, QuantTileOf<S, 2>, QuantTileOf<S, 3>, QuantTileOf<S, 4>},
          Expand<S>,
          ExpandedTileOf<Expanded(S)>,
          nullptr};
}

template <FloatKind kKind, int... kIndex>
constexpr FloatKernels FloatKernelsOf(std::integer_sequence<int, kIndex...>) {
  return {{FloatTileOf<kKind, kIndex + 1>...}};
}

constexpr QuantKernels kQuantKernels[] = {
#define KVASIR_QUANT_PANEL(name, ...) QuantKernelsOf<k##name##Panel>(),
#include "backend/cpu/kernels/matmul/kernels.inc"
#undef KVASIR_QUANT_PANEL
};

}  // namespace

const MatMulKernels kMatMulKernels = {kLanes,
                                      kMaxColumns,
                                      kMaxColumns,
                                      kQuantKernels,
                                      FloatKernelsOf<FloatKind::kF32>(Widths{}),
                                      FloatKernelsOf<FloatKind::kF16>(Widths{}),
                                      FloatKernelsOf<FloatKind::kBF16>(Widths{}),
                                      Pack,
                                      {}};

}  // namespace kvasir::backend::cpu::ref
