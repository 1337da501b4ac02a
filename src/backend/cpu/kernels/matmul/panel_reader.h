// backend/cpu/kernels/matmul/panel_reader.h
// Reads one row of a quantized panel, value by value: what the `ref` kernels and the embedding look-up need.
//
// Portable and slow. Not for kernel files of other levels (its inline functions are compiled without their instruction
// sets).
//
// Thread rule: pure functions.
#pragma once

#include <bit>
#include <cstring>

#include "backend/cpu/kernels/matmul/panel.h"
#include "base/half.h"

namespace kvasir::backend::cpu {

// One block of one row. Value i is scale[i / spec.sub] * codes[i] + min[i / spec.sub].
struct PanelBlock {
  int codes[32];  // signed: the offset is taken off, a codebook looked up
  float scale[2];
  float min[2];
};

template <typename T>
T ReadPanel(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// `group` has `blocks` blocks. REQUIRES: b < blocks, lane < lanes.
inline PanelBlock ReadPanelBlock(const PanelSpec& spec, int lanes, const std::byte* group, int blocks, int b,
                                 int lane) {
  PanelBlock out = {};
  const std::byte* scales = group + spec.head_bytes(lanes) + b * spec.scale_bytes(lanes);
  const std::byte* minima =
      group + spec.head_bytes(lanes) + blocks * spec.scale_bytes(lanes) + b * spec.min_bytes(lanes);
  const std::byte* codes = group + spec.head_bytes(lanes) + blocks * (spec.scale_bytes(lanes) + spec.min_bytes(lanes)) +
                           b * spec.code_bytes(lanes);
  const auto half_at = [&](const std::byte* from, int i) { return HalfToFloat(ReadPanel<Half>(from + 2 * i)); };
  for (int sub = 0; sub < spec.subs(); ++sub) {
    const int at = sub * lanes + lane;
    switch (spec.scale) {
      case ScaleKind::kHalf:
        out.scale[sub] = half_at(scales, lane);
        break;
      case ScaleKind::kFloat:
        out.scale[sub] = ReadPanel<float>(scales + 4 * at);
        break;
      case ScaleKind::kExponent: {
        const auto e = ReadPanel<uint8_t>(scales + lane);
        out.scale[sub] = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
        break;
      }
      case ScaleKind::kSuper:
        out.scale[sub] = half_at(group, lane) * static_cast<float>(ReadPanel<int8_t>(scales + at));
        break;
      case ScaleKind::kNibbles:
        out.scale[sub] = half_at(group, lane) * static_cast<float>(ReadPanel<uint8_t>(scales + at) & 15);
        break;
    }
    switch (spec.min) {
      case MinKind::kNone:
        break;
      case MinKind::kHalf:
        out.min[sub] = half_at(minima, lane);
        break;
      case MinKind::kFloat:
        out.min[sub] = ReadPanel<float>(minima + 4 * at);
        break;
      case MinKind::kSuper:
        out.min[sub] = half_at(group + 2 * lanes, lane) * static_cast<float>(ReadPanel<int8_t>(minima + at));
        break;
      case MinKind::kNibbles:
        out.min[sub] = half_at(group + 2 * lanes, lane) * static_cast<float>(ReadPanel<uint8_t>(scales + at) >> 4);
        break;
    }
  }
  const auto field = [&](const std::byte* plane, int bits, int i) {
    const int vector = i / 4 % bits, shift = bits == 8 ? 0 : bits * (i / 4 / bits);
    return (ReadPanel<uint8_t>(plane + (vector * lanes + lane) * 4 + i % 4) >> shift) & ((1 << bits) - 1);
  };
  for (int i = 0; i < 32; ++i) {
    int code = field(codes, spec.low_bits, i);
    if (spec.high_bits > 0) code |= field(codes + 4 * spec.low_bits * lanes, spec.high_bits, i) << spec.low_bits;
    switch (spec.codebook) {
      case Codebook::kNone:
        code -= spec.offset();
        break;
      case Codebook::kNonLinear:
        code = kNonLinearCodes[code];
        break;
      case Codebook::kE2M1:
        code = kE2M1Codes[code];
        break;
    }
    out.codes[i] = code;
  }
  return out;
}

}  // namespace kvasir::backend::cpu
