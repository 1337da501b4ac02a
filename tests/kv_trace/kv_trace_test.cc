// Random operations on a KvCache against a map from sequence to tokens.
//
// Each "forward" paints the reserved rows (kv/testing/page_pattern.h); after every operation each sequence must hold
// exactly its own rows, everything past a block's rows must be zero, refusals must be due, and all accounts must agree.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/factory.h"
#include "kv/kv_cache.h"
#include "kv/testing/fake_backend.h"
#include "kv/testing/page_pattern.h"

namespace kvasir::kv {
namespace {

using backend::kBlockTokens;
using backend::KvType;
using backend::MemoryKind;

constexpr int kOperations = 10'000;
constexpr int kMaxSequences = 12;
constexpr int kMaxTokens = 700;  // of a sequence: almost three spans
constexpr size_t kExtents = 5;   // of the budget of each tier: 40 blocks

CacheShape TraceShape() {
  return {.layers = {{.units = 3, .format = {.k = KvType::kF16, .v = KvType::kF16, .dk = 4, .dv = 8}},
                     {.units = 1, .format = {.k = KvType::kQ8_0, .v = KvType::kF16, .dk = 32, .dv = 4}, .window = 64},
                     {.units = 2, .format = {.k = KvType::kF32, .v = KvType::kF32, .dk = 4, .dv = 4}}}};
}

struct Setting {
  std::string name;
  double device_share = 1;  // of the units; the others live in host memory
  int slab_extents = 1;
  bool memory_refuses = false;  // below the budget
  uint32_t seed = 0;
  std::function<std::unique_ptr<backend::Backend>(size_t memory_bytes)> backend;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name << ", seed " << setting.seed;
}

class Trace {
 public:
  explicit Trace(const Setting& setting) : setting_(setting), random_(setting.seed) {
    const CacheShape shape = TraceShape();
    const Placement placement = PlaceSplit(shape, setting.device_share, Tier::kDevice, Tier::kHost);
    size_t device = 0, host = 0;
    for (const Lane& lane : placement) {
      (lane.home == Tier::kDevice ? device : host) += static_cast<size_t>(lane.unit_end - lane.unit_begin) *
                                                      backend::kSpanBlocks *
                                                      shape.layers[static_cast<size_t>(lane.layer)].format.page_bytes();
    }
    const size_t budget = kExtents * std::max(device, host);
    backend_ = setting.backend(setting.memory_refuses ? budget * 2 / 3 : 2 * budget);
    // A little more than whole extents: the rest must stay unused.
    limits_ = {.device = {.budget_bytes = kExtents * device + 1, .slab_extents = setting.slab_extents},
               .host = {.budget_bytes = kExtents * host + 1, .slab_extents = setting.slab_extents}};
    cache_ = KvCache::Create(*backend_, shape, placement, limits_).value();
    pattern_ = std::make_unique<PagePattern>(*backend_, *cache_);
  }

  void Run() {
    for (int i = 0; i < kOperations && !::testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(fmt::format("operation {}", i));
      Step();
      Check();
    }
    open_.clear();
    while (!model_.empty()) Close(model_.begin()->first);
    cache_->Shrink();
    cache_->CheckInvariants();
    const CacheUsage usage = cache_->usage();
    EXPECT_EQ(usage.used_bytes + usage.reserved_bytes, 0u);
    EXPECT_EQ(usage.blocks + usage.tokens, 0);
    // A trace that never met a limit or a shared tail would prove little.
    EXPECT_GT(refused_, 20);
    EXPECT_GT(replaced_, 5);
    EXPECT_GT(dropped_, 100);
  }

 private:
  struct Model {
    std::vector<Token> tokens;
    bool reserved = false;
  };
  struct Grown {
    SequenceId sequence{};
    std::vector<Token> tokens{};
    BlockId replaced = kNoBlock;
  };
  struct OpenStep {
    Reservation reservation;
    std::vector<Grown> growths;
  };

