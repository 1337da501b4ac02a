// cli/interrupt.h
// Ctrl-C as a question instead of an end: while an Interrupt lives, the first SIGINT or SIGTERM only sets a flag that
// long work looks at, so that it stops between two steps and prints what it has. The second one ends the process as
// usual.
//
// Thread rule: one at a time, made and destroyed by the main thread; requested() from any thread.
#pragma once

#include <csignal>

namespace kvasir::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool requested();

 private:
  struct sigaction previous_int_ = {};
  struct sigaction previous_term_ = {};
};

}  // namespace kvasir::cli
