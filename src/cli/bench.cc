#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/flag_table.h"
#include "cli/interrupt.h"
#include "cli/json.h"

namespace kvasir::cli {
namespace {

using Clock = std::chrono::steady_clock;

// One line of the table: evaluate `prompt` tokens, then generate `generated`, behind `depth` tokens of context.
struct Test {
  int64_t prompt = 0;
  int64_t generated = 0;
  int64_t depth = 0;

  std::string Name() const {
    std::string name;
    if (prompt > 0) name += fmt::format("pp{}", prompt);
    if (generated > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", generated);
    if (depth > 0) name += fmt::format(" @ d{}", depth);
    return name;
  }
};

double Mean(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double Deviation(const std::vector<double>& samples) {
  if (samples.size() < 2) return 0;
  const double mean = Mean(samples);
  double sum = 0;
  for (const double s : samples) sum += (s - mean) * (s - mean);
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

std::string CpuName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string TimeStamp() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

// Ids spread over the vocabulary; what they are does not change the work.
std::vector<kv::Token> SomeTokens(int64_t count, int vocabulary) {
  std::vector<kv::Token> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<kv::Token>((i * 7919 + 1000) % vocabulary));
  return tokens;
}

class Runner {
 public:
  explicit Runner(engine::Engine& engine) : engine_(engine) {}

  // Nanoseconds of each repetition. The context is evaluated once and forked, so that every repetition starts from the
  // same pages.
  Result<std::vector<double>> Run(const Test& test, int repetitions) {
    const kv::SequenceId base = engine_.cache().Open();
    auto samples = RunBehind(base, test, repetitions);
    engine_.cache().Close(base);
    return samples;
  }

 private:
  Result<std::vector<double>> RunBehind(kv::SequenceId base, const Test& test, int repetitions) {
    if (test.depth > 0) {
      KVASIR_RETURN_IF_ERROR(engine_.Prefill(base, SomeTokens(test.depth, engine_.config().n_vocab)));
    }
    std::vector<double> samples;
    for (int i = -1; i < repetitions; ++i) {  // the first is to warm up
      if (Interrupt::requested()) return MakeError(ErrorCode::kCancelled, "interrupted");
      KVASIR_ASSIGN_OR_RETURN(const kv::SequenceId sequence, engine_.cache().Fork(base, static_cast<int>(test.depth)));
      const auto start = Clock::now();
      const Status status = RunOnce(sequence, test);
      const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
      engine_.cache().Close(sequence);
      if (!status.ok()) return status.error();
      if (i >= 0) samples.push_back(ns);
    }
    return samples;
  }

  Status RunOnce(kv::SequenceId sequence, const Test& test) {
    if (test.prompt > 0) {
      KVASIR_RETURN_IF_ERROR(engine_.Prefill(sequence, SomeTokens(test.prompt, engine_.config().n_vocab)));
    }
    const std::vector<kv::Token> tokens = SomeTokens(test.generated, engine_.config().n_vocab);
    for (const kv::Token& token : tokens) {
      KVASIR_RETURN_IF_ERROR(engine_.Prefill(sequence, {&token, 1}));
    }
    return {};
  }

  engine::Engine& engine_;
};

struct BenchFlags {
  std::string model;
  std::vector<int64_t> prompts = {512};
  std::vector<int64_t> generated = {128};
  std::vector<int64_t> pairs;
  std::vector<int64_t> depths = {0};
  std::vector<int64_t> threads = {0};
  std::vector<std::string> types_k = {"f16"};
  std::vector<std::string> types_v = {"f16"};
  int batch = 2048;
  int ubatch = 512;
  int repetitions = 5;
  std::string level = "auto";
  std::string output = "md";
};

class Bench {
 public:
  Bench(BenchFlags flags, Streams streams) : flags_(std::move(flags)), streams_(streams) {}

  Status Run() {
    const Interrupt interrupt;
    if (flags_.output != "md" && flags_.output != "csv" && flags_.output != "json" && flags_.output != "jsonl") {
      return MakeError(ErrorCode::kInvalidArgument, "-o {}: known are md, csv, json and jsonl", flags_.output);
    }
    KVASIR_ASSIGN_OR_RETURN(const std::vector<Test> tests, Tests());
    if (flags_.types_v.size() == 1) flags_.types_v.resize(flags_.types_k.size(), flags_.types_v[0]);
    if (flags_.types_k.size() == 1) flags_.types_k.resize(flags_.types_v.size(), flags_.types_k[0]);
    if (flags_.types_k.size() != flags_.types_v.size()) {
      return MakeError(ErrorCode::kInvalidArgument, "-ctk names {} types and -ctv {}: give one, or as many",
                       flags_.types_k.size(), flags_.types_v.size());
    }
    for (const int64_t threads : flags_.threads) {
      for (size_t i = 0; i < flags_.types_k.size(); ++i) {
        KVASIR_RETURN_IF_ERROR(RunWith(tests, threads, flags_.types_k[i], flags_.types_v[i]));
      }
    }
    if (flags_.output == "json") fmt::print(streams_.out, "{}\n", ToText(rows_));
    return {};
  }

  Result<std::vector<Test>> Tests() const {
    if (flags_.pairs.size() % 2 != 0) return MakeError(ErrorCode::kInvalidArgument, "-pg takes pairs, P,N");
    std::vector<Test> tests;
    for (const int64_t depth : flags_.depths) {
      for (const int64_t n : flags_.prompts) tests.push_back({.prompt = n, .depth = depth});
      for (const int64_t n : flags_.generated) tests.push_back({.generated = n, .depth = depth});
      for (size_t i = 0; i < flags_.pairs.size(); i += 2)
        tests.push_back({flags_.pairs[i], flags_.pairs[i + 1], depth});
    }
    std::erase_if(tests, [](const Test& test) { return test.prompt + test.generated == 0; });
    return tests;
  }

  Status RunWith(const std::vector<Test>& tests, int64_t threads, const std::string& type_k,
                 const std::string& type_v) {
    EngineFlags flags{.model = flags_.model,
                      .batch = flags_.batch,
                      .ubatch = flags_.ubatch,
                      .threads = static_cast<int>(threads),
                      .level = flags_.level,
                      .type_k = type_k,
                      .type_v = type_v};
    for (const Test& test : tests) flags.context = std::max(flags.context, test.depth + test.prompt + test.generated);
    KVASIR_ASSIGN_OR_RETURN(const engine::EngineOptions options, flags.ToOptions());
    KVASIR_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, streams_));
    Runner runner(*engine);
    for (const Test& test : tests) {
      KVASIR_ASSIGN_OR_RETURN(const std::vector<double> samples, runner.Run(test, flags_.repetitions));
      Report(*engine, test, samples);
    }
    return {};
  }

