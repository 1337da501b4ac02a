// backend/factory.h
// The one place that names concrete backends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace kvasir::backend {

// kFast: 8-bit activations where the weights are quantized. kF32: weights decoded to f32, f32 activations; slow, the
// oracle. Each is a numerics class of its own.
enum class Compute { kFast, kF32 };

struct CpuOptions {
  std::string level = "auto";  // "auto", "ref", "avx2", "avx512"; KVASIR_ISA overrides "auto"
  int threads = 0;             // 0: one per physical core
  Compute compute = Compute::kFast;
};

struct SimOptions {
  CpuOptions cpu;                          // whose kernels do the arithmetic
  size_t device_bytes = size_t{64} << 20;  // a hard bound
  double link_bytes_per_second = 25e9;     // of the virtual clock
};

// kInvalidArgument for a level that is not a name, kUnsupported for one that this CPU lacks.
Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);
Result<std::unique_ptr<Backend>> CreateSimBackend(const SimOptions& options);

// The levels this CPU can run, slowest first: always "ref".
std::vector<std::string> AvailableCpuLevels();
int PhysicalCores();

}  // namespace kvasir::backend
