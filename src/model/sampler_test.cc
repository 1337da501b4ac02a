#include "model/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "model/sampler_dry.h"
#include "model/sampler_math.h"

namespace kvasir::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Everything off: the model's distribution as it is.
SamplerOptions Plain() {
  SamplerOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

Sampler Make(const SamplerOptions& options, size_t vocabulary) {
  return Sampler::Create(options, static_cast<int>(vocabulary)).value();
}

// Logits whose softmax is `p`.
std::vector<float> LogitsOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double value : p) logits.push_back(static_cast<float>(std::log(value)));
  return logits;
}

// Token -> share of `draws` draws.
std::map<Token, double> Frequencies(Sampler sampler, const std::vector<float>& logits, int draws = 20000) {
  std::map<Token, double> shares;
  for (int i = 0; i < draws; ++i) shares[sampler.Sample(logits).value().id] += 1.0 / draws;
  return shares;
}

// The tokens that any draw can give, seen through what the chain leaves.
std::set<Token> Survivors(const SamplerOptions& from, const std::vector<float>& logits,
                          const std::vector<Token>& history = {}) {
  SamplerOptions options = from;
  options.n_probs = static_cast<int>(logits.size());
  options.post_sampling_probs = true;
  Sampler sampler = Make(options, logits.size());
  for (const Token token : history) sampler.Accept(token);
  std::set<Token> left;
  const Choice choice = sampler.Sample(logits).value();
  for (const TokenLogprob& entry : choice.top) left.insert(entry.id);
  return left;
}

// Logits as the chain leaves them, less those of `reference`, by token.
std::vector<double> LogitsAfter(const SamplerOptions& from, const std::vector<float>& logits,
                                const std::vector<Token>& history, Token reference) {
  SamplerOptions options = from;
  options.n_probs = static_cast<int>(logits.size());
  options.post_sampling_probs = true;
  Sampler sampler = Make(options, logits.size());
  for (const Token token : history) sampler.Accept(token);
  std::vector<double> after(logits.size());
  const Choice choice = sampler.Sample(logits).value();
  for (const TokenLogprob& entry : choice.top) after[static_cast<size_t>(entry.id)] = entry.logprob;
  const double base =
      after[static_cast<size_t>(reference)] - static_cast<double>(logits[static_cast<size_t>(reference)]);
  for (double& value : after) value -= base;
  return after;
}

TEST(SamplerMath, ExpAndLogAgreeWithTheLibrary) {
  for (double x = -690; x < 690; x += 0.37) EXPECT_NEAR(Exp(x) / std::exp(x), 1, 2e-15) << x;
  for (double x = 1e-290; x < 1e290; x *= 1.7)
    EXPECT_NEAR(Log(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x)))) << x;
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Log(1), 0);
  EXPECT_LT(Exp(-std::numeric_limits<double>::infinity()), 1e-300);
  EXPECT_NEAR(Power(1.75, 3), 1.75 * 1.75 * 1.75, 1e-14);
}

TEST(SamplerMath, UniformNumbersAreFixedForever) {
  // Changing these changes every seeded text that users have kept.
  EXPECT_EQ(UniformAt(0, 1, 0), 0x1.1396e6040319ep-2);
  EXPECT_NE(UniformAt(0, 1, 0), UniformAt(0, 1, 1));
  EXPECT_NE(UniformAt(0, 1, 0), UniformAt(0, 2, 0));
  EXPECT_NE(UniformAt(0, 1, 0), UniformAt(1, 1, 0));
}

TEST(SamplerMath, UniformNumbersAreUniformAlongEveryAxis) {
  const std::function<double(uint64_t)> axes[] = {[](uint64_t i) { return UniformAt(i, 1, 0); },
                                                  [](uint64_t i) { return UniformAt(7, i, 0); },
                                                  [](uint64_t i) { return UniformAt(7, 1, i); }};
  for (const auto& axis : axes) {
    std::vector<int> bins(16);
    for (uint64_t i = 0; i < 16000; ++i) {
      const double u = axis(i);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      ++bins[static_cast<size_t>(u * 16)];
    }
    // 1000 expected in each, standard deviation 31.
    for (const int count : bins) EXPECT_NEAR(count, 1000, 155);
  }
}