  int Random(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  bool OneIn(int count) { return Random(count) == 0; }

  // Small steps mostly, as decode; sometimes a prompt.
  int RandomGrowth() {
    if (OneIn(2)) return 1;
    if (OneIn(8)) return 1 + Random(300);
    return 1 + Random(40);
  }

  SequenceId RandomIdle() {
    std::vector<SequenceId> idle;
    for (const auto& [id, model] : model_) {
      if (!model.reserved) idle.push_back(id);
    }
    if (idle.empty()) return SequenceId{-1};
    std::sort(idle.begin(), idle.end());
    return idle[static_cast<size_t>(Random(static_cast<int>(idle.size())))];
  }

  void Step() {
    const int choice = Random(100);
    if (choice < 40) {
      if (open_.size() < 2) Reserve();
    } else if (choice < 65) {
      if (!open_.empty()) EndStep();
    } else if (choice < 70) {
      if (model_.size() < kMaxSequences) model_.try_emplace(cache_->Open());
    } else if (choice < 82) {
      Fork();
    } else if (choice < 92) {
      Truncate();
    } else if (choice < 96) {
      if (const SequenceId id = RandomIdle(); id != SequenceId{-1} && model_.size() > 3) Close(id);
    } else if (choice < 98) {
      ProbeFreeTokens();
    } else {
      cache_->Shrink();
    }
  }

  // Every hold on a block: of sequences, and of tails that open reservations may bring back.
  int Holders(BlockId block) const {
    int holders = 0;
    for (const auto& [id, model] : model_) {
      const auto blocks = cache_->blocks(id);
      holders += static_cast<int>(std::count(blocks.begin(), blocks.end(), block));
    }
    for (const OpenStep& step : open_) {
      for (const Grown& growth : step.growths) holders += growth.replaced == block;
    }
    return holders;
  }

  void Reserve() {
    std::vector<Grown> steps;
    std::set<SequenceId> chosen;
    int64_t needed = 0;
    for (int i = 1 + Random(3); i > 0; --i) {
      const SequenceId id = RandomIdle();
      if (id == SequenceId{-1} || !chosen.insert(id).second) continue;
      const int length = cache_->length(id);
      const int count = RandomGrowth();
      if (length + count > kMaxTokens) continue;
      Grown step = {.sequence = id};
      for (int t = 0; t < count; ++t) step.tokens.push_back(Random(1 << 16));
      needed += (length + count + kBlockTokens - 1) / kBlockTokens - (length + kBlockTokens - 1) / kBlockTokens;
      if (length % kBlockTokens != 0 && Holders(cache_->blocks(id).back()) > 1) {
        step.replaced = cache_->blocks(id).back();
        ++needed;
      }
      steps.push_back(std::move(step));
    }
    std::vector<Growth> growths;
    for (const Grown& step : steps) growths.push_back({.sequence = step.sequence, .tokens = step.tokens});
    const int64_t free = cache_->free_tokens() / kBlockTokens;
    auto reservation = cache_->Reserve(growths);
    if (!reservation.ok()) {
      ++refused_;
      EXPECT_EQ(reservation.error().code(), ErrorCode::kResourceExhausted);
      EXPECT_TRUE(setting_.memory_refuses || needed > free) << reservation.error().message();
      return;
    }
    EXPECT_LE(needed, free);
    EXPECT_EQ(cache_->free_tokens() / kBlockTokens, free - needed);
    for (const Grown& step : steps) {
      Model& model = model_.at(step.sequence);
      model.reserved = true;
      const auto blocks = cache_->blocks(step.sequence);
      EXPECT_EQ(blocks.size(), (model.tokens.size() + step.tokens.size() + kBlockTokens - 1) / kBlockTokens);
      if (step.replaced != kNoBlock) {
        EXPECT_NE(blocks[model.tokens.size() / kBlockTokens], step.replaced);
        ++replaced_;
      }
    }
    open_.push_back({.reservation = std::move(*reservation), .growths = std::move(steps)});
  }

  void EndStep() {
    const auto at = open_.begin() + Random(static_cast<int>(open_.size()));
    OpenStep step = std::move(*at);
    open_.erase(at);
    const bool commit = !OneIn(3);
    for (const Grown& growth : step.growths) {
      Model& model = model_.at(growth.sequence);
      std::vector<Token> all = model.tokens;
      all.insert(all.end(), growth.tokens.begin(), growth.tokens.end());
      // A step that is given up may have written any part of its rows.
      const size_t written =
          commit ? growth.tokens.size() : static_cast<size_t>(Random(static_cast<int>(growth.tokens.size()) + 1));
      pattern_->Write(growth.sequence, all, model.tokens.size(), model.tokens.size() + written);
      if (commit) model.tokens = std::move(all);
      model.reserved = false;
    }
    if (commit) {
      cache_->Commit(std::move(step.reservation));
    } else {
      ++dropped_;
    }
  }

  // Anywhere, or near the borders of blocks and spans.
  int RandomCut(int length) {
    const int cut = OneIn(2) ? Random(length + 1) : Random(length / kBlockTokens + 1) * kBlockTokens + Random(3) - 1;
    return std::clamp(cut, 0, length);
  }

  void Fork() {
    const SequenceId source = RandomIdle();
    if (source == SequenceId{-1} || model_.size() >= kMaxSequences) return;
    const int cut = RandomCut(cache_->length(source));
    const int64_t free = cache_->free_tokens();
    const auto fork = cache_->Fork(source, cut);
    if (!fork.ok()) {
      ++refused_;
      EXPECT_EQ(fork.error().code(), ErrorCode::kResourceExhausted);
      EXPECT_TRUE(setting_.memory_refuses || (cut % kBlockTokens != 0 && free == 0)) << fork.error().message();
      return;
    }
    const std::vector<Token>& tokens = model_.at(source).tokens;
    model_[*fork].tokens.assign(tokens.begin(), tokens.begin() + cut);
  }

  void Truncate() {
    const SequenceId id = RandomIdle();
    if (id == SequenceId{-1}) return;
    std::vector<Token>& tokens = model_.at(id).tokens;
    const int cut = RandomCut(static_cast<int>(tokens.size()));
    cache_->Truncate(id, cut);
    tokens.resize(static_cast<size_t>(cut));
  }

  void Close(SequenceId id) {
    cache_->Close(id);
    model_.erase(id);
  }

  void ProbeFreeTokens() {
    const SequenceId fresh = cache_->Open();
    std::vector<Token> tokens(static_cast<size_t>(cache_->free_tokens()) + 1, 5);
    const Growth too_many = {.sequence = fresh, .tokens = tokens};
    EXPECT_FALSE(cache_->Reserve({&too_many, 1}).ok());
    const Growth all = {.sequence = fresh, .tokens = std::span(tokens).first(tokens.size() - 1)};
    if (!all.tokens.empty() && !setting_.memory_refuses) {
      const auto reservation = cache_->Reserve({&all, 1});
      EXPECT_TRUE(reservation.ok());
      EXPECT_EQ(cache_->free_tokens(), 0);
    }
    cache_->Close(fresh);
  }

  void Check() {
    cache_->CheckInvariants();
    struct Seen {
      size_t rows = 0;
      std::span<const uint64_t> hashes;
      bool written = false;  // by an open reservation
    };
    std::unordered_map<BlockId, Seen> blocks;
    std::vector<std::vector<uint64_t>> histories;
    histories.reserve(model_.size());
    int64_t tokens = 0;
    for (const auto& [id, model] : model_) {
      const auto held = cache_->tokens(id);
      ASSERT_TRUE(std::equal(held.begin(), held.end(), model.tokens.begin(), model.tokens.end()))
          << static_cast<int>(id);
      ASSERT_EQ(cache_->length(id), static_cast<int>(model.tokens.size()));
      tokens += cache_->length(id);
      histories.push_back(PagePattern::Histories(model.tokens));
      const std::span<const uint64_t> history = histories.back();
      for (size_t i = 0; i < cache_->blocks(id).size(); ++i) {
        Seen& seen = blocks[cache_->blocks(id)[i]];
        const size_t begin = std::min(history.size(), i * kBlockTokens);
        const auto rows = history.subspan(begin, std::min<size_t>(history.size() - begin, kBlockTokens));
        const size_t common = std::min(rows.size(), seen.rows);
        ASSERT_TRUE(std::equal(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(common), seen.hashes.begin()))
            << "a block is shared by sequences of different tokens";
        if (rows.size() > seen.rows) seen = {rows.size(), rows, seen.written};
        seen.written |= model.reserved && (i + 1) * kBlockTokens > history.size();
      }
    }
    for (const OpenStep& step : open_) {
      for (const Grown& growth : step.growths) {
        if (growth.replaced != kNoBlock) blocks.try_emplace(growth.replaced);
      }
    }
    for (const auto& [id, seen] : blocks) {
      const auto held = static_cast<size_t>(seen.written ? kBlockTokens : cache_->rows(id));
      ASSERT_LE(seen.rows, held);
      ASSERT_TRUE(pattern_->HoldsRows(pattern_->Read(id), ImageOf(seen.hashes), seen.rows, held))
          << "block " << static_cast<int>(id) << " of " << seen.rows << " rows";
    }

    const CacheUsage usage = cache_->usage();
    ASSERT_EQ(usage.tokens, tokens);
    ASSERT_EQ(usage.blocks, static_cast<int64_t>(blocks.size()));
    ASSERT_EQ(usage.used_bytes, blocks.size() * cache_->shape().block_bytes());
    ASSERT_LE(usage.used_bytes, usage.reserved_bytes);
    ASSERT_LE(usage.reserved_bytes, limits_.device.budget_bytes + limits_.host.budget_bytes);
    if (const auto* fake = dynamic_cast<const FakeBackend*>(backend_.get())) {
      ASSERT_LE(fake->allocated_bytes(MemoryKind::kDevice), limits_.device.budget_bytes);
      ASSERT_LE(fake->allocated_bytes(MemoryKind::kHost), limits_.host.budget_bytes + cache_->shape().block_bytes());
    }
  }

  // Images are remembered: most blocks are as they were one operation ago. The last hash stands for all before it.
  const std::vector<std::byte>& ImageOf(std::span<const uint64_t> hashes) {
    if (images_.size() > 4000) images_.clear();
    const uint64_t key = hashes.empty() ? 0 : hashes.back();
    auto found = images_.find(key);
    if (found == images_.end()) found = images_.emplace(key, pattern_->Image(hashes)).first;
    return found->second;
  }

  const Setting& setting_;
  std::mt19937 random_;
  CacheLimits limits_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<PagePattern> pattern_;
  std::unordered_map<SequenceId, Model> model_;
  std::vector<OpenStep> open_;
  std::unordered_map<uint64_t, std::vector<std::byte>> images_;
  int refused_ = 0;
  int replaced_ = 0;
  int dropped_ = 0;
};

class KvTrace : public ::testing::TestWithParam<Setting> {};

TEST_P(KvTrace, EverySequenceHoldsExactlyItsOwnRowsAfterEveryOperation) {
  Trace(GetParam()).Run();
}

std::vector<Setting> Settings() {
  const auto fake = [](size_t memory_bytes) -> std::unique_ptr<backend::Backend> {
    return std::make_unique<FakeBackend>(memory_bytes);
  };
  const auto cpu = [](size_t) { return backend::CreateCpuBackend({.threads = 1}).value(); };
  const auto sim = [](size_t memory_bytes) {
    return backend::CreateSimBackend({.cpu = {.threads = 1}, .device_bytes = memory_bytes}).value();
  };
  std::vector<Setting> settings;
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    settings.push_back({.name = "fake_device", .device_share = 1, .slab_extents = 1, .seed = seed, .backend = fake});
    settings.push_back({.name = "fake_host", .device_share = 0, .slab_extents = 3, .seed = seed + 10, .backend = fake});
    settings.push_back(
        {.name = "fake_split", .device_share = 0.5, .slab_extents = 1, .seed = seed + 20, .backend = fake});
    settings.push_back({.name = "fake_refusing",
                        .device_share = 0.4,
                        .slab_extents = 1,
                        .memory_refuses = true,
                        .seed = seed + 30,
                        .backend = fake});
    settings.push_back(
        {.name = "cpu_split", .device_share = 0.5, .slab_extents = 2, .seed = seed + 40, .backend = cpu});
    settings.push_back({.name = "sim_device", .device_share = 1, .slab_extents = 1, .seed = seed + 50, .backend = sim});
    settings.push_back(
        {.name = "sim_split", .device_share = 0.5, .slab_extents = 1, .seed = seed + 60, .backend = sim});
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Settings, KvTrace, ::testing::ValuesIn(Settings()), [](const auto& setting) {
  return setting.param.name + "_" + std::to_string(setting.param.seed);
});

}  // namespace
}  // namespace kvasir::kv
