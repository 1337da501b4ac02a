// cli/commands.h
// The commands of the program. Each lives in a file of its name, declares its flags there and nowhere else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/streams.h"

namespace kvasir::cli {

using Args = std::vector<std::string>;

// Each takes what follows its name and returns an exit code.
int RunRun(const Args& args, Streams streams);
int RunBench(const Args& args, Streams streams);
int RunPerplexity(const Args& args, Streams streams);
int RunInspect(const Args& args, Streams streams);
int RunTokenize(const Args& args, Streams streams);
int RunPlan(const Args& args, Streams streams);
int RunDoctor(const Args& args, Streams streams);

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Args& args, Streams streams);
};

// In the order of --help.
inline std::span<const Command> Commands() {
  static constexpr Command kCommands[] = {
      {"run", "answer one prompt, or chat", RunRun},
      {"bench", "measure prefill and decode", RunBench},
      {"perplexity", "score a text", RunPerplexity},
      {"plan", "memory that a model, a window and agents need, without loading", RunPlan},
      {"inspect", "metadata and tensors of a GGUF file", RunInspect},
      {"tokenize", "text to token ids and back", RunTokenize},
      {"doctor", "what this machine has and what will be used", RunDoctor},
  };
  return kCommands;
}

}  // namespace kvasir::cli