TEST(Candidates, BestAreTheBestInRankOrderWithTiesByLowerId) {
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 7919) % 97);
  for (const size_t k : {size_t{1}, size_t{2}, size_t{40}, size_t{3000}, size_t{5000}, size_t{9999}}) {
    std::vector<Candidate> all;
    for (size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<Token>(i), logits[i]});
    std::sort(all.begin(), all.end(), RanksBefore);
    const std::vector<Candidate> best = BestOf(logits, k);
    ASSERT_EQ(best.size(), std::min(k, all.size()));
    for (size_t i = 0; i < best.size(); ++i) ASSERT_EQ(best[i].id, all[i].id) << k << " " << i;
  }
  EXPECT_THAT(BestOf(logits, 0), IsEmpty());
}

TEST(Candidates, FrontIsOrderedHoweverFarItIsRead) {
  for (const int stop : {0, 10, 255, 256, 300, 2047, 2048, 4999}) {
    std::vector<int> items(5000);
    for (size_t i = 0; i < items.size(); ++i) items[i] = static_cast<int>((i * 7919) % 5000);
    KeepFrontUntil(items, std::less<>(), [stop](int item) { return item == stop; });
    ASSERT_EQ(items.size(), static_cast<size_t>(stop) + 1);
    for (size_t i = 0; i < items.size(); ++i) ASSERT_EQ(items[i], static_cast<int>(i));
  }
}

TEST(SamplerOptions, DefaultsAreThoseOfLlamaServer) {
  const SamplerOptions o;
  EXPECT_EQ(o.temperature, 0.8);
  EXPECT_EQ(o.dynatemp_range, 0);
  EXPECT_EQ(o.dynatemp_exponent, 1);
  EXPECT_EQ(o.top_k, 40);
  EXPECT_EQ(o.top_p, 0.95);
  EXPECT_EQ(o.min_p, 0.05);
  EXPECT_EQ(o.typical_p, 1);
  EXPECT_EQ(o.top_n_sigma, -1);
  EXPECT_EQ(o.xtc_probability, 0);
  EXPECT_EQ(o.xtc_threshold, 0.1);
  EXPECT_EQ(o.repeat_last_n, 64);
  EXPECT_EQ(o.repeat_penalty, 1);
  EXPECT_EQ(o.presence_penalty, 0);
  EXPECT_EQ(o.frequency_penalty, 0);
  EXPECT_EQ(o.dry_multiplier, 0);
  EXPECT_EQ(o.dry_base, 1.75);
  EXPECT_EQ(o.dry_allowed_length, 2);
  EXPECT_EQ(o.dry_penalty_last_n, -1);
  EXPECT_EQ(o.mirostat, 0);
  EXPECT_EQ(o.mirostat_tau, 5);
  EXPECT_EQ(o.mirostat_eta, 0.1);
  std::vector<std::string_view> chain;
  for (const SamplerStage stage : o.chain) chain.push_back(Name(stage));
  EXPECT_THAT(chain,
              ElementsAre("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"));
  for (const SamplerStage stage : o.chain) EXPECT_EQ(ParseSamplerStage(Name(stage)), stage);
  EXPECT_EQ(ParseSamplerStage("nucleus"), std::nullopt);
}

