// tokenizer/merge_queue.h
// Merges neighbouring symbols, best rank first and leftmost among equals, until no pair has a rank: the one loop behind
// byte pairs and SentencePiece.
//
// Few symbols are kept in an array whose pair ranks are scanned for the smallest. Many are linked, and the pairs wait
// in one bucket per rank: pairs of one rank mostly arrive from left to right, so a bucket is a list that is read in
// order, with a heap beside it for the pairs that come late; a heap of the ranks that have pairs says which bucket is
// next. A run of a million equal letters so costs a constant per letter, where one heap of all pairs would cost twenty
// cache misses. A pair waits as the index of its left symbol; when it comes up it is looked up again, and dropped if
// its rank is another by now. Worked example, ranks ab=0, abc=1, bc=2, on "abcbc": bucket 0 {0:ab}, bucket 2 {1:bc,
// 3:bc}; merge ab, which files {0:ab+c} under 1; merge abc; in bucket 2 the pair at 1 is gone, the one at 3 merges: abc
// bc.
//
// The owner says which pairs merge:
//   struct Joins { bool Find(const Symbol& left, const Symbol& right, uint32_t& rank, Token& merged) const; };
// with ranks below the count given to Start.
//
// Thread rule: one thread; keep it for several pieces, its buffers are the cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kvasir::tokenizer {

struct Symbol {
  uint32_t begin = 0;  // bytes of the piece
  uint32_t size = 0;   // 0: merged away
  Token token = kNoToken;
};

class MergeQueue {
 public:
  // REQUIRES: `symbols` lie side by side and cover less than 4 GiB. They are replaced by what is left of them.
  template <typename Joins>
  void Merge(std::vector<Symbol>& symbols, const Joins& joins, size_t ranks) {
    if (symbols.size() <= kFew) {
      MergeFew(symbols, joins);
    } else {
      MergeMany(symbols, joins, ranks);
    }
  }

 private:
  static constexpr size_t kFew = 32;
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  struct Bucket {
    uint32_t rank = 0;
    bool waiting = false;  // its rank is in the heap
    bool sorted = true;    // `in_order` from `next` on
    size_t next = 0;
    std::vector<uint32_t> in_order;  // left symbols
    std::vector<uint32_t> late;      // heap, leftmost on top
  };
  struct Link {
    uint32_t previous, next;
  };

  template <typename Joins>
  void MergeFew(std::vector<Symbol>& symbols, const Joins& joins) {
    uint32_t ranks[kFew];
    Token merged[kFew];
    size_t n = symbols.size();
    const auto look = [&](size_t i) {
      if (i + 1 >= n || !joins.Find(symbols[i], symbols[i + 1], ranks[i], merged[i])) ranks[i] = kNone;
    };
    for (size_t i = 0; i < n; ++i) look(i);
    while (n > 1) {
      const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + n) - ranks);
      if (ranks[best] == kNone) break;
      symbols[best].size += symbols[best + 1].size;
      symbols[best].token = merged[best];
      for (size_t i = best + 1; i + 1 < n; ++i) {
        symbols[i] = symbols[i + 1];
        ranks[i] = ranks[i + 1];
        merged[i] = merged[i + 1];
      }
      --n;
      look(best);
      if (best > 0) look(best - 1);
    }
    symbols.resize(n);
  }

  template <typename Joins>
  void MergeMany(std::vector<Symbol>& symbols, const Joins& joins, size_t ranks) {
    if (bucket_of_.size() < ranks) bucket_of_.resize(ranks, kNone);
    const auto count = static_cast<uint32_t>(symbols.size());
    links_.resize(count);
    for (uint32_t i = 0; i < count; ++i) links_[i] = {i - 1, i + 1 < count ? i + 1 : kNone};
    links_[0].previous = kNone;

    const auto file = [&](uint32_t left, uint32_t right) {
      uint32_t rank;
      Token merged;
      if (joins.Find(symbols[left], symbols[right], rank, merged)) File(rank, left);
    };
    for (uint32_t i = 0; i + 1 < count; ++i) file(i, i + 1);

    while (!ranks_waiting_.empty()) {
      const uint32_t wanted = ranks_waiting_.front();
      const uint32_t left_at = Take();
      Symbol& left = symbols[left_at];
      const uint32_t right_at = links_[left_at].next;
      uint32_t rank;
      Token merged;
      if (left.size == 0 || right_at == kNone || !joins.Find(left, symbols[right_at], rank, merged) || rank != wanted) {
        continue;
      }
      left.size += symbols[right_at].size;
      left.token = merged;
      symbols[right_at].size = 0;
      const uint32_t after = links_[right_at].next;
      links_[left_at].next = after;
      if (after != kNone) links_[after].previous = left_at;
      if (links_[left_at].previous != kNone) file(links_[left_at].previous, left_at);
      if (after != kNone) file(left_at, after);
    }
    for (size_t i = 0; i < buckets_used_; ++i) bucket_of_[buckets_[i].rank] = kNone;
    buckets_used_ = 0;
    symbols.erase(std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& s) { return s.size == 0; }),
                  symbols.end());
  }

  void File(uint32_t rank, uint32_t left) {
    uint32_t& number = bucket_of_[rank];
    if (number == kNone) {
      number = static_cast<uint32_t>(buckets_used_++);
      if (buckets_.size() < buckets_used_) buckets_.emplace_back();
      Bucket& fresh = buckets_[number];
      fresh.rank = rank;
      fresh.waiting = false;
      fresh.sorted = true;
      fresh.next = 0;
      fresh.in_order.clear();
      fresh.late.clear();
    }
    Bucket& bucket = buckets_[number];
    if (bucket.next == bucket.in_order.size()) {
      bucket.in_order.clear();
      bucket.next = 0;
      bucket.sorted = true;
    }
    if (bucket.in_order.empty() || left >= bucket.in_order.back()) {
      bucket.in_order.push_back(left);
    } else if (bucket.next == 0) {
      // Not begun: sorting once is cheaper than a heap.
      bucket.in_order.push_back(left);
      bucket.sorted = false;
    } else {
      bucket.late.push_back(left);
      std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    }
    if (!bucket.waiting) {
      bucket.waiting = true;
      ranks_waiting_.push_back(rank);
      std::push_heap(ranks_waiting_.begin(), ranks_waiting_.end(), std::greater<>());
    }
  }

  // The left symbol of the leftmost pair of the smallest rank. REQUIRES: a rank is waiting.
  uint32_t Take() {
    Bucket& bucket = buckets_[bucket_of_[ranks_waiting_.front()]];
    if (!bucket.sorted) {
      std::sort(bucket.in_order.begin(), bucket.in_order.end());
      bucket.sorted = true;
    }
    uint32_t left;
    const bool in_order_left = bucket.next < bucket.in_order.size();
    if (!bucket.late.empty() && (!in_order_left || bucket.in_order[bucket.next] > bucket.late.front())) {
      std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
      left = bucket.late.back();
      bucket.late.pop_back();
    } else {
      left = bucket.in_order[bucket.next++];
    }
    if (bucket.late.empty() && bucket.next == bucket.in_order.size()) {
      bucket.waiting = false;
      std::pop_heap(ranks_waiting_.begin(), ranks_waiting_.end(), std::greater<>());
      ranks_waiting_.pop_back();
    }
    return left;
  }

  std::vector<uint32_t> bucket_of_;  // by rank
  std::vector<Bucket> buckets_;
  size_t buckets_used_ = 0;
  std::vector<uint32_t> ranks_waiting_;  // heap, smallest on top
  std::vector<Link> links_;
};

}  // namespace kvasir::tokenizer
