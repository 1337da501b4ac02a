#include "model/sampler_candidates.h"

#include <cmath>

#include "model/sampler_math.h"

namespace kvasir::model {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

}  // namespace

std::vector<Candidate> BestOf(std::span<const float> logits, size_t k) {
  std::vector<Candidate> kept;
  if (k == 0) return kept;
  k = std::min(k, logits.size());
  const size_t room = 2 * k + 64;
  kept.reserve(room);
  const auto cut = [&] {
    if (kept.size() <= k) return;
    std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(k) - 1, kept.end(), RanksBefore);
    kept.resize(k);
  };
  // Below or at `floor` nothing can get in: k tokens of lower id are at least as good.
  float floor = kOut;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = SaneLogit(logits[i]);
    if (!(logit > floor)) continue;
    kept.push_back({static_cast<Token>(i), logit});
    if (kept.size() == room) {
      cut();
      floor = kept.back().logit;
    }
  }
  cut();
  std::sort(kept.begin(), kept.end(), RanksBefore);
  return kept;
}

void Candidates::Load(std::span<const float> logits) {
  dense_ = true;
  items_.clear();
  logits_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) logits_[i] = SaneLogit(logits[i]);
}

std::vector<Candidate> Candidates::Best(size_t k) const {
  if (dense_) return BestOf(logits_, k);
  std::vector<Candidate> best = items_;
  if (k < best.size()) {
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k), best.end(), RanksBefore);
    best.resize(k);
  }
  std::sort(best.begin(), best.end(), RanksBefore);
  return best;
}

void Candidates::KeepBest(size_t k) {
  items_ = Best(k);
  dense_ = false;
}

void Candidates::KeepFrom(double logit, size_t min_keep) {
  const auto below = [logit](const Candidate& item) { return static_cast<double>(item.logit) < logit; };
  std::vector<Candidate>& items = List();
  const auto count =
      static_cast<size_t>(std::count_if(items.begin(), items.end(), [&](const auto& item) { return !below(item); }));
  if (count < min_keep) {
    KeepBest(min_keep);
  } else {
    std::erase_if(items, below);
  }
}

bool Candidates::empty() const {
  const auto out = [](float logit) { return logit == kOut; };
  if (dense_) return std::all_of(logits_.begin(), logits_.end(), out);
  return std::all_of(items_.begin(), items_.end(), [&](const Candidate& item) { return out(item.logit); });
}

float Candidates::MaxLogit() const {
  float best = kOut;
  ForEachLogit([&](float logit) { best = std::max(best, logit); });
  return best;
}

std::pair<double, double> Candidates::MeanAndDeviation() const {
  double sum = 0;
  size_t count = 0;
  ForEachLogit([&](float logit) {
    if (logit == kOut) return;
    sum += static_cast<double>(logit);
    ++count;
  });
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  ForEachLogit([&](float logit) {
    const double distance = static_cast<double>(logit) - mean;
    if (logit != kOut) squares += distance * distance;
  });
  return {mean, std::sqrt(squares / static_cast<double>(count))};
}

std::vector<Candidate>& Candidates::List() {
  if (dense_) {
    dense_ = false;
    items_.clear();
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (logits_[i] != kOut) items_.push_back({static_cast<Token>(i), logits_[i]});
    }
  }
  return items_;
}

std::vector<double> Candidates::Probabilities() {
  const std::vector<Candidate>& items = List();
  const double max = static_cast<double>(MaxLogit());
  std::vector<double> p(items.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = Exp(static_cast<double>(items[i].logit) - max);
  double total = 0;
  for (const double value : p) total += value;
  for (double& value : p) value /= total;
  return p;
}

}  // namespace kvasir::model
