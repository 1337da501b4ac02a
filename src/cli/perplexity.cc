#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/flag_table.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"

namespace kvasir::cli {
namespace {

struct PerplexityFlags {
  EngineFlags engine;
  std::string file;
  int window = 512;
  int windows = 0;  // 0: all
  bool json = false;
};

double NegativeLogLikelihood(std::span<const float> logits, kv::Token token) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum) - logits[static_cast<size_t>(token)];
}

// Mean over the scored positions of one window: all that have at least half a window of context.
Result<double> ScoreWindow(engine::Engine& engine, std::span<const kv::Token> window) {
  const size_t first = window.size() / 2;
  const auto vocabulary = static_cast<size_t>(engine.config().n_vocab);
  const kv::SequenceId sequence = engine.cache().Open();
  double sum = 0;
  for (size_t done = 0; done < window.size();) {
    const size_t rows = std::min(window.size() - done, static_cast<size_t>(engine.ubatch()));
    const bool scored = done + rows > first;
    const model::BatchItem item{.sequence = sequence,
                                .first_position = static_cast<int>(done),
                                .tokens = window.subspan(done, rows),
                                .logits = scored ? model::LogitsOf::kAllRows : model::LogitsOf::kNone};
    const auto logits = engine.Step({&item, 1});
    if (!logits.ok()) {
      engine.cache().Close(sequence);
      return logits.error();
    }
    for (size_t row = 0; scored && row < rows; ++row) {
      const size_t position = done + row;
      if (position < first || position + 1 >= window.size()) continue;
      sum += NegativeLogLikelihood(logits->subspan(row * vocabulary, vocabulary), window[position + 1]);
    }
    done += rows;
  }
  engine.cache().Close(sequence);
  return sum / static_cast<double>(window.size() - 1 - first);
}

Result<Json> Score(const PerplexityFlags& flags, Streams streams) {
  KVASIR_ASSIGN_OR_RETURN(engine::EngineOptions options, flags.engine.ToOptions());
  options.context = std::max<int64_t>(options.context, flags.window);
  KVASIR_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(flags.file));
  KVASIR_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, streams));
  const tokenizer::Tokenizer& tokenizer = engine->tokenizer();
  const std::vector<kv::Token> tokens = tokenizer.Encode(
      {reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()}, {.add_special = true});
  const auto window = static_cast<size_t>(flags.window);
  size_t windows = tokens.size() / window;
  if (windows == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "{} has {} tokens, less than one window of {}", flags.file,
                     tokens.size(), window);
  }
  if (flags.windows > 0) windows = std::min(windows, static_cast<size_t>(flags.windows));

  std::vector<double> per_window;
  double sum = 0;
  ProgressBar progress(streams.err, ErrorIsTerminal(), "scoring");
  for (size_t w = 0; w < windows; ++w) {
    if (Interrupt::requested())
      return MakeError(ErrorCode::kCancelled, "interrupted after {} of {} windows", w, windows);
    std::vector<kv::Token> part(tokens.begin() + static_cast<std::ptrdiff_t>(w * window),
                                tokens.begin() + static_cast<std::ptrdiff_t>((w + 1) * window));
    if (tokenizer.adds_bos()) part[0] = tokenizer.special().bos;
    KVASIR_ASSIGN_OR_RETURN(const double nll, ScoreWindow(*engine, part));
    per_window.push_back(nll);
    sum += nll;
    progress.Update(static_cast<double>(w + 1) / static_cast<double>(windows));
  }
  const double mean = sum / static_cast<double>(windows);
  return Json{{"windows", per_window},
              {"mean_nll", mean},
              {"ppl", std::exp(mean)},
              {"tokens", windows * (window - 1 - window / 2)}};
}

Status Perplexity(const PerplexityFlags& flags, Streams streams) {
  const Interrupt interrupt;
  KVASIR_ASSIGN_OR_RETURN(const Json scores, Score(flags, streams));
  if (flags.json) {
    fmt::print(streams.out, "{}\n", ToLine(scores));
  } else {
    fmt::print(streams.out, "perplexity {:.4f} (mean NLL {:.6f} over {} tokens in {} windows)\n",
               scores["ppl"].get<double>(), scores["mean_nll"].get<double>(), scores["tokens"].get<size_t>(),
               scores["windows"].size());
  }
  return {};
}

}  // namespace

int RunPerplexity(const Args& args, Streams streams) {
  PerplexityFlags values;
  Flags flags("perplexity", "score a text: windowed negative log-likelihood of second halves");
  values.engine.AddTo(flags);
  flags.Add({"-f --file", "FILE", "text to score"}, &values.file);
  flags.Require();
  flags.Add({"--window", "N", "tokens of a window"}, &values.window, 8);
  flags.Add({"--chunks --windows", "N", "how many windows; 0: all"}, &values.windows, 0);
  flags.Add(kJsonFlag, &values.json);
  if (const auto code = flags.Read(args, streams)) return *code;
  return ExitCode("perplexity", Perplexity(values, streams), streams);
}

}  // namespace kvasir::cli
