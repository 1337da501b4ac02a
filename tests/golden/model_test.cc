// Whole models against the facts of an independent engine (tests/data/golden/README.md): logits of its full-precision
// run, greedy choices where its margin is clear, the divergence of fast kernels, and perplexity.
//
// KVASIR_MODELS names the folder of the model files, KVASIR_GOLDEN the folder of facts; a model without facts, or facts
// without a model, is said and skipped.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/engine.h"

namespace kvasir::engine {
namespace {

using nlohmann::json;

std::filesystem::path GoldenFolder() {
  const char* named = std::getenv("KVASIR_GOLDEN");
  return named != nullptr && *named != 0 ? named : std::filesystem::path(KVASIR_SOURCE_DIR) / "tests/data/golden";
}

std::string ModelPath(const std::string& name) {
  const char* models = std::getenv("KVASIR_MODELS");
  return models == nullptr ? "" : (std::filesystem::path(models) / (name + ".gguf")).string();
}

// Names with facts, each tested where its file is there.
std::vector<std::string> Models() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder(), ignored)) {
    const bool has_facts = std::filesystem::exists(entry.path() / "logits_f32.json");
    if (has_facts) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

json Facts(const std::string& model, const std::string& kind) {
  std::ifstream file(GoldenFolder() / model / (kind + ".json"));
  return json::parse(file);
}

class GoldenModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(ModelPath(GetParam()))) {
      GTEST_SKIP() << "skipped: " << GetParam() << ".gguf is not in KVASIR_MODELS";
    }
  }

  static std::unique_ptr<Engine> LoadEngine(backend::Compute compute, backend::KvType kv) {
    auto engine = Engine::Load({.model_path = ModelPath(GetParam()),
                                .context = 4096,
                                .cpu = {.compute = compute},
                                .type_k = kv,
                                .type_v = kv});
    if (!engine.ok()) {
      ADD_FAILURE() << engine.error().message();
      return nullptr;
    }
    return std::move(engine).value();
  }

  // Logits of every position of `ids` (or of the last), [rows, n_vocab].
  static std::vector<float> Logits(Engine& engine, std::span<const kv::Token> ids, model::LogitsOf which) {
    const kv::SequenceId sequence = engine.cache().Open();
    std::vector<float> all;
    for (size_t done = 0; done < ids.size();) {
      const size_t rows = std::min(ids.size() - done, static_cast<size_t>(engine.ubatch()));
      const bool last = done + rows == ids.size();
      const model::BatchItem item{
          .sequence = sequence,
          .first_position = static_cast<int>(done),
          .tokens = ids.subspan(done, rows),
          .logits = which == model::LogitsOf::kAllRows || last ? which : model::LogitsOf::kNone};
      const auto logits = engine.Step({&item, 1});
      EXPECT_TRUE(logits.ok()) << logits.error().message();
      if (!logits.ok()) break;
      all.insert(all.end(), logits->begin(), logits->end());
      done += rows;
    }
    engine.cache().Close(sequence);
    return all;
  }

  // Checks our choice at each step of the fact's greedy run, given the fact's own tokens, where its margin is at least
  // `margin`.
  static void ExpectGreedy(Engine& engine, const json& prompt, double margin) {
    std::vector<kv::Token> ids = prompt["ids"];
    const std::vector<kv::Token> greedy = prompt["greedy"];
    const std::vector<double> margins = prompt["margin"];
    const size_t first = ids.size() - 1;
    ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
    const std::vector<float> logits = Logits(engine, ids, model::LogitsOf::kAllRows);
    const auto vocabulary = static_cast<size_t>(engine.config().n_vocab);
    ASSERT_EQ(logits.size(), ids.size() * vocabulary);
    for (size_t i = 0; i < greedy.size(); ++i) {
      if (margins[i] < margin) continue;
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>((first + i) * vocabulary);
      const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(vocabulary)) - row;
      EXPECT_EQ(best, greedy[i]) << prompt["id"] << ": greedy token " << i << " of margin " << margins[i];
    }
  }
};

double LogSumExp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(l - max);
  return max + std::log(sum);
}

double KlDivergence(std::span<const float> truth, std::span<const float> other) {
  const double truth_lse = LogSumExp(truth), other_lse = LogSumExp(other);
  double kl = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double log_p = truth[i] - truth_lse;
    kl += std::exp(log_p) * (log_p - (other[i] - other_lse));
  }
  return kl;
}

TEST_P(GoldenModel, FullPrecisionAgreesWithTheTruth) {
  const json facts = Facts(GetParam(), "logits_f32");
  const auto engine = LoadEngine(backend::Compute::kF32, backend::KvType::kF32);
  ASSERT_NE(engine, nullptr);
  // The truth of Gemma moves by 0.013 itself between one batch and token by token.
  const double tolerance = engine->config().architecture == "gemma3" ? 2e-2 : 2e-3;
  double worst = 0;
  for (const json& prompt : facts["prompts"]) {
    const std::vector<kv::Token> ids = prompt["ids"];
    const std::vector<float> logits = Logits(*engine, ids, model::LogitsOf::kLastRow);
    for (const json& top : prompt["top20"]) {
      const double difference = std::abs(logits[top[0].get<size_t>()] - top[1].get<double>());
      worst = std::max(worst, difference);
      EXPECT_LE(difference, tolerance) << prompt["id"] << ": logit of token " << top[0];
    }
    EXPECT_NEAR(LogSumExp(logits), prompt["lse"].get<double>(), tolerance) << prompt["id"];
    ExpectGreedy(*engine, prompt, 0.02);
  }
  std::printf("%s: largest difference of a top-20 logit %.2g (allowed %.2g)\n", GetParam().c_str(), worst, tolerance);
}

