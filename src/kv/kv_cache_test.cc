#include "kv/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "kv/testing/fake_backend.h"
#include "kv/testing/page_pattern.h"

namespace kvasir::kv {
namespace {

using backend::KvType;
using backend::MemoryKind;
using ::testing::HasSubstr;

CacheShape SmallShape() {
  return {.layers = {{.units = 2, .format = {.k = KvType::kF16, .v = KvType::kF16, .dk = 4, .dv = 8}},
                     {.units = 1, .format = {.k = KvType::kQ8_0, .v = KvType::kF16, .dk = 32, .dv = 4}, .window = 16}}};
}

// A cache with half of its units in each tier and room for `extents` extents, that writes what it is given.
class KvCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { Build(64); }

  void Build(int extents, size_t memory_bytes = 0) {
    pattern_.reset();
    cache_.reset();
    backend_ = std::make_unique<FakeBackend>(memory_bytes);
    const CacheShape shape = SmallShape();
    const Placement placement = PlaceSplit(shape, 0.5, Tier::kDevice, Tier::kHost);
    const auto limits = [&](Tier tier) -> StoreLimits {
      const PageStore probe(*backend_, tier, shape, placement, {});
      return {.budget_bytes = static_cast<size_t>(extents) * probe.extent_bytes(), .slab_extents = 1};
    };
    cache_ =
        KvCache::Create(*backend_, shape, placement, {.device = limits(Tier::kDevice), .host = limits(Tier::kHost)})
            .value();
    pattern_ = std::make_unique<PagePattern>(*backend_, *cache_);
  }

  void TearDown() override {
    cache_->CheckInvariants();
    pattern_.reset();
  }

  std::vector<Token> NewTokens(int count) {
    std::vector<Token> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(++last_token_);
    return tokens;
  }
  std::vector<Token> TokensOf(SequenceId sequence) const {
    const auto tokens = cache_->tokens(sequence);
    return {tokens.begin(), tokens.end()};
  }
  Result<Reservation> Reserve(SequenceId sequence, const std::vector<Token>& tokens) {
    const Growth growth = {.sequence = sequence, .tokens = tokens};
    return cache_->Reserve({&growth, 1});
  }
  void WriteNew(SequenceId sequence, const std::vector<Token>& added) {
    std::vector<Token> all = TokensOf(sequence);
    const size_t begin = all.size();
    all.insert(all.end(), added.begin(), added.end());
    pattern_->Write(sequence, all, begin, all.size());
  }
  void Grow(SequenceId sequence, int count) {
    const std::vector<Token> tokens = NewTokens(count);
    Reservation reservation = Reserve(sequence, tokens).value();
    WriteNew(sequence, tokens);
    cache_->Commit(std::move(reservation));
  }
  SequenceId NewSequence(std::vector<int> steps) {
    const SequenceId sequence = cache_->Open();
    for (const int step : steps) Grow(sequence, step);
    return sequence;
  }
  bool Holds(SequenceId sequence) { return pattern_->Holds(sequence, TokensOf(sequence)); }

