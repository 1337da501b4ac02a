// model/rope_table.h
// Cosines and sines of the positions of a step, one pair for each rotated pair of a head.
//
// Computed in double and rounded once, so that a position's rotation does not depend on how the step was cut; the
// backends only multiply. YaRN as in Peng et al., arXiv 2309.00071, section 3.
//
// Thread rule: const after construction.
#pragma once

#include <span>
#include <vector>

#include "model/config.h"

namespace kvasir::model {

class RopeTable {
 public:
  explicit RopeTable(const RopeConfig& config);

  int pairs() const { return static_cast<int>(angle_per_position_.size()); }
  // out: [pairs, 2] (cos, sin). REQUIRES: out.size() == 2 * pairs().
  void Fill(int position, std::span<float> out) const;

 private:
  std::vector<double> angle_per_position_;
  double magnitude_;  // of cos and sin
};

}  // namespace kvasir::model