TEST(SamplerOptions, BadValuesAreRefusedByFieldAndValue) {
  const struct {
    const char* field;
    const char* value;
    std::function<void(SamplerOptions&)> spoil;
  } cases[] = {
      {"temperature", "nan", [](auto& o) { o.temperature = std::nan(""); }},
      {"temperature", "inf", [](auto& o) { o.temperature = HUGE_VAL; }},
      {"dynatemp_range", "-1", [](auto& o) { o.dynatemp_range = -1; }},
      {"top_p", "-0.5", [](auto& o) { o.top_p = -0.5; }},
      {"min_p", "1.5", [](auto& o) { o.min_p = 1.5; }},
      {"typical_p", "nan", [](auto& o) { o.typical_p = std::nan(""); }},
      {"xtc_probability", "2", [](auto& o) { o.xtc_probability = 2; }},
      {"xtc_threshold", "-1", [](auto& o) { o.xtc_threshold = -1; }},
      {"repeat_last_n", "-2", [](auto& o) { o.repeat_last_n = -2; }},
      {"repeat_penalty", "0", [](auto& o) { o.repeat_penalty = 0; }},
      {"frequency_penalty", "nan", [](auto& o) { o.frequency_penalty = std::nan(""); }},
      {"dry_base", "0.5", [](auto& o) { o.dry_base = 0.5; }},
      {"mirostat", "3", [](auto& o) { o.mirostat = 3; }},
      {"n_probs", "-1", [](auto& o) { o.n_probs = -1; }},
      {"logit_bias", "token 10",
       [](auto& o) {
         o.logit_bias = {{10, 1.0}};
       }},
      {"logit_bias", "token -1",
       [](auto& o) {
         o.logit_bias = {{-1, 1.0}};
       }},
      {"logit_bias", "nan",
       [](auto& o) {
         o.logit_bias = {{3, std::nan("")}};
       }},
      {"dry_sequence_breakers", "token 99",
       [](auto& o) {
         o.dry_breakers = {{1, 99}};
       }},
  };
  for (const auto& c : cases) {
    SamplerOptions options;
    c.spoil(options);
    const Status status = options.Validate(10);
    ASSERT_FALSE(status.ok()) << c.field;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr(c.field), HasSubstr(c.value)));
    EXPECT_FALSE(Sampler::Create(options, 10).ok());
  }
  EXPECT_TRUE(SamplerOptions().Validate(10).ok());
}

TEST(Sampler, DrawsFollowTheModelsDistribution) {
  const std::vector<double> p = {0.5, 0.25, 0.15, 0.1};
  const auto shares = Frequencies(Make(Plain(), 4), LogitsOf(p));
  // Standard deviation of a share is at most 0.0036.
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(shares.at(static_cast<Token>(i)), p[i], 0.018);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = {1.0f, 0.0f};
  for (const double temperature : {0.5, 2.0}) {
    SamplerOptions options = Plain();
    options.temperature = temperature;
    const double expected = 1 / (1 + std::exp(-1 / temperature));
    EXPECT_NEAR(Frequencies(Make(options, 2), logits).at(0), expected, 0.018);
  }
}

TEST(Sampler, ZeroOrNegativeTemperatureIsGreedyWithTiesToTheLowerId) {
  for (const double temperature : {0.0, -1.0}) {
    SamplerOptions options;
    options.temperature = temperature;
    EXPECT_THAT(Frequencies(Make(options, 5), {0.5f, 3.0f, 1.0f, 3.0f, -2.0f}, 50),
                ElementsAre(Pair(1, ::testing::DoubleNear(1, 1e-9))));
  }
}

TEST(Sampler, EqualSeedsGiveEqualTextAndOthersDoNot) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 37) % 101) * 0.05f;
  const auto text = [&](uint64_t seed) {
    SamplerOptions options;
    options.seed = seed;
    Sampler sampler = Make(options, logits.size());
    std::vector<Token> ids;
    for (int i = 0; i < 32; ++i) ids.push_back(sampler.Sample(logits).value().id);
    return ids;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Sampler, CopiesGoOnAlike) {
  const std::vector<float> logits = LogitsOf({0.3, 0.3, 0.2, 0.2});
  SamplerOptions options;
  options.mirostat = 2;
  Sampler sampler = Make(options, logits.size());
  for (int i = 0; i < 5; ++i) sampler.Accept(sampler.Sample(logits).value().id);
  Sampler copy = sampler;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.Sample(logits).value().id, copy.Sample(logits).value().id);
}