  std::unique_ptr<FakeBackend> backend_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<PagePattern> pattern_;
  Token last_token_ = 0;
};

TEST_F(KvCacheTest, ChunksMakeTheSameSequenceAsOneStep) {
  const SequenceId sequence = NewSequence({1, 7, 24, 1, 64, 200, 3});
  EXPECT_EQ(cache_->length(sequence), 300);
  EXPECT_EQ(cache_->blocks(sequence).size(), 10u);
  EXPECT_TRUE(Holds(sequence));
  EXPECT_EQ(cache_->rows(cache_->blocks(sequence)[9]), 12);
  cache_->Close(sequence);
  EXPECT_EQ(cache_->usage().used_bytes, 0u);
}

TEST_F(KvCacheTest, UntilCommitOnlyTheNewPagesShow) {
  const SequenceId sequence = NewSequence({40});
  const std::vector<Token> added = NewTokens(30);
  Reservation reservation = Reserve(sequence, added).value();
  EXPECT_EQ(cache_->length(sequence), 40);
  EXPECT_EQ(cache_->tokens(sequence).size(), 40u);
  EXPECT_EQ(cache_->blocks(sequence).size(), 3u);
  cache_->CheckInvariants();
  WriteNew(sequence, added);
  cache_->Commit(std::move(reservation));
  EXPECT_EQ(cache_->length(sequence), 70);
  EXPECT_TRUE(Holds(sequence));
}

TEST_F(KvCacheTest, ADroppedReservationLeavesNoTrace) {
  const SequenceId sequence = NewSequence({40});
  const std::vector<Token> before = TokensOf(sequence);
  const CacheUsage usage = cache_->usage();
  {
    const std::vector<Token> added = NewTokens(100);
    Reservation reservation = Reserve(sequence, added).value();
    EXPECT_GT(cache_->usage().used_bytes, usage.used_bytes);
    WriteNew(sequence, added);
  }
  EXPECT_EQ(TokensOf(sequence), before);
  EXPECT_EQ(cache_->blocks(sequence).size(), 2u);
  EXPECT_TRUE(Holds(sequence));  // rows 8.. of the tail are zero again
  EXPECT_EQ(cache_->usage().used_bytes, usage.used_bytes);
  Grow(sequence, 100);
  EXPECT_TRUE(Holds(sequence));
}

TEST_F(KvCacheTest, AMovedReservationRollsBackOnce) {
  const SequenceId a = NewSequence({10});
  const SequenceId b = NewSequence({10});
  std::optional<Reservation> outer;
  {
    Reservation first = Reserve(a, NewTokens(50)).value();
    Reservation second = std::move(first);
    outer.emplace(std::move(second));
  }
  EXPECT_EQ(cache_->blocks(a).size(), 2u);
  *outer = Reserve(b, NewTokens(50)).value();  // what it held before rolls back
  EXPECT_EQ(cache_->blocks(a).size(), 1u);
  EXPECT_EQ(cache_->blocks(b).size(), 2u);
  outer.reset();
  EXPECT_EQ(cache_->blocks(b).size(), 1u);
}

TEST_F(KvCacheTest, ReserveIsAllOrNothingAcrossSequences) {
  Build(2);  // sixteen blocks
  const SequenceId a = NewSequence({100});
  const SequenceId b = NewSequence({100});
  const CacheUsage before = cache_->usage();
  const std::vector<Token> fits = NewTokens(28 + 32 * 4);
  const std::vector<Token> too_many = NewTokens(28 + 32 * 4 + 1);
  const std::vector<Growth> growths = {{.sequence = a, .tokens = fits}, {.sequence = b, .tokens = too_many}};
  const auto refused = cache_->Reserve(growths);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("1 missing"));
  EXPECT_EQ(cache_->usage().used_bytes, before.used_bytes);
  EXPECT_EQ(cache_->blocks(a).size(), 4u);
  cache_->CheckInvariants();

  const std::vector<Growth> exact = {{.sequence = a, .tokens = fits}, {.sequence = b, .tokens = fits}};
  Reservation reservation = cache_->Reserve(exact).value();
  EXPECT_EQ(cache_->free_tokens(), 0);
  EXPECT_EQ(cache_->usage().used_bytes, cache_->usage().reserved_bytes);
}

