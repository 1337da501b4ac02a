#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvasir::model {
namespace {

// The pair index whose wavelength makes `rotations` turns over the trained context (YaRN, equation 17 solved for the
// index).
double PairOfRotations(const RopeConfig& rope, double rotations) {
  return rope.n_rot * std::log(static_cast<double>(rope.original_context) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(static_cast<double>(rope.base)));
}

}  // namespace

RopeTable::RopeTable(const RopeConfig& rope) : magnitude_(rope.attn_factor) {
  const int pairs = rope.n_rot / 2;
  double low = 0, high = 0;
  if (rope.ext_factor != 0) {
    low = std::max(0.0, std::floor(PairOfRotations(rope, rope.beta_fast)));
    high = std::min(rope.n_rot - 1.0, std::ceil(PairOfRotations(rope, rope.beta_slow)));
  }
  for (int pair = 0; pair < pairs; ++pair) {
    const double factor = rope.factors.empty() ? 1 : rope.factors[static_cast<size_t>(pair)];
    const double original = std::pow(static_cast<double>(rope.base), -2.0 * pair / rope.n_rot) / factor;
    const double interpolated = original * rope.freq_scale;
    // Fast pairs keep their frequency, slow ones are interpolated, between them a ramp.
    const double ramp = std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
    const double keep = rope.ext_factor * (1 - ramp);
    angle_per_position_.push_back(interpolated * (1 - keep) + original * keep);
  }
}

void RopeTable::Fill(int position, std::span<float> out) const {
  for (size_t pair = 0; pair < angle_per_position_.size(); ++pair) {
    const double angle = position * angle_per_position_[pair];
    out[2 * pair] = static_cast<float>(std::cos(angle) * magnitude_);
    out[2 * pair + 1] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace kvasir::model
