// model/sampler_candidates.h
// The tokens that can still be chosen, as a chain of filters narrows them.
//
// A vocabulary has up to 262,144 tokens and the first filter usually leaves forty, so the set starts dense (one float
// per token, indexed by id) and becomes a short list when something cuts it. Nothing sorts the whole vocabulary: the
// best k are found in one pass, and a list is ordered only as far as a filter looks. Tokens at -infinity are out.
//
// Rank: higher logit first, lower id first among equals; so every outcome is defined.
//
// Thread rule: plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/sampler_options.h"

namespace kvasir::model {

struct Candidate {
  Token id = 0;
  float logit = 0;
};

inline bool RanksBefore(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// NaN as -infinity, +infinity as the largest float.
inline float SaneLogit(float logit) {
  // std::max returns its first argument when the second is NaN.
  return std::min(std::max(-std::numeric_limits<float>::infinity(), logit), std::numeric_limits<float>::max());
}

// The best `k`, in rank order. One pass. Logits are made sane; those at -infinity are not listed.
std::vector<Candidate> BestOf(std::span<const float> logits, size_t k);

// Orders the front of `items` by `before`, in growing steps, until `enough(item)` has said true; what comes after that
// item is dropped. For filters that look at a few of many.
template <typename Item, typename Before, typename Enough>
void KeepFrontUntil(std::vector<Item>& items, Before before, Enough enough) {
  size_t ordered = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == ordered) {
      ordered = std::min(items.size(), std::max<size_t>(256, ordered * 8));
      const auto begin = items.begin() + static_cast<std::ptrdiff_t>(i);
      const auto end = items.begin() + static_cast<std::ptrdiff_t>(ordered);
      if (ordered < items.size()) std::nth_element(begin, end, items.end(), before);
      std::sort(begin, end, before);
    }
    if (enough(items[i])) {
      items.resize(i + 1);
      return;
    }
  }
}

class Candidates {
 public:
  // All tokens, their logits made sane.
  void Load(std::span<const float> logits);

  // logit = edit(logit, value) for each token of `edits` that is still in.
  template <typename Value, typename Edit>
  void Apply(const std::unordered_map<Token, Value>& edits, Edit edit) {
    if (dense_) {
      for (const auto& [token, value] : edits) {
        float& logit = logits_[static_cast<size_t>(token)];
        logit = edit(logit, value);
      }
      return;
    }
    for (Candidate& item : items_) {
      if (const auto found = edits.find(item.id); found != edits.end()) item.logit = edit(item.logit, found->second);
    }
  }

  std::vector<Candidate> Best(size_t k) const;   // in rank order
  void KeepBest(size_t k);                       // afterwards in rank order
  void KeepFrom(double logit, size_t min_keep);  // those at `logit` or above, but at least the best `min_keep`

  bool empty() const;
  float MaxLogit() const;  // -infinity when empty
  // Mean and standard deviation of the logits. REQUIRES: not empty.
  std::pair<double, double> MeanAndDeviation() const;

  // The list, for filters that work on it directly. Not in any order unless a filter made one.
  std::vector<Candidate>& List();

  // Softmax over List(), in its order, adding up to 1.
  std::vector<double> Probabilities();

 private:
  template <typename Visit>
  void ForEachLogit(Visit visit) const {
    if (dense_) {
      for (const float logit : logits_) visit(logit);
    } else {
      for (const Candidate& item : items_) visit(item.logit);
    }
  }

  bool dense_ = true;
  std::vector<float> logits_;     // [vocabulary], while dense
  std::vector<Candidate> items_;  // once it is not
};

}  // namespace kvasir::model