TEST_F(KvCacheTest, MemoryThatRunsOutHalfWayLeavesNoTrace) {
  // Room for two extents of the larger tier, under budgets of 64.
  const CacheShape shape = SmallShape();
  const Placement placement = PlaceSplit(shape, 0.5, Tier::kDevice, Tier::kHost);
  const size_t device = PageStore(*backend_, Tier::kDevice, shape, placement, {}).extent_bytes();
  const size_t host = PageStore(*backend_, Tier::kHost, shape, placement, {}).extent_bytes();
  Build(64, 2 * std::max(device, host) + shape.block_bytes());
  const SequenceId a = NewSequence({40});
  const SequenceId b = cache_->Fork(a, 32).value();
  const std::vector<Token> some = NewTokens(200), more = NewTokens(1000);
  const std::vector<Growth> growths = {{.sequence = b, .tokens = some}, {.sequence = a, .tokens = more}};
  const CacheUsage before = cache_->usage();
  const auto refused = cache_->Reserve(growths);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  cache_->CheckInvariants();
  EXPECT_EQ(cache_->usage().used_bytes, before.used_bytes);
  EXPECT_TRUE(Holds(a) && Holds(b));
  Grow(b, 100);
  EXPECT_TRUE(Holds(a) && Holds(b));
}

TEST_F(KvCacheTest, ForkAtEveryOffsetSharesWholeBlocksAndCopiesTheRest) {
  const SequenceId trunk = NewSequence({300});
  std::vector<int> lengths;
  for (int i = 0; i <= 32; ++i) lengths.push_back(i);
  for (int i = 224; i <= 288; ++i) lengths.push_back(i);
  lengths.push_back(300);
  for (const int length : lengths) {
    const int64_t blocks = cache_->usage().blocks;
    const SequenceId fork = cache_->Fork(trunk, length).value();
    EXPECT_EQ(cache_->length(fork), length);
    EXPECT_EQ(cache_->usage().blocks, blocks + (length % 32 != 0));
    for (int i = 0; i < length / 32; ++i) {
      EXPECT_EQ(cache_->blocks(fork)[static_cast<size_t>(i)], cache_->blocks(trunk)[static_cast<size_t>(i)]);
    }
    EXPECT_TRUE(Holds(fork)) << length;
    Grow(fork, 70);
    EXPECT_TRUE(Holds(fork)) << length;
    EXPECT_TRUE(Holds(trunk)) << length;
    cache_->CheckInvariants();
    cache_->Close(fork);
    EXPECT_TRUE(Holds(trunk)) << length;
  }
}

TEST_F(KvCacheTest, ForkWithoutACellForTheCopyIsRefused) {
  Build(1);
  const SequenceId trunk = NewSequence({250});
  EXPECT_TRUE(cache_->Fork(trunk, 224).ok());
  const auto refused = cache_->Fork(trunk, 225);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  cache_->CheckInvariants();
}

TEST_F(KvCacheTest, TruncateAtEveryOffsetZeroesWhatItForgets) {
  for (int length = 0; length <= 70; ++length) {
    const SequenceId sequence = NewSequence({70});
    cache_->Truncate(sequence, length);
    EXPECT_EQ(cache_->length(sequence), length);
    EXPECT_TRUE(Holds(sequence)) << length;
    Grow(sequence, 5);
    EXPECT_TRUE(Holds(sequence)) << length;
    cache_->Close(sequence);
  }
}

TEST_F(KvCacheTest, TruncateInsideASharedBlockLeavesTheOthersRows) {
  for (int rows = 1; rows < 32; ++rows) {
    const SequenceId a = NewSequence({64});
    const SequenceId b = cache_->Fork(a, 64).value();
    cache_->Truncate(b, 32 + rows);
    EXPECT_EQ(cache_->blocks(b)[1], cache_->blocks(a)[1]);
    EXPECT_TRUE(Holds(a) && Holds(b)) << rows;

    Grow(b, 1);  // now it needs its own: the kept rows only
    EXPECT_NE(cache_->blocks(b)[1], cache_->blocks(a)[1]);
    EXPECT_EQ(cache_->rows(cache_->blocks(b)[1]), rows + 1);
    EXPECT_TRUE(Holds(a) && Holds(b)) << rows;
    cache_->Close(a);
    EXPECT_TRUE(Holds(b)) << rows;
    cache_->Close(b);
  }
}

