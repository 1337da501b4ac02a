#include "cli/app.h"

#include <fmt/ostream.h>

#include <algorithm>
#include <span>

#include "backend/factory.h"
#include "cli/commands.h"
#include "cli/nearest.h"

namespace kvasir::cli {
namespace {

#if defined(__clang__)
const std::string kCompiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
const std::string kCompiler = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif

void PrintVersion(std::ostream& out) {
  fmt::print(out, "kvasir {} ({})\ninstruction sets here: {}\n", KVASIR_VERSION, kCompiler,
             fmt::join(backend::AvailableCpuLevels(), " "));
}

void PrintHelp(std::ostream& out) {
  fmt::print(out, "usage: kvasir <command> [flags]\n\n");
  for (const Command& command : Commands()) fmt::print(out, "  {:<12} {}\n", command.name, command.summary);
  fmt::print(out,
             "\nkvasir <command> --help lists a command's flags; kvasir --version names the build.\n"
             "Exit codes: 0 ok, 1 failed, 2 wrong usage.\n");
}

const Command* FindCommand(std::string_view name) {
  const auto commands = Commands();
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

int RunNamed(const std::vector<std::string>& args, Streams streams) {
  const std::string& name = args.front();
  if (name == "--version" || name == "-v" || name == "version") {
    PrintVersion(streams.out);
    return kExitOk;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    if (args.size() == 1) {
      PrintHelp(streams.out);
      return kExitOk;
    }
    if (const Command* command = FindCommand(args[1])) return command->run({"--help"}, streams);
  }
  if (const Command* command = FindCommand(name)) return command->run({args.begin() + 1, args.end()}, streams);

  std::vector<std::string_view> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  fmt::print(streams.err, "kvasir: no command {}{}; kvasir --help lists them\n", name, DidYouMean(name, names));
  return kExitUsage;
}

}  // namespace

int Main(const std::vector<std::string>& args, Streams streams) {
  if (args.empty()) {
    PrintHelp(streams.err);
    return kExitUsage;
  }
  const int code = RunNamed(args, streams);
  streams.out.flush();
  if (code == kExitOk && !streams.out) {
    fmt::print(streams.err, "kvasir: the result could not be written to standard output\n");
    return kExitFailed;
  }
  return code;
}

}  // namespace kvasir::cli