TEST(Sampler, EachFilterLeavesExactlyItsTokens) {
  const std::vector<float> logits = LogitsOf({0.05, 0.4, 0.02, 0.3, 0.03, 0.2});
  const struct {
    const char* what;
    std::function<void(SamplerOptions&)> set;
    std::set<Token> left;
  } cases[] = {
      {"nothing", [](auto&) {}, {0, 1, 2, 3, 4, 5}},
      {"top_k 3", [](auto& o) { o.top_k = 3; }, {1, 3, 5}},
      {"top_k beyond", [](auto& o) { o.top_k = 100; }, {0, 1, 2, 3, 4, 5}},
      {"top_p takes the token that crosses", [](auto& o) { o.top_p = 0.65; }, {1, 3}},
      {"top_p 0 leaves one", [](auto& o) { o.top_p = 0; }, {1}},
      {"top_p min_keep", [](auto& o) { o.top_p = 0, o.min_keep = 3; }, {1, 3, 5}},
      {"top_k then top_p of what is left", [](auto& o) { o.top_k = 2, o.top_p = 0.55; }, {1}},
      {"min_p", [](auto& o) { o.min_p = 0.12; }, {0, 1, 3, 5}},
      {"min_p 1 leaves the best", [](auto& o) { o.min_p = 1; }, {1}},
      {"min_p min_keep", [](auto& o) { o.min_p = 1, o.min_keep = 4; }, {0, 1, 3, 5}},
      // Entropy 1.383 nats; surprises 3.00 0.92 3.91 1.20 3.51 1.61: nearest are 3 (0.18), 5 (0.23), 1 (0.47).
      {"typical", [](auto& o) { o.typical_p = 0.19; }, {3}},
      {"typical takes the token that crosses", [](auto& o) { o.typical_p = 0.45; }, {3, 5}},
      {"typical min_keep", [](auto& o) { o.typical_p = 0.19, o.min_keep = 3; }, {1, 3, 5}},
      // Logits' deviation is 1.20; the best is -0.92, then -1.20, -1.61, -3.00.
      {"top_n_sigma 0.5", [](auto& o) { o.top_n_sigma = 0.5; }, {1, 3}},
      {"top_n_sigma 1", [](auto& o) { o.top_n_sigma = 1; }, {1, 3, 5}},
      {"xtc keeps the least of the likely", [](auto& o) { o.xtc_probability = 1; }, {0, 2, 4, 5}},
      {"xtc with one likely token does nothing",
       [](auto& o) { o.xtc_probability = 1, o.xtc_threshold = 0.35; },
       {0, 1, 2, 3, 4, 5}},
      {"xtc threshold over one half is off",
       [](auto& o) { o.xtc_probability = 1, o.xtc_threshold = 0.6; },
       {0, 1, 2, 3, 4, 5}},
      {"xtc min_keep", [](auto& o) { o.xtc_probability = 1, o.min_keep = 5; }, {0, 1, 2, 3, 4, 5}},
      {"mirostat 2 cuts at mu = 2 tau bits", [](auto& o) { o.mirostat = 2, o.mirostat_tau = 1; }, {1, 3}},
      {"mirostat leaves the best at least", [](auto& o) { o.mirostat = 2, o.mirostat_tau = 0; }, {1}},
      {"mirostat skips the other filters", [](auto& o) { o.mirostat = 2, o.top_k = 1; }, {0, 1, 2, 3, 4, 5}},
      {"bias of -infinity bans",
       [](auto& o) {
         o.logit_bias = {{1, -HUGE_VAL}, {3, -HUGE_VAL}};
       },
       {0, 2, 4, 5}},
      {"ignore_eos bans end tokens",
       [](auto& o) {
         o.ignore_eos = true, o.end_tokens = {1, 5};
       },
       {0, 2, 3, 4}},
      {"end tokens alone ban nothing",
       [](auto& o) {
         o.end_tokens = {1, 5};
       },
       {0, 1, 2, 3, 4, 5}},
      {"a chain of one's own",
       [](auto& o) { o.top_k = 1, o.chain = {SamplerStage::kTemperature}; },
       {0, 1, 2, 3, 4, 5}},
  };
  for (const auto& c : cases) {
    SamplerOptions options = Plain();
    c.set(options);
    EXPECT_EQ(Survivors(options, logits), c.left) << c.what;
  }
}