TEST_F(KvCacheTest, RowsOfAFormerHolderAreClearedBeforeTheTailIsWritten) {
  const SequenceId a = NewSequence({64});
  const SequenceId b = cache_->Fork(a, 64).value();
  cache_->Truncate(b, 40);
  cache_->Close(a);
  EXPECT_EQ(cache_->rows(cache_->blocks(b)[1]), 32);
  const BlockId tail = cache_->blocks(b)[1];
  Reservation reservation = Reserve(b, NewTokens(1)).value();
  EXPECT_EQ(cache_->blocks(b)[1], tail);  // its only holder writes in place
  EXPECT_EQ(cache_->rows(tail), 8);
  EXPECT_TRUE(Holds(b));
}

TEST_F(KvCacheTest, HoldersOfOneTailGrowApartInOneStep) {
  const SequenceId a = NewSequence({64});
  const SequenceId b = cache_->Fork(a, 64).value();
  cache_->Truncate(a, 40);
  cache_->Truncate(b, 50);
  const BlockId tail = cache_->blocks(a)[1];
  const std::vector<Token> to_a = NewTokens(3), to_b = NewTokens(20);
  const std::vector<Growth> growths = {{.sequence = a, .tokens = to_a}, {.sequence = b, .tokens = to_b}};
  {
    Reservation dropped = cache_->Reserve(growths).value();
    WriteNew(a, to_a);
    WriteNew(b, to_b);
    cache_->CheckInvariants();
  }
  EXPECT_EQ(cache_->blocks(a)[1], tail);
  EXPECT_EQ(cache_->blocks(b)[1], tail);
  EXPECT_TRUE(Holds(a) && Holds(b));

  Reservation reservation = cache_->Reserve(growths).value();
  WriteNew(a, to_a);
  WriteNew(b, to_b);
  cache_->Commit(std::move(reservation));
  EXPECT_TRUE(Holds(a) && Holds(b));
  EXPECT_EQ(cache_->usage().blocks, 4);  // the shared first, two tails, one more of b; the old tail is gone
}

