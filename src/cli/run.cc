#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/system_memory.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/flag_table.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/sampler_flags.h"
#include "engine/generate.h"

namespace kvasir::cli {
namespace {

struct RunFlags {
  EngineFlags engine;
  SamplerFlags sampler;
  PromptFlags prompt;
  int predict = -1;
  std::string logits_top;  // "K", "K@all" or "K@last"
  bool interactive = false;
  bool json = false;
};

// What --logits-top asks for.
struct LogitsWanted {
  int top = 0;
  model::LogitsOf which = model::LogitsOf::kNone;
};

Result<LogitsWanted> ParseLogitsTop(const std::string& text) {
  if (text.empty()) return LogitsWanted{};
  const size_t at = text.find('@');
  const std::string where = at == std::string::npos ? "last" : text.substr(at + 1);
  char* end = nullptr;
  const std::string number = text.substr(0, at);
  const long top = std::strtol(number.c_str(), &end, 10);
  if (number.empty() || *end != 0 || top < 1 || top > 1'000'000 || (where != "all" && where != "last")) {
    return MakeError(ErrorCode::kInvalidArgument, "--logits-top {}: not of the form K, K@last or K@all", text);
  }
  return LogitsWanted{static_cast<int>(top), where == "all" ? model::LogitsOf::kAllRows : model::LogitsOf::kLastRow};
}

// {"position", "top": [[id, logit], ...], "logsumexp"}, best first; equal logits in order of id.
Json TopLogits(int position, std::span<const float> logits, int top) {
  std::vector<int> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  const auto count = std::min(ids.size(), static_cast<size_t>(top));
  const auto logit = [&](int id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    [&](int a, int b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - logit(ids[0]));
  Json pairs = Json::array();
  for (size_t i = 0; i < count; ++i) pairs.push_back({ids[i], logit(ids[i])});
  return {{"position", position}, {"top", std::move(pairs)}, {"logsumexp", logit(ids[0]) + std::log(sum)}};
}

double PerSecond(size_t tokens, double milliseconds) {
  return milliseconds > 0 ? static_cast<double>(tokens) * 1000 / milliseconds : 0;
}

class RunCommand {
 public:
  RunCommand(const RunFlags& flags, Streams streams) : flags_(flags), streams_(streams) {}

  Status Run() {
    const Interrupt interrupt;
    KVASIR_ASSIGN_OR_RETURN(wanted_, ParseLogitsTop(flags_.logits_top));
    if (flags_.json && flags_.interactive)
      return MakeError(ErrorCode::kInvalidArgument, "--json and -i do not go together");
    KVASIR_RETURN_IF_ERROR(flags_.prompt.Validate(flags_.interactive));
    KVASIR_ASSIGN_OR_RETURN(const engine::EngineOptions options, flags_.engine.ToOptions());
    KVASIR_ASSIGN_OR_RETURN(engine_, LoadEngine(options, streams_));
    KVASIR_ASSIGN_OR_RETURN(generate_.sampler, flags_.sampler.ToOptions(engine_->tokenizer()));
    KVASIR_RETURN_IF_ERROR(generate_.sampler.Validate(engine_->config().n_vocab));
    generate_.max_tokens = flags_.predict;
    generate_.stop_at_end = !flags_.sampler.options.ignore_eos;
    generate_.logits = wanted_.which;
    KVASIR_ASSIGN_OR_RETURN(const Prompter prompter, Prompter::Create(*engine_, flags_.prompt));
    sequence_ = engine_->cache().Open();
    return flags_.interactive ? Chat(prompter) : Once(prompter);
  }

 private:
  Status Once(const Prompter& prompter) {
    KVASIR_ASSIGN_OR_RETURN(const std::vector<kv::Token> prompt, prompter.First(streams_.in));
    KVASIR_ASSIGN_OR_RETURN(const engine::Generation generation, Generate(prompt));
    if (flags_.json) {
      PrintJson(prompt, generation);
    } else {
      PrintStatistics(generation);
    }
    return {};
  }

  // Turns until the input ends. What the sequence already holds of a turn's prompt is not evaluated again.
  Status Chat(const Prompter& prompter) {
    Conversation conversation = prompter.Begin();
    for (;;) {
      fmt::print(streams_.err, "\n> ");
      streams_.err.flush();
      std::string line;
      if (!std::getline(streams_.in, line) || Interrupt::requested()) break;
      if (line.empty()) continue;
      KVASIR_ASSIGN_OR_RETURN(const std::vector<kv::Token> prompt, prompter.Turn(conversation, line));
      KVASIR_ASSIGN_OR_RETURN(const engine::Generation generation, Generate(prompt));
      conversation.Answer(engine_->tokenizer().Decode(generation.tokens, false, false));
      PrintStatistics(generation);
      if (generation.finish == engine::FinishReason::kCancelled) break;
    }
    fmt::print(streams_.err, "\n");
    return {};
  }

  Result<engine::Generation> Generate(std::span<const kv::Token> prompt) {
    tokenizer::StreamDecoder decoder(engine_->tokenizer(), false, true);
    std::optional<ProgressBar> progress;
    progress.emplace(streams_.err, ErrorIsTerminal(), "prefill");
    text_.clear();
    const auto emit = [&](const std::string& piece) {
      text_ += piece;
      if (flags_.json) return;
      streams_.out << piece;
      streams_.out.flush();
    };
    auto generation = engine::Generate(*engine_, sequence_, prompt, generate_,
                                       {.on_progress =
                                            [&](size_t done, size_t total) {
                                              progress->Update(static_cast<double>(done) / static_cast<double>(total));
                                              return !Interrupt::requested();
                                            },
                                        .on_token =
                                            [&](kv::Token token) {
                                              progress.reset();
                                              emit(decoder.Push(token));
                                              return !Interrupt::requested();
                                            },
                                        .on_logits =
                                            [&](int position, std::span<const float> logits) {
                                              logits_.push_back(TopLogits(position, logits, wanted_.top));
                                            }});
    if (generation.ok()) emit(decoder.Finish());
    return generation;
  }

  void PrintStatistics(const engine::Generation& generation) {
    const engine::Timings& t = generation.timings;
    const kv::CacheUsage usage = engine_->cache().usage();
    streams_.out << '\n';
    streams_.out.flush();
    fmt::print(streams_.err,
               "\nprompt {} tokens ({} cached), {:.1f} tokens/s | generated {} tokens, {:.1f} tokens/s, {} | KV {} "
               "used, {} reserved "
               "({}/{})\n",
               t.cached_tokens + t.prompt_tokens, t.cached_tokens, PerSecond(t.prompt_tokens, t.prompt_ms),
               t.predicted_tokens, PerSecond(t.predicted_tokens, t.predicted_ms), engine::Name(generation.finish),
               FormatBytes(usage.used_bytes), FormatBytes(usage.reserved_bytes), Name(engine_->type_k()),
               Name(engine_->type_v()));
  }

  void PrintJson(const std::vector<kv::Token>& prompt, const engine::Generation& generation) {
    const engine::Timings& t = generation.timings;
    const kv::CacheUsage usage = engine_->cache().usage();
    Json json = {{"model", flags_.engine.model},
                 {"prompt_tokens", prompt},
                 {"tokens", generation.tokens},
                 {"text", text_},
                 {"finish", engine::Name(generation.finish)}};
    if (wanted_.top > 0) json["logits"] = logits_;
    json["timings"] = {{"load_ms", engine_->load_ms()},     {"cache_n", t.cached_tokens},
                       {"prompt_n", t.prompt_tokens},       {"prompt_ms", t.prompt_ms},
                       {"predicted_n", t.predicted_tokens}, {"predicted_ms", t.predicted_ms}};
    json["kv"] = {{"bytes_used", usage.used_bytes},
                  {"bytes_reserved", usage.reserved_bytes},
                  {"type_k", Name(engine_->type_k())},
                  {"type_v", Name(engine_->type_v())}};
    fmt::print(streams_.out, "{}\n", ToLine(json));
  }

  const RunFlags& flags_;
  Streams streams_;
  LogitsWanted wanted_;
  std::unique_ptr<engine::Engine> engine_;
  engine::GenerateOptions generate_;
  kv::SequenceId sequence_{};
  std::string text_;
  Json logits_ = Json::array();
};

}  // namespace

int RunRun(const Args& args, Streams streams) {
  RunFlags values;
  Flags flags("run", "answer one prompt, or chat with -i");
  values.engine.AddTo(flags);
  values.prompt.AddTo(flags);
  flags.Add(kPredictFlag, &values.predict, -1);
  flags.Add({"-i --interactive", "", "chat line by line, with the model's template"}, &values.interactive);
  flags.Add({"--logits-top", "K[@all|last]", "with --json: the K best logits of each, or the prompt's last position"},
            &values.logits_top);
  flags.Add(kJsonFlag, &values.json);
  values.sampler.AddTo(flags);
  if (const auto code = flags.Read(args, streams)) return *code;
  return ExitCode("run", RunCommand(values, streams).Run(), streams);
}

}  // namespace kvasir::cli
