// cli/engine_flags.h
// The flags that every command with a loaded model shares, and the load itself with its progress line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/flags.h"
#include "cli/streams.h"
#include "engine/engine.h"

namespace kvasir::cli {

struct EngineFlags {
  std::string model;
  int64_t context = 0;
  int batch = 2048;
  int ubatch = 512;
  int threads = 0;
  std::string level = "auto";
  std::string type_k = "f16";
  std::string type_v = "f16";
  std::string compute = "auto";
  int64_t sim_device_mib = 0;  // > 0: a simulated device of this size
  double device_heads_fraction = 1;

  void AddTo(Flags& flags);

  // The options they stand for. kInvalidArgument names the flag and the value.
  Result<engine::EngineOptions> ToOptions() const;
};

// Loads with a progress line where standard error is a terminal. An interrupt ends it with kCancelled.
Result<std::unique_ptr<engine::Engine>> LoadEngine(const engine::EngineOptions& options, Streams streams);

}  // namespace kvasir::cli
