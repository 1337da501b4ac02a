#include "cli/interrupt.h"

#include <atomic>

namespace kvasir::cli {
namespace {

// A signal handler can reach nothing but statics.
std::atomic<bool> requested_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int number) {
  requested_flag.store(true);
  std::signal(number, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  requested_flag.store(false);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

bool Interrupt::requested() {
  return requested_flag.load();
}

}  // namespace kvasir::cli