TEST_P(GoldenModel, FastKernelsStayAsCloseToTheTruthAsThePeer) {
  const json facts = Facts(GetParam(), "logits_f32");
  std::vector<std::vector<float>> truth;
  {
    const auto engine = LoadEngine(backend::Compute::kF32, backend::KvType::kF32);
    ASSERT_NE(engine, nullptr);
    for (const json& prompt : facts["prompts"]) {
      truth.push_back(Logits(*engine, prompt["ids"].get<std::vector<kv::Token>>(), model::LogitsOf::kLastRow));
    }
  }
  const auto engine = LoadEngine(backend::Compute::kFast, backend::KvType::kF16);
  ASSERT_NE(engine, nullptr);
  double own = 0, peer = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const json& prompt = facts["prompts"][i];
    const double peer_kl = prompt["peer_vs_f32"]["kl"];
    const double kl =
        KlDivergence(truth[i], Logits(*engine, prompt["ids"].get<std::vector<kv::Token>>(), model::LogitsOf::kLastRow));
    std::printf("%s %-24s KL %.6f, peer %.6f%s\n", GetParam().c_str(), prompt["id"].get<std::string>().c_str(), kl,
                peer_kl, peer_kl > 0.1 ? " (left out)" : "");
    if (peer_kl > 0.1) continue;
    own += kl;
    peer += peer_kl;
    ExpectGreedy(*engine, prompt, 1);
  }
  EXPECT_LE(own, 1.1 * peer) << "sum of KL over the prompts";
}

TEST_P(GoldenModel, PerplexityIsThePeers) {
  const json facts = Facts(GetParam(), "ppl");
  std::ifstream file(GoldenFolder() / facts["text"].get<std::string>(), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const auto& [kv, pair] :
       {std::pair{backend::KvType::kF16, "f16/f16"}, std::pair{backend::KvType::kQ8_0, "q8_0/q8_0"}}) {
    const auto engine = LoadEngine(backend::Compute::kFast, kv);
    ASSERT_NE(engine, nullptr);
    const std::vector<kv::Token> ids = engine->tokenizer().Encode(text, {.add_special = true});
    ASSERT_EQ(ids.size(), facts["n_tokens"].get<size_t>());
    const auto window = facts["window"].get<size_t>();
    const auto first = facts["first_scored_position"].get<size_t>();
    const std::vector<double> per_window = facts["kv"][pair]["per_window"];
    // Large models: some windows show a fault as well as all of them.
    const bool whole = std::filesystem::file_size(ModelPath(GetParam())) < (size_t{300} << 20) ||
                       std::getenv("KVASIR_GOLDEN_WHOLE") != nullptr;
    const size_t windows = whole ? per_window.size() : std::min<size_t>(6, per_window.size());
    double own = 0, peer = 0;
    for (size_t w = 0; w < windows; ++w) {
      std::vector<kv::Token> part(ids.begin() + static_cast<std::ptrdiff_t>(w * window),
                                  ids.begin() + static_cast<std::ptrdiff_t>((w + 1) * window));
      if (engine->tokenizer().adds_bos()) part[0] = engine->tokenizer().special().bos;
      const std::vector<float> logits = Logits(*engine, part, model::LogitsOf::kAllRows);
      const auto vocabulary = static_cast<size_t>(engine->config().n_vocab);
      double nll = 0;
      for (size_t position = first; position < window; ++position) {
        const auto row = std::span(logits).subspan((position - 1) * vocabulary, vocabulary);
        nll += LogSumExp(row) - row[static_cast<size_t>(part[position])];
      }
      own += nll / static_cast<double>(window - first);
      peer += per_window[w];
    }
    const double ratio = std::exp((own - peer) / static_cast<double>(windows));
    std::printf("%s %s: perplexity %.4f times the peer's over %zu of %zu windows\n", GetParam().c_str(), pair, ratio,
                windows, per_window.size());
    if (kv == backend::KvType::kQ8_0 && engine->file().FindTensor("blk.0.attn_k.bias") != nullptr) {
      // The peer rotates quantized keys; ours are not rotated yet, and large key biases (Qwen2) then cost accuracy.
      std::printf("not judged: q8_0 keys of a model with key biases, before rotation is built\n");
      continue;
    }
    EXPECT_NEAR(ratio, 1, whole ? 0.005 : 0.01) << pair;
  }
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(Models()), TestName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenModel);

}  // namespace
}  // namespace kvasir::engine