TEST(Sampler, XtcActsWithItsProbability) {
  SamplerOptions options = Plain();
  options.xtc_probability = 0.4;
  options.xtc_threshold = 0.2;
  const auto shares = Frequencies(Make(options, 2), LogitsOf({0.7, 0.3}));
  EXPECT_NEAR(shares.at(0), 0.6 * 0.7, 0.018);
}

TEST(Sampler, PenaltiesFollowTheirFormula) {
  SamplerOptions options = Plain();
  options.repeat_penalty = 2;
  options.presence_penalty = 0.25;
  options.frequency_penalty = 0.125;
  options.repeat_last_n = 4;
  const std::vector<float> logits = {2.0f, -1.0f, 1.0f, 0.0f};
  // Token 2 has left the window of 4; token 0 is in it once, token 1 three times.
  const std::vector<double> after = LogitsAfter(options, logits, {2, 1, 0, 1, 1}, 3);
  EXPECT_NEAR(after[0], 2.0 / 2 - 0.125 - 0.25, 1e-6);
  EXPECT_NEAR(after[1], -1.0 * 2 - 3 * 0.125 - 0.25, 1e-6);
  EXPECT_NEAR(after[2], 1.0, 1e-6);

  options.repeat_last_n = -1;
  EXPECT_NEAR(LogitsAfter(options, logits, {2, 1, 0, 1, 1}, 3)[2], 1.0 / 2 - 0.125 - 0.25, 1e-6);
  options.repeat_last_n = 0;
  EXPECT_NEAR(LogitsAfter(options, logits, {2, 1, 0, 1, 1}, 3)[0], 2.0, 1e-6);
}

TEST(Sampler, PenaltiesAfterAFilterActOnWhatIsLeft) {
  SamplerOptions options = Plain();
  options.frequency_penalty = 10;
  options.top_k = 2;
  options.temperature = 0;
  options.chain = {SamplerStage::kTopK, SamplerStage::kPenalties, SamplerStage::kTemperature};
  EXPECT_THAT(Survivors(options, {3.0f, 2.0f, 1.0f}, {0}), ElementsAre(1));
}

TEST(Sampler, DryPenaltyGrowsWithTheRepetition) {
  SamplerOptions options = Plain();
  options.dry_multiplier = 0.5;
  const std::vector<float> logits(6, 0.0f);
  // 1 2 3 stood before 4 already; 3 alone before 5.
  const std::vector<double> after = LogitsAfter(options, logits, {1, 2, 3, 4, 3, 5, 1, 2, 3}, 0);
  EXPECT_NEAR(after[4], -0.5 * std::pow(1.75, 3 - 2), 1e-6);
  EXPECT_NEAR(after[5], 0, 1e-6);

  options.dry_penalty_last_n = 8;  // the first 1 is out of sight
  EXPECT_NEAR(LogitsAfter(options, logits, {1, 2, 3, 4, 3, 5, 1, 2, 3}, 0)[4], -0.5, 1e-6);
  options.dry_penalty_last_n = 0;
  EXPECT_NEAR(LogitsAfter(options, logits, {1, 2, 3, 4, 3, 5, 1, 2, 3}, 0)[4], 0, 1e-6);
}