  void Report(const engine::Engine& engine, const Test& test, const std::vector<double>& samples_ns) {
    const auto tokens = static_cast<double>(test.prompt + test.generated);
    std::vector<double> speeds;
    speeds.reserve(samples_ns.size());
    for (const double ns : samples_ns) speeds.push_back(tokens * 1e9 / ns);
    int64_t parameters = 0;
    for (const gguf::TensorInfo& tensor : engine.file().tensors()) parameters += tensor.elements();
    Json row = {{"cpu_info", CpuName()},
                {"isa", engine.backend_profile().level},
                {"model_filename", flags_.model},
                {"model_type", engine.config().architecture + " " + engine.config().name},
                {"model_size", engine.file().total_bytes()},
                {"model_n_params", parameters},
                {"n_batch", flags_.batch},
                {"n_ubatch", engine.ubatch()},
                {"n_threads", engine.backend_profile().threads},
                {"type_k", Name(engine.type_k())},
                {"type_v", Name(engine.type_v())},
                {"n_prompt", test.prompt},
                {"n_gen", test.generated},
                {"n_depth", test.depth},
                {"test_time", TimeStamp()},
                {"avg_ns", Mean(samples_ns)},
                {"stddev_ns", Deviation(samples_ns)},
                {"avg_ts", Mean(speeds)},
                {"stddev_ts", Deviation(speeds)},
                {"samples_ns", samples_ns},
                {"samples_ts", speeds}};
    if (test.prompt == 0) row["read_gbps"] = ReadRate(engine, test, Mean(speeds));
    Print(row, test);
    rows_.push_back(std::move(row));
  }

