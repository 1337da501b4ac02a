#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/sampler_dry.h"
#include "model/sampler_math.h"

namespace kvasir::model {
namespace {

// Streams of random numbers, one for each thing that draws.
constexpr uint64_t kDrawStream = 0;
constexpr uint64_t kXtcStream = 1;

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr size_t kMirostatTokens = 100;  // whose slope estimates the distribution's exponent

// Keeps results of arithmetic on logits inside float; -infinity stays, for it means "out".
float ToLogit(double value) {
  if (value == -std::numeric_limits<double>::infinity()) return static_cast<float>(value);
  constexpr double kMax = static_cast<double>(std::numeric_limits<float>::max());
  return static_cast<float>(std::clamp(value, -kMax, kMax));
}

// In nats. What is too unlikely for a normal double is as good as impossible.
double Surprise(double p) {
  return -Log(std::max(p, 1e-300));
}

double Entropy(const std::vector<double>& probabilities) {
  double entropy = 0;
  for (const double p : probabilities) entropy += p * Surprise(p);
  return entropy;
}

double LogSumExp(std::span<const float> logits, double max) {
  // Four sums, so that the compiler may use vectors and the order of additions is still written down.
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += Exp(static_cast<double>(SaneLogit(logits[i + lane])) - max);
  }
  for (; i < logits.size(); ++i) sums[0] += Exp(static_cast<double>(SaneLogit(logits[i])) - max);
  return max + Log((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The choice by the model's own distribution.
Choice Describe(std::span<const float> logits, Token id, size_t n_probs) {
  const std::vector<Candidate> best = BestOf(logits, n_probs);
  const double norm = LogSumExp(logits, static_cast<double>(best.front().logit));
  const auto chosen = static_cast<double>(SaneLogit(logits[static_cast<size_t>(id)]));
  Choice choice{.id = id, .logprob = chosen - norm, .top = {}};
  for (const Candidate& item : best) choice.top.push_back({item.id, static_cast<double>(item.logit) - norm});
  return choice;
}

// The choice by what the chain left.
Choice DescribeLeft(Candidates& candidates, Token id, size_t n_probs) {
  const double max = static_cast<double>(candidates.MaxLogit());
  double total = 0;
  for (const Candidate& item : candidates.List()) total += Exp(static_cast<double>(item.logit) - max);
  const double norm = max + Log(total);
  Choice choice{.id = id, .logprob = 0, .top = {}};
  for (const Candidate& item : candidates.List()) {
    if (item.id == id) choice.logprob = static_cast<double>(item.logit) - norm;
  }
  for (const Candidate& item : candidates.Best(n_probs))
    choice.top.push_back({item.id, static_cast<double>(item.logit) - norm});
  return choice;
}

}  // namespace

Result<Sampler> Sampler::Create(SamplerOptions options, int vocabulary) {
  KVASIR_RETURN_IF_ERROR(options.Validate(vocabulary));
  return Sampler(std::move(options), vocabulary);
}

Sampler::Sampler(SamplerOptions options, int vocabulary)
    : options_(std::move(options)), vocabulary_(vocabulary), mirostat_mu_(2 * options_.mirostat_tau) {
  for (const auto& [token, bias] : options_.logit_bias) bias_[token] += bias;
  if (options_.ignore_eos) {
    for (const Token token : options_.end_tokens) bias_[token] = -std::numeric_limits<double>::infinity();
  }
}

void Sampler::Accept(Token token) {
  history_.push_back(token);
  if (options_.repeat_last_n == 0) return;
  ++counts_[token];
  const auto window = static_cast<size_t>(options_.repeat_last_n);
  if (options_.repeat_last_n > 0 && history_.size() > window) {
    const auto leaving = counts_.find(history_[history_.size() - 1 - window]);
    if (--leaving->second == 0) counts_.erase(leaving);
  }
}

Result<Choice> Sampler::Sample(std::span<const float> logits) {
  KVASIR_CHECK(logits.size() == static_cast<size_t>(vocabulary_), "{} logits for a vocabulary of {}", logits.size(),
               vocabulary_);
  ++drawn_;
  candidates_.Load(logits);
  candidates_.Apply(bias_, [](float logit, double bias) { return ToLogit(static_cast<double>(logit) + bias); });
  if (candidates_.empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "no token can be chosen: all {} logits are NaN, -infinity or banned by logit_bias", vocabulary_);
  }

  if (options_.mirostat == 0) {
    for (const SamplerStage stage : options_.chain) RunStage(stage);
  } else {
    RunStage(SamplerStage::kTemperature);
  }
  const size_t index = options_.mirostat == 0 ? Draw() : DrawMirostat();
  const Token id = candidates_.List()[index].id;

  const auto n_probs = static_cast<size_t>(options_.n_probs);
  if (n_probs == 0) return Choice{.id = id, .logprob = 0, .top = {}};
  return options_.post_sampling_probs ? DescribeLeft(candidates_, id, n_probs) : Describe(logits, id, n_probs);
}

void Sampler::RunStage(SamplerStage stage) {
  switch (stage) {
    case SamplerStage::kPenalties:
      return Penalize();
    case SamplerStage::kDry:
      return PenalizeRepetitions();
    case SamplerStage::kTopNSigma:
      return KeepWithinSigmas();
    case SamplerStage::kTopK:
      if (options_.top_k > 0) candidates_.KeepBest(static_cast<size_t>(options_.top_k));
      return;
    case SamplerStage::kTypicalP:
      return KeepTypical();
    case SamplerStage::kTopP:
      return KeepTopP();
    case SamplerStage::kMinP:
      if (options_.min_p > 0) {
        // p >= min_p * p_max, in logarithms.
        candidates_.KeepFrom(static_cast<double>(candidates_.MaxLogit()) + Log(std::max(options_.min_p, 1e-300)),
                             static_cast<size_t>(options_.min_keep));
      }
      return;
    case SamplerStage::kXtc:
      return ExcludeTopChoices();
    case SamplerStage::kTemperature:
      return ApplyTemperature();
  }
}

void Sampler::Penalize() {
  const SamplerOptions& o = options_;
  if (o.repeat_penalty == 1 && o.presence_penalty == 0 && o.frequency_penalty == 0) return;
  candidates_.Apply(counts_, [&o](float logit, int count) {
    const auto value = static_cast<double>(logit);
    // Dividing a negative logit would make the token likelier.
    const double repeated = value <= 0 ? value * o.repeat_penalty : value / o.repeat_penalty;
    return ToLogit(repeated - count * o.frequency_penalty - o.presence_penalty);
  });
}

void Sampler::PenalizeRepetitions() {
  const SamplerOptions& o = options_;
  if (o.dry_multiplier == 0 || o.dry_penalty_last_n == 0) return;
  const auto repetitions = FindRepetitions(Last(o.dry_penalty_last_n), o.dry_allowed_length, o.dry_breakers);
  candidates_.Apply(repetitions, [&o](float logit, int length) {
    return ToLogit(static_cast<double>(logit) - o.dry_multiplier * Power(o.dry_base, length - o.dry_allowed_length));
  });
}

void Sampler::KeepWithinSigmas() {
  if (options_.top_n_sigma <= 0) return;
  const double deviation = candidates_.MeanAndDeviation().second;
  candidates_.KeepFrom(static_cast<double>(candidates_.MaxLogit()) - options_.top_n_sigma * deviation, 1);
}

void Sampler::KeepTypical() {
  if (options_.typical_p >= 1) return;
  const std::vector<double> p = candidates_.Probabilities();
  const double entropy = Entropy(p);
  std::vector<Candidate>& items = candidates_.List();

  struct Scored {
    double distance;  // of the token's surprise from the expected one
    double p;
    Candidate item;
  };
  std::vector<Scored> scored(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    scored[i] = {std::abs(Surprise(p[i]) - entropy), p[i], items[i]};
  }
  double sum = 0;
  size_t kept = 0;
  KeepFrontUntil(
      scored,
      [](const Scored& a, const Scored& b) {
        return a.distance != b.distance ? a.distance < b.distance : RanksBefore(a.item, b.item);
      },
      [&](const Scored& s) {
        sum += s.p;
        return ++kept >= static_cast<size_t>(options_.min_keep) && sum > options_.typical_p;
      });
  items.clear();
  for (const Scored& s : scored) items.push_back(s.item);
}

void Sampler::KeepTopP() {
  if (options_.top_p >= 1) return;
  std::vector<Candidate>& items = candidates_.List();
  const double max = static_cast<double>(candidates_.MaxLogit());
  double total = 0;
  for (const Candidate& item : items) total += Exp(static_cast<double>(item.logit) - max);
  double sum = 0;
  size_t kept = 0;
  KeepFrontUntil(items, RanksBefore, [&](const Candidate& item) {
    sum += Exp(static_cast<double>(item.logit) - max);
    return ++kept >= static_cast<size_t>(options_.min_keep) && sum >= options_.top_p * total;
  });
}

// XTC, "exclude top choices" (p-e-w, first in github.com/oobabooga/text-generation-webui): now and then drops
// all tokens above a threshold but the least likely of them.
void Sampler::ExcludeTopChoices() {
  if (options_.xtc_probability <= 0 || options_.xtc_threshold > 0.5) return;
  if (Uniform(kXtcStream) >= options_.xtc_probability) return;
  const std::vector<double> p = candidates_.Probabilities();
  std::vector<Candidate>& items = candidates_.List();
  std::vector<Candidate> likely;
  for (size_t i = 0; i < items.size(); ++i) {
    if (p[i] >= options_.xtc_threshold) likely.push_back(items[i]);
  }
  if (likely.size() < 2 || items.size() - (likely.size() - 1) < static_cast<size_t>(options_.min_keep)) return;
  const Candidate last = *std::max_element(likely.begin(), likely.end(), RanksBefore);
  std::erase_if(items, [&](const Candidate& item) { return RanksBefore(item, last); });
}

void Sampler::ApplyTemperature() {
  double temperature = options_.temperature;
  if (options_.dynatemp_range > 0) {
    const std::vector<double> p = candidates_.Probabilities();
    if (p.size() <= 1) return;
    const double low = std::max(0.0, temperature - options_.dynatemp_range);
    const double high = temperature + options_.dynatemp_range;
    const double spread = Entropy(p) / Log(static_cast<double>(p.size()));
    temperature = low + (high - low) * Power(std::max(spread, 1e-300), options_.dynatemp_exponent);
  }
  if (temperature <= 0) {
    candidates_.KeepBest(1);
  } else if (temperature != 1) {
    for (Candidate& item : candidates_.List()) item.logit = ToLogit(static_cast<double>(item.logit) / temperature);
  }
}

size_t Sampler::Draw() {
  const std::vector<double> p = candidates_.Probabilities();
  const double target = Uniform(kDrawStream);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sum += p[i];
    if (target < sum) return i;
  }
  // Rounding can leave the sum a hair below 1: then the last token that has any probability.
  size_t last = p.size() - 1;
  while (last > 0 && p[last] == 0) --last;
  return last;
}

// Mirostat (Basu et al., ICLR 2021, arXiv:2007.14966): holds the surprise of the text near tau bits by moving mu, the
// largest surprise a token may have. Version 1 turns mu into a top-k through an estimate of the distribution's Zipf
// exponent, version 2 cuts at mu directly.
size_t Sampler::DrawMirostat() {
  std::vector<Candidate>& items = candidates_.List();
  if (options_.mirostat == 1) {
    const std::vector<Candidate> best = candidates_.Best(kMirostatTokens);
    double numerator = 0;
    double denominator = 0;
    for (size_t i = 0; i + 1 < best.size(); ++i) {
      const double t = Log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
      numerator += t * (static_cast<double>(best[i].logit) - static_cast<double>(best[i + 1].logit));
      denominator += t * t;
    }
    const double s = denominator > 0 ? numerator / denominator : 0;
    double k = static_cast<double>(items.size());
    // For s <= 0 the best tokens are equally likely, and at s = 1 the formula has no value: nothing to cut by.
    if (s > 0 && s != 1) {
      const double epsilon = s - 1;
      k = Power(epsilon * Power(2, mirostat_mu_) / (1 - Power(vocabulary_, -epsilon)), 1 / s);
    }
    candidates_.KeepBest(static_cast<size_t>(std::clamp(k, 1.0, static_cast<double>(items.size()))));
  } else {
    const std::vector<double> p = candidates_.Probabilities();
    const double least = Power(2, -mirostat_mu_);
    const double best = *std::max_element(p.begin(), p.end());
    size_t kept = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] >= std::min(least, best)) items[kept++] = items[i];
    }
    items.resize(kept);
  }
  const size_t index = Draw();
  const double surprise = Surprise(candidates_.Probabilities()[index]) / kLn2;
  mirostat_mu_ -= options_.mirostat_eta * (surprise - options_.mirostat_tau);
  return index;
}

double Sampler::Uniform(uint64_t stream) const {
  return UniformAt(options_.seed, drawn_, stream);
}

std::span<const Token> Sampler::Last(int count) const {
  const std::span<const Token> all(history_);
  return count < 0 || static_cast<size_t>(count) >= all.size() ? all : all.last(static_cast<size_t>(count));
}

}  // namespace kvasir::model