// By definition: for every place, compare backwards.
std::unordered_map<Token, int> SlowRepetitions(const std::vector<Token>& h, int allowed) {
  std::unordered_map<Token, int> found;
  const int n = static_cast<int>(h.size());
  for (int next = 1; next < n; ++next) {
    int length = 0;
    while (length < next && h[static_cast<size_t>(next - 1 - length)] == h[static_cast<size_t>(n - 1 - length)])
      ++length;
    if (length >= allowed) {
      int& best = found[h[static_cast<size_t>(next)]];
      best = std::max(best, length);
    }
  }
  return found;
}

TEST(Dry, FindsWhatComparingEveryPlaceFinds) {
  uint64_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Token> history(1 + round % 40);
    for (Token& token : history) token = static_cast<Token>(UniformAt(3, ++state, 0) * (2 + round % 3));
    ASSERT_EQ(FindRepetitions(history, 1, {}), SlowRepetitions(history, 1)) << ::testing::PrintToString(history);
    ASSERT_EQ(FindRepetitions(history, 3, {}), SlowRepetitions(history, 3)) << ::testing::PrintToString(history);
  }
}

TEST(Dry, BreakersEndARepetitionAndAreNotPenalized) {
  const std::vector<Token> history = {1, 2, 9, 3, 4, 5, 1, 2, 9, 3, 4};
  EXPECT_THAT(FindRepetitions(history, 2, {}), UnorderedElementsAre(Pair(5, 5)));
  EXPECT_THAT(FindRepetitions(history, 2, {{9}}), UnorderedElementsAre(Pair(5, 2)));
  EXPECT_THAT(FindRepetitions(history, 2, {{2, 9}}), UnorderedElementsAre(Pair(5, 2)));
  EXPECT_THAT(FindRepetitions(history, 3, {{9}}), IsEmpty());
  EXPECT_THAT(FindRepetitions(history, 2, {{9, 9}}), UnorderedElementsAre(Pair(5, 5)));
  EXPECT_THAT(FindRepetitions(std::vector<Token>{1, 2, 9, 1, 2}, 2, {{9}}), IsEmpty());
}

TEST(Sampler, LogitBiasIsAdded) {
  SamplerOptions options = Plain();
  options.logit_bias = {{0, 1.5}, {0, 0.5}};
  EXPECT_NEAR(LogitsAfter(options, {0.0f, 0.0f}, {}, 1)[0], 2, 1e-6);
}

TEST(Sampler, DynamicTemperatureFollowsTheEntropy) {
  SamplerOptions options = Plain();
  options.temperature = 1;
  options.dynatemp_range = 0.5;
  // Uniform: full entropy, so the highest temperature; the ratio of equal logits shows nothing, so a third token is
  // biased a little.
  const std::vector<float> flat = {0.0f, 0.001f};
  const std::vector<double> hot = LogitsAfter(options, flat, {}, 0);
  EXPECT_NEAR(hot[1], 0.001 / 1.5, 1e-6);

  const std::vector<double> p = {0.9, 0.1};
  const double spread = -(0.9 * std::log(0.9) + 0.1 * std::log(0.1)) / std::log(2.0);
  options.dynatemp_exponent = 2;
  const double temperature = 0.5 + 1.0 * spread * spread;
  const std::vector<float> logits = {static_cast<float>(std::log(9.0)), 0.0f};
  EXPECT_NEAR(LogitsAfter(options, logits, {}, 1)[0], std::log(9.0) / temperature, 1e-5);
}

