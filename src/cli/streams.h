// cli/streams.h
// Where a command reads and writes. Results go to `out`, everything else (progress, warnings, errors) to `err`, so that
// what another program reads is never mixed with what a person reads.
#pragma once

#include <istream>
#include <ostream>

namespace kvasir::cli {

struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

// What the process returns.
constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

}  // namespace kvasir::cli
