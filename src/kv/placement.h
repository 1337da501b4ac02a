// kv/placement.h
// The shape of a model's KV and where its parts live: layers of head units, cut into lanes.
//
// A lane is one layer's contiguous range of head units (KV heads) under one placement rule; the lanes of a layer
// partition its heads. Moving a lane moves pages and changes no byte of them. With no option set there is one lane per
// layer, on the device.
//
// Thread rule: plain values.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/page_format.h"
#include "base/result.h"

namespace kvasir::kv {

using Token = int32_t;

struct LayerShape {
  int units = 0;                 // KV heads
  backend::PageFormat format{};  // of every unit of the layer
  int window = 0;                // > 0: a position attends only this many newest keys, itself counted
};

struct CacheShape {
  std::vector<LayerShape> layers;

  size_t block_bytes() const;  // pages of one block, all layers and units
  size_t token_bytes() const { return block_bytes() / backend::kBlockTokens; }
};

enum class Tier : uint8_t { kDevice, kHost };

struct Lane {
  int layer = 0;
  int unit_begin = 0;
  int unit_end = 0;
  Tier home = Tier::kDevice;
};

// Lanes in order of layer, then unit.
using Placement = std::vector<Lane>;

// One lane per layer, all in `home`.
Placement PlaceWhole(const CacheShape& shape, Tier home);

// Two lanes per layer: the first round(fraction * units) units in `first`, the others in `second` (HeadInfer's split,
// whole GQA groups). A lane that would be empty is left out.
Placement PlaceSplit(const CacheShape& shape, double fraction, Tier first, Tier second);

// kInvalidArgument, with a sentence, unless the lanes of every layer partition its units and every format can be
// stored.
Status ValidatePlacement(const CacheShape& shape, const Placement& placement);

}  // namespace kvasir::kv
