#include "kv/placement.h"

#include <algorithm>
#include <cmath>

namespace kvasir::kv {

size_t CacheShape::block_bytes() const {
  size_t bytes = 0;
  for (const LayerShape& layer : layers) {
    if (layer.units > 0) bytes += static_cast<size_t>(layer.units) * layer.format.page_bytes();
  }
  return bytes;
}

Placement PlaceWhole(const CacheShape& shape, Tier home) {
  return PlaceSplit(shape, 1.0, home, home);
}

Placement PlaceSplit(const CacheShape& shape, double fraction, Tier first, Tier second) {
  // Written so that NaN counts as 0.
  const double share = fraction > 0 ? std::min(fraction, 1.0) : 0.0;
  Placement placement;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const int layer = static_cast<int>(i);
    const int units = shape.layers[i].units;
    const int split = static_cast<int>(std::lround(share * units));
    if (split > 0) placement.push_back({.layer = layer, .unit_begin = 0, .unit_end = split, .home = first});
    if (split < units) placement.push_back({.layer = layer, .unit_begin = split, .unit_end = units, .home = second});
  }
  return placement;
}

Status ValidatePlacement(const CacheShape& shape, const Placement& placement) {
  size_t next = 0;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const LayerShape& layer = shape.layers[i];
    if (layer.units < 0) return MakeError(ErrorCode::kInvalidArgument, "layer {} has {} KV heads", i, layer.units);
    if (layer.units > 0) {
      if (const auto reason = layer.format.Unsupported()) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "the KV of layer {} ({}, {}, head sizes {} and {}) cannot be stored: {}", i,
                         Name(layer.format.k), Name(layer.format.v), layer.format.dk, layer.format.dv, *reason);
      }
    }
    int covered = 0;
    for (; next < placement.size() && placement[next].layer == static_cast<int>(i); ++next) {
      const Lane& lane = placement[next];
      if (lane.unit_begin != covered || lane.unit_end <= lane.unit_begin || lane.unit_end > layer.units) {
        return MakeError(
            ErrorCode::kInvalidArgument,
            "lane [{}, {}) of layer {} does not continue the lanes before it, which end at {} of {} KV heads",
            lane.unit_begin, lane.unit_end, i, covered, layer.units);
      }
      covered = lane.unit_end;
    }
    if (covered != layer.units) {
      return MakeError(ErrorCode::kInvalidArgument, "the lanes of layer {} cover {} of its {} KV heads", i, covered,
                       layer.units);
    }
  }
  if (next != placement.size()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "lane {} is of layer {}, which is out of order or not one of {} layers", next,
                     placement[next].layer, shape.layers.size());
  }
  if (placement.empty()) return Error(ErrorCode::kInvalidArgument, "no layer has KV heads");
  return {};
}

}  // namespace kvasir::kv
