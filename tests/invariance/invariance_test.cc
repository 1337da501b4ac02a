// The promise of docs/numerics.md, checked by comparing bits: the logits of a position depend on the tokens before it
// and on nothing else. Each test evaluates the same >= 600 tokens in another way and compares a hash of every row of
// logits with the plain run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "base/hash.h"
#include "engine/engine.h"

namespace kvasir::engine {
namespace {

using model::BatchItem;
using model::LogitsOf;

constexpr int kTokens = 640;  // spans at 0, 256 and 512

struct Case {
  std::string model;
  std::string level;
  backend::KvType kv;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name = std::filesystem::path(info.param.model).stem().string() + "_" + info.param.level + "_" +
                     std::string(Name(info.param.kv));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::vector<std::string> GgufFiles(const char* variable) {
  std::vector<std::string> files;
  const char* folder = std::getenv(variable);
  std::error_code ignored;
  if (folder == nullptr || !std::filesystem::is_directory(folder, ignored)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::vector<std::string> levels = backend::AvailableCpuLevels();
  for (const std::string& model : GgufFiles("KVASIR_TINY_MODELS")) {
    for (const std::string& level : levels) {
      // Every family at `ref`; the other levels share the forward pass, so one KV type each is enough there.
      cases.push_back({model, level, backend::KvType::kF16});
      if (level == "ref") cases.push_back({model, level, backend::KvType::kQ8_0});
    }
  }
  // A larger model adds a quarter of an hour and no new code path: it runs only where KVASIR_INVARIANCE_LARGE is set.
  const char* large = std::getenv("KVASIR_INVARIANCE_LARGE");
  for (const std::string& model : GgufFiles("KVASIR_MODELS")) {
    if (std::filesystem::file_size(model) > (size_t{150} << 20) && large == nullptr) {
      std::printf("left out: %s (KVASIR_INVARIANCE_LARGE=1 includes it)\n", model.c_str());
      continue;
    }
    for (const std::string& level : levels) {
      if (level == "ref") continue;
      for (const backend::KvType kv : {backend::KvType::kF16, backend::KvType::kQ8_0})
        cases.push_back({model, level, kv});
    }
  }
  return cases;
}

class Invariance : public testing::TestWithParam<Case> {
 protected:
  EngineOptions Options(int threads) const {
    return {.model_path = GetParam().model,
            .context = 2048,
            .ubatch = 1024,
            .cpu = {.level = GetParam().level, .threads = threads},
            .type_k = GetParam().kv,
            .type_v = GetParam().kv};
  }

  std::unique_ptr<Engine> LoadEngine(const EngineOptions& options) {
    auto engine = Engine::Load(options);
    if (!engine.ok()) {
      ADD_FAILURE() << engine.error().message();
      return nullptr;
    }
    return std::move(engine).value();
  }

  // The engine of the case, loaded when the case changes, and its plain run, evaluated once.
  void SetUp() override {
    const std::string name = CaseName(testing::TestParamInfo<Case>(GetParam(), 0));
    if (loaded_ != name) {
      loaded_.clear();
      engine_.reset();
      engine_ = LoadEngine(Options(1));
      ASSERT_NE(engine_, nullptr);
      loaded_ = name;
      std::mt19937 random(20260);
      const auto vocabulary = static_cast<uint32_t>(engine_->tokenizer().vocab_size());
      tokens_.clear();
      for (int i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<kv::Token>(random() % vocabulary));
    }
    const auto [plain, fresh] = plain_runs_.try_emplace(name);
    if (fresh) plain->second = RunChunks(*engine_, kTokens);
    plain_ = plain->second;
    ASSERT_EQ(plain_.size(), static_cast<size_t>(kTokens));
  }

  static void TearDownTestSuite() { engine_.reset(); }

  static uint64_t RowHash(const Engine& engine, std::span<const float> logits, size_t row) {
    const auto vocabulary = static_cast<size_t>(engine.config().n_vocab);
    return Checksum(std::as_bytes(logits.subspan(row * vocabulary, vocabulary)));
  }

  // Evaluates one item and appends the hashes of its rows.
  static void Append(Engine& engine, kv::SequenceId sequence, std::span<const kv::Token> tokens,
                     std::vector<uint64_t>& hashes) {
    const BatchItem item{.sequence = sequence,
                         .first_position = engine.cache().length(sequence),
                         .tokens = tokens,
                         .logits = LogitsOf::kAllRows};
    const auto logits = engine.Step({&item, 1});
    ASSERT_TRUE(logits.ok()) << logits.error().message();
    for (size_t row = 0; row < tokens.size(); ++row) hashes.push_back(RowHash(engine, *logits, row));
  }

  // Hashes of all rows of the sequence evaluated in chunks of `chunk` tokens.
  static std::vector<uint64_t> RunChunks(Engine& engine, int chunk) {
    const kv::SequenceId sequence = engine.cache().Open();
    std::vector<uint64_t> hashes;
    for (size_t done = 0; done < tokens_.size(); done += static_cast<size_t>(chunk)) {
      const size_t rows = std::min(tokens_.size() - done, static_cast<size_t>(chunk));
      Append(engine, sequence, std::span(tokens_).subspan(done, rows), hashes);
    }
    engine.cache().Close(sequence);
    engine.cache().CheckInvariants();
    return hashes;
  }

  void ExpectPlain(const std::vector<uint64_t>& hashes, const std::string& how) const {
    ASSERT_EQ(hashes.size(), plain_.size());
    for (size_t row = 0; row < hashes.size(); ++row) {
      ASSERT_EQ(hashes[row], plain_[row]) << how << ": first difference at position " << row;
    }
  }

  static inline std::string loaded_;
  static inline std::unique_ptr<Engine> engine_;
  static inline std::vector<kv::Token> tokens_;
  static inline std::map<std::string, std::vector<uint64_t>> plain_runs_;
  std::span<const uint64_t> plain_;
};

TEST_P(Invariance, TokenByTokenEqualsOneChunk) {
  ExpectPlain(RunChunks(*engine_, 1), "one token a step");
}

TEST_P(Invariance, ChunkSizesDoNotMatter) {
  for (const int chunk : {7, 64, 512}) ExpectPlain(RunChunks(*engine_, chunk), fmt::format("chunks of {}", chunk));
}

TEST_P(Invariance, OtherSequencesInTheBatchDoNotMatter) {
  for (const int others : {1, 3, 7}) {
    std::mt19937 random(static_cast<uint32_t>(others));
    const auto vocabulary = static_cast<uint32_t>(engine_->tokenizer().vocab_size());
    std::vector<kv::SequenceId> sequences;
    for (int i = 0; i <= others; ++i) sequences.push_back(engine_->cache().Open());
    const kv::SequenceId own =
        sequences[static_cast<size_t>(others) / 2];  // neither first nor last, where there is a middle
    std::vector<uint64_t> hashes;
    for (size_t done = 0; done < tokens_.size();) {
      const size_t own_rows = std::min<size_t>(tokens_.size() - done, 1 + random() % 90);
      std::vector<std::vector<kv::Token>> noise(sequences.size());
      std::vector<BatchItem> items;
      size_t row = 0, own_row = 0;
      for (size_t s = 0; s < sequences.size(); ++s) {
        BatchItem item{.sequence = sequences[s],
                       .first_position = engine_->cache().length(sequences[s]),
                       .logits = LogitsOf::kAllRows};
        if (sequences[s] == own) {
          item.tokens = std::span(tokens_).subspan(done, own_rows);
          own_row = row;
        } else {
          noise[s].resize(1 + random() % 40);
          for (kv::Token& token : noise[s]) token = static_cast<kv::Token>(random() % vocabulary);
          item.tokens = noise[s];
        }
        row += item.tokens.size();
        items.push_back(item);
      }
      const auto logits = engine_->Step(items);
      ASSERT_TRUE(logits.ok()) << logits.error().message();
      for (size_t i = 0; i < own_rows; ++i) hashes.push_back(RowHash(*engine_, *logits, own_row + i));
      done += own_rows;
    }
    for (const kv::SequenceId sequence : sequences) engine_->cache().Close(sequence);
    ExpectPlain(hashes, fmt::format("beside {} other sequences", others));
  }
}

TEST_P(Invariance, ThreadsDoNotMatter) {
  const auto engine = LoadEngine(Options(2));
  ASSERT_NE(engine, nullptr);
  ExpectPlain(RunChunks(*engine, 512), "two threads, chunks of 512");
  ExpectPlain(RunChunks(*engine, 64), "two threads, chunks of 64");
}

TEST_P(Invariance, ForksContinueAsTheirSourceWould) {
  kv::KvCache& cache = engine_->cache();
  const kv::SequenceId source = cache.Open();
  std::vector<uint64_t> ignored;
  ASSERT_NO_FATAL_FAILURE(Append(*engine_, source, tokens_, ignored));
  std::vector<int> offsets;
  for (int offset = 0; offset < 32; ++offset) offsets.push_back(96 + offset);  // every offset of a block
  for (int offset = 224; offset <= 288; ++offset) offsets.push_back(offset);   // around a span border
  for (const int offset : offsets) {
    const auto fork = cache.Fork(source, offset);
    ASSERT_TRUE(fork.ok()) << fork.error().message();
    std::vector<uint64_t> hashes;
    ASSERT_NO_FATAL_FAILURE(
        Append(*engine_, *fork, std::span(tokens_).subspan(static_cast<size_t>(offset), 5), hashes));
    cache.Close(*fork);
    for (size_t i = 0; i < hashes.size(); ++i) {
      ASSERT_EQ(hashes[i], plain_[static_cast<size_t>(offset) + i]) << "fork at " << offset << ", row " << i;
    }
  }
  // The source is as it was, and so is a sequence that forgot its end and grew again.
  cache.Truncate(source, 300);
  std::vector<uint64_t> again;
  ASSERT_NO_FATAL_FAILURE(Append(*engine_, source, std::span(tokens_).subspan(300), again));
  cache.Close(source);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), plain_.begin() + 300)) << "after truncation to 300";
  cache.CheckInvariants();
}

TEST_P(Invariance, SplitLanesOnASimulatedDeviceEqualThePlainPath) {
  for (const double fraction : {0.5, 0.0}) {
    EngineOptions options = Options(2);
    options.sim = SimDevice{.device_bytes = size_t{6} << 30, .device_heads_fraction = fraction};
    const auto engine = LoadEngine(options);
    ASSERT_NE(engine, nullptr);
    ExpectPlain(RunChunks(*engine, 200), fmt::format("{} of the heads on the device, the rest streamed", fraction));
    if (fraction == 0.5) ExpectPlain(RunChunks(*engine, 1), "split lanes, one token a step");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Invariance, testing::ValuesIn(Cases()), CaseName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Invariance);

}  // namespace
}  // namespace kvasir::engine