TEST_F(KvCacheTest, TheCopyOfASharedTailCountsAsACell) {
  Build(1);
  const SequenceId a = NewSequence({256});
  const SequenceId b = cache_->Fork(a, 256).value();
  cache_->Truncate(b, 250);
  const auto refused = Reserve(b, NewTokens(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("1 missing"));
  cache_->Truncate(a, 224);  // gives up the tail: now it is b's alone
  Grow(b, 1);
  EXPECT_TRUE(Holds(a) && Holds(b));
}

TEST_F(KvCacheTest, ATailWhoseOtherHolderClosesDuringAReservationComesBack) {
  const SequenceId a = NewSequence({64});
  const SequenceId b = cache_->Fork(a, 64).value();
  cache_->Truncate(b, 40);
  {
    const std::vector<Token> added = NewTokens(9);
    Reservation reservation = Reserve(b, added).value();
    WriteNew(b, added);
    cache_->Close(a);
    cache_->CheckInvariants();
  }
  EXPECT_TRUE(Holds(b));
  Grow(b, 9);
  EXPECT_TRUE(Holds(b));
}

TEST_F(KvCacheTest, PagesOfALaneAreInTheMemoryOfItsTier) {
  const SequenceId sequence = NewSequence({1});
  const BlockId block = cache_->blocks(sequence)[0];
  EXPECT_EQ(cache_->home(0, 0), Tier::kDevice);
  EXPECT_EQ(cache_->home(0, 1), Tier::kHost);
  // The fake refuses a copy whose addresses are not of the direction's memories.
  const backend::CopyItem item = {.to = cache_->Page(block, 0, 1), .from = cache_->Page(block, 0, 0), .bytes = 64};
  backend_->Wait(backend_->Copy(backend::CopyDirection::kDeviceToHost, {&item, 1}));
}

TEST_F(KvCacheTest, LanesOfALayerAreThoseOfThePlacement) {
  ASSERT_EQ(cache_->lanes(0).size(), 2u);
  EXPECT_EQ(cache_->lanes(0)[1].unit_begin, 1);
  ASSERT_EQ(cache_->lanes(1).size(), 1u);
  EXPECT_EQ(cache_->lanes(1)[0].layer, 1);
}

TEST_F(KvCacheTest, UsageCountsASharedBlockOnce) {
  const SequenceId a = NewSequence({96});
  const size_t block_bytes = cache_->shape().block_bytes();
  EXPECT_EQ(cache_->usage().used_bytes, 3 * block_bytes);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(cache_->Fork(a, 96).ok());
  const CacheUsage usage = cache_->usage();
  EXPECT_EQ(usage.used_bytes, 3 * block_bytes);
  EXPECT_EQ(usage.blocks, 3);
  EXPECT_EQ(usage.tokens, 6 * 96);
  EXPECT_EQ(usage.reserved_bytes, backend_->allocated_bytes(MemoryKind::kDevice) +
                                      backend_->allocated_bytes(MemoryKind::kHost) -
                                      block_bytes);  // less the test's own
}

TEST_F(KvCacheTest, FreeTokensIsExactlyWhatAFreshSequenceCanTake) {
  Build(3);
  const SequenceId other = NewSequence({100});
  const SequenceId branch = cache_->Fork(other, 50).value();
  EXPECT_EQ(cache_->free_tokens(), (24 - 4 - 1) * 32);
  const SequenceId fresh = cache_->Open();
  EXPECT_FALSE(Reserve(fresh, NewTokens(static_cast<int>(cache_->free_tokens()) + 1)).ok());
  EXPECT_TRUE(Reserve(fresh, NewTokens(static_cast<int>(cache_->free_tokens()))).ok());
  cache_->Close(branch);
  EXPECT_EQ(cache_->free_tokens(), (24 - 4) * 32);
}

TEST_F(KvCacheTest, ShrinkGivesBackWhatClosedSequencesLeave) {
  const SequenceId a = NewSequence({300});
  const SequenceId b = NewSequence({300});
  cache_->Close(a);
  const size_t before = cache_->usage().reserved_bytes;
  cache_->Shrink();
  EXPECT_EQ(cache_->usage().reserved_bytes, before / 2);
  EXPECT_TRUE(Holds(b));
  cache_->Close(b);
  cache_->Shrink();
  EXPECT_EQ(cache_->usage().reserved_bytes, 0u);
  EXPECT_EQ(backend_->allocated_bytes(MemoryKind::kDevice), 0u);
}

TEST(KvCacheCreate, ABudgetBelowOneExtentIsRefusedWithTheArithmetic) {
  FakeBackend backend;
  const CacheShape shape = SmallShape();
  const auto created = KvCache::Create(backend, shape, PlaceWhole(shape, Tier::kDevice),
                                       {.device = {.budget_bytes = shape.block_bytes() * 8 - 1}});
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(created.error().message(), HasSubstr("256 tokens"));
  EXPECT_TRUE(KvCache::Create(backend, shape, PlaceWhole(shape, Tier::kDevice),
                              {.device = {.budget_bytes = shape.block_bytes() * 8}})
                  .ok());
}

TEST(KvCacheCreate, APlacementThatDoesNotPartitionIsRefused) {
  FakeBackend backend;
  EXPECT_FALSE(KvCache::Create(backend, SmallShape(), {}, {}).ok());
}

TEST_F(KvCacheTest, MisuseAborts) {
  const SequenceId sequence = NewSequence({40});
  EXPECT_DEATH(cache_->Truncate(sequence, 41), "41 of 40");
  EXPECT_DEATH(cache_->Close(SequenceId{99}), "sequence 99 is not open");
  Reservation reservation = Reserve(sequence, NewTokens(1)).value();
  EXPECT_DEATH(cache_->Truncate(sequence, 0), "CHECK|reserved");
  EXPECT_DEATH(static_cast<void>(cache_->Fork(sequence, 0)), "fork of sequence");
  EXPECT_DEATH(static_cast<void>(Reserve(sequence, NewTokens(1))), "growth of sequence");
}

}  // namespace
}  // namespace kvasir::kv