  // Weights and KV that a decoded token reads, times the speed. An untied embedding is looked up, not read.
  static double ReadRate(const engine::Engine& engine, const Test& test, double tokens_per_second) {
    double bytes = static_cast<double>(engine.touched_weight_bytes());
    bytes += static_cast<double>(engine.token_kv_bytes()) *
             (static_cast<double>(test.depth) + static_cast<double>(test.generated) / 2);
    return bytes * tokens_per_second / 1e9;
  }

  void Print(const Json& row, const Test& test) {
    if (flags_.output == "jsonl") fmt::print(streams_.out, "{}\n", ToLine(row));
    if (flags_.output == "csv") {
      if (rows_.empty()) PrintCsv(row, true);
      PrintCsv(row, false);
    }
    if (flags_.output == "md") {
      if (rows_.empty()) {
        fmt::print(streams_.out, "| {:<32} | {:>10} | {:>7} | {:>4} | {:>10} | {:>16} | {:>18} |\n", "model", "size",
                   "isa", "thr", "kv", "test", "t/s");
        fmt::print(streams_.out, "| {:-<32} | {:->9}: | {:->6}: | {:->3}: | {:->9}: | {:->15}: | {:->17}: |\n", "", "",
                   "", "", "", "", "");
      }
      fmt::print(streams_.out, "| {:<32} | {:>6.1f} MiB | {:>7} | {:>4} | {:>10} | {:>16} | {:>9.2f} ± {:>6.2f} |\n",
                 row["model_type"].get<std::string>().substr(0, 32), row["model_size"].get<double>() / 1048576,
                 row["isa"].get<std::string>(), row["n_threads"].get<int>(),
                 row["type_k"].get<std::string>() + "/" + row["type_v"].get<std::string>(), test.Name(),
                 row["avg_ts"].get<double>(), row["stddev_ts"].get<double>());
    }
    streams_.out.flush();
  }

  void PrintCsv(const Json& row, bool header) const {
    std::string line;
    for (const auto& [key, value] : row.items()) {
      if (value.is_array()) continue;  // samples are for the JSON forms
      line += (line.empty() ? "" : ",") + (header ? key : value.dump());
    }
    fmt::print(streams_.out, "{}\n", line);
  }

  BenchFlags flags_;
  Streams streams_;
  Json rows_ = Json::array();
};

}  // namespace

int RunBench(const Args& args, Streams streams) {
  BenchFlags values;
  Flags flags("bench", "measure prefill and decode, with llama-bench's columns");
  flags.Add(kModelFlag, &values.model);
  flags.Require();
  flags.Add({"-p --n-prompt", "N,...", "prefill tests: tokens; 0: none"}, &values.prompts);
  flags.Add({"-n --n-gen", "N,...", "decode tests: tokens; 0: none"}, &values.generated);
  flags.Add({"-pg", "P,N,...", "tests that prefill P tokens, then decode N"}, &values.pairs);
  flags.Add({"-d --n-depth", "N,...", "tokens of context in front of each test"}, &values.depths);
  flags.Add(kBatchFlag, &values.batch, 1);
  flags.Add(kUbatchFlag, &values.ubatch, 1);
  flags.Add({"-t --threads", "N,...", "CPU threads; 0: one per physical core"}, &values.threads);
  flags.Add({"-ctk --cache-type-k", "TYPE,...", "KV types of keys"}, &values.types_k);
  flags.Add({"-ctv --cache-type-v", "TYPE,...", "KV types of values, paired with the keys'"}, &values.types_v);
  flags.Add({"-r --repetitions", "N", "timed repetitions of each test"}, &values.repetitions, 1, 10000);
  flags.Add(kIsaFlag, &values.level);
  flags.Add({"-o --output", "FORM", "md, csv, json or jsonl"}, &values.output);
  if (const auto code = flags.Read(args, streams)) return *code;
  return ExitCode("bench", Bench(std::move(values), streams).Run(), streams);
}

}  // namespace kvasir::cli