// Mean surprise in bits over a long text from a fixed Zipf-like distribution.
double MeanSurprise(int version, double tau) {
  std::vector<float> logits(2000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = -1.2f * std::log(static_cast<float>(i + 1));
  SamplerOptions options = Plain();
  options.mirostat = version;
  options.mirostat_tau = tau;
  options.n_probs = 1;
  options.post_sampling_probs = true;
  Sampler sampler = Make(options, logits.size());
  double sum = 0;
  const int burn_in = 500;
  const int count = 2000;
  for (int i = 0; i < burn_in + count; ++i) {
    const Choice choice = sampler.Sample(logits).value();
    sampler.Accept(choice.id);
    if (i >= burn_in) sum -= choice.logprob / std::log(2.0);
  }
  return sum / count;
}

TEST(Sampler, MirostatHoldsTheSurprise) {
  for (const int version : {1, 2}) {
    for (const double tau : {2.0, 4.0}) EXPECT_NEAR(MeanSurprise(version, tau), tau, 0.15) << version << " " << tau;
  }
}

TEST(Sampler, ReportsTheModelsOwnDistribution) {
  SamplerOptions options;
  options.temperature = 0;
  options.logit_bias = {{2, 100}};
  options.n_probs = 2;
  const Choice choice = Make(options, 3).Sample(LogitsOf({0.2, 0.5, 0.3})).value();
  EXPECT_EQ(choice.id, 2);
  EXPECT_NEAR(choice.logprob, std::log(0.3), 1e-6);
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_EQ(choice.top[0].id, 1);
  EXPECT_NEAR(choice.top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(choice.top[1].id, 2);
}

TEST(Sampler, ReportsWhatTheDrawWasMadeFrom) {
  SamplerOptions options = Plain();
  options.top_k = 2;
  options.n_probs = 5;
  options.post_sampling_probs = true;
  const Choice choice = Make(options, 3).Sample(LogitsOf({0.2, 0.5, 0.3})).value();
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_NEAR(choice.top[0].logprob, std::log(0.625), 1e-6);
  EXPECT_NEAR(choice.top[1].logprob, std::log(0.375), 1e-6);
  EXPECT_EQ(choice.logprob, choice.top[choice.id == 1 ? 0 : 1].logprob);
}

TEST(Sampler, OddLogitsHaveDefinedOutcomes) {
  SamplerOptions greedy;
  greedy.temperature = 0;
  greedy.n_probs = 3;
  const auto pick = [&](const std::vector<float>& logits) {
    return Make(greedy, logits.size()).Sample(logits).value().id;
  };
  EXPECT_EQ(pick({kNan, 1.0f, kNan}), 1);
  EXPECT_EQ(pick({-kInf, -1e30f, -kInf}), 1);
  EXPECT_EQ(pick({3e38f, kInf, 1.0f}), 1);
  EXPECT_EQ(pick({kInf, kInf, 1.0f}), 0);
  EXPECT_THAT(Survivors(Plain(), {kNan, 1.0f, -kInf, 2.0f}), ElementsAre(1, 3));

  for (const std::vector<float>& none : {std::vector<float>{kNan, kNan}, {-kInf, -kInf}, {-kInf, kNan}}) {
    const auto result = Make(SamplerOptions(), none.size()).Sample(none);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), ErrorCode::kCorrupt);
  }
  SamplerOptions banned;
  banned.logit_bias = {{0, -HUGE_VAL}};
  EXPECT_FALSE(Make(banned, 1).Sample(std::vector<float>{1.0f}).ok());
}

TEST(Sampler, EveryFilterSurvivesOddLogits) {
  SamplerOptions options;
  options.top_n_sigma = 1;
  options.typical_p = 0.5;
  options.xtc_probability = 1;
  options.dynatemp_range = 0.5;
  options.repeat_penalty = 1e6;
  options.dry_multiplier = 1e300;
  for (const int mirostat : {0, 1, 2}) {
    options.mirostat = mirostat;
    for (const std::vector<float>& logits : {std::vector<float>{1.0f},
                                             {kInf, -kInf, kNan},
                                             {3e38f, -3e38f, 0.0f},
                                             {0.0f, 0.0f, 0.0f},
                                             {kInf, kInf},
                                             {-3e38f, -3e38f}}) {
      Sampler sampler = Make(options, logits.size());
      for (int i = 0; i < 8; ++i) {
        const auto choice = sampler.Sample(logits);
        ASSERT_TRUE(choice.ok());
        ASSERT_LT(static_cast<size_t>(choice->id), logits.size());
        sampler.Accept(choice->id);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::model
