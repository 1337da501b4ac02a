// cli/app.h
// The program: finds the command, runs it, gives its exit code.
//
// Thread rule: the main thread.
#pragma once

#include <string>
#include <vector>

#include "cli/streams.h"

namespace kvasir::cli {

// `args` without the program's name. Returns kExitOk, kExitFailed or kExitUsage.
int Main(const std::vector<std::string>& args, Streams streams);

}  // namespace kvasir::cli
