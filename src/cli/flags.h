// cli/flags.h
// Flags of one command: declared with the variable they set, read from the command line and the environment, listed by
// --help.
//
// Own code because the names are llama-server's, and parsers in Debian 12 do not know flags like -ctk (one dash,
// several letters). What the command line says wins over the environment, which wins over the default. The last of
// several occurrences counts.
//
//   -m FILE   --model FILE   --model=FILE   --json   --   (ends the flags)
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/streams.h"

namespace kvasir::cli {

struct Flag {
  std::string_view names;  // "-m --model", in the order of help; the last is what messages call it
  std::string_view value;  // what help calls its value: "FILE"; empty for a switch
  std::string_view help;
  std::string_view environment = {};  // "LLAMA_ARG_MODEL KVASIR_MODEL": names to read, first found wins
};

// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment ProcessEnvironment();

class Flags {
 public:
  // `operands` is what follows the flags in the usage line; empty when a command takes nothing but flags.
  Flags(std::string_view command, std::string_view summary, std::string_view operands = {});

  // Each declares a flag that sets `target`, whose present value is the default. Targets must outlive Parse.
  void Add(const Flag& flag, std::string* target);
  void Add(const Flag& flag, bool* target);  // a switch: sets true; from the environment also false
  void Add(const Flag& flag, int* target, int min = std::numeric_limits<int>::min(),
           int max = std::numeric_limits<int>::max());
  void Add(const Flag& flag, int64_t* target, int64_t min, int64_t max = std::numeric_limits<int64_t>::max());
  void Add(const Flag& flag, uint64_t* target);
  void Add(const Flag& flag, double* target);  // finite
  // Comma-separated lists; given again, a flag starts anew.
  void Add(const Flag& flag, std::vector<std::string>* target);
  void Add(const Flag& flag, std::vector<int64_t>* target, int64_t min = 0);
  // Anything else: `set` takes the value and answers with what is wrong with it, or nothing.
  using Setter = std::function<std::optional<std::string>(std::string_view value)>;
  void Add(const Flag& flag, Setter set);

  // The last added flag has to be given.
  void Require();

  // kInvalidArgument with a sentence: an unknown flag (and the nearest), a bad or missing value, an operand too many.
  Status Parse(const std::vector<std::string>& args, const Environment& environment);

  // What a command does with its arguments: an exit code when there is nothing more to do (--help, wrong usage), else
  // nothing.
  std::optional<int> Read(const std::vector<std::string>& args, Streams streams);

  const std::vector<std::string>& operands() const { return operands_; }
  bool Given(std::string_view name) const;  // on the command line or in the environment
  std::string Help() const;

 private:
  struct Entry {
    Flag flag;
    Setter set;
    std::string fallback;  // the default, for help
    bool is_switch = false;
    bool required = false;
    bool given = false;
  };

  Entry& AddEntry(const Flag& flag, Setter set, std::string fallback);
  std::optional<size_t> IndexOf(std::string_view name) const;
  Status Set(Entry& entry, std::string_view source, std::string_view value);

  std::string command_;
  std::string summary_;
  std::string operands_help_;
  std::vector<Entry> entries_;
  std::vector<std::string> operands_;
  bool help_ = false;
};

// A command's last line: prints the error of `status`, if it has one, and gives the exit code.
int ExitCode(std::string_view command, const Status& status, Streams streams);

}  // namespace kvasir::cli
