#include "backend/cpu/level.h"

#include <cpuid.h>

namespace kvasir::backend::cpu {
namespace {

// __builtin_cpu_supports of clang 14 does not know the name "f16c".
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

std::string_view Name(Level level) {
  switch (level) {
    case Level::kRef:
      return "ref";
    case Level::kAvx2:
      return "avx2";
    case Level::kAvx512:
      return "avx512";
  }
  return "ref";
}

std::optional<Level> ParseLevel(std::string_view name) {
  for (const Level level : kLevels) {
    if (Name(level) == name) return level;
  }
  return std::nullopt;
}

bool CpuHas(Level level) {
  switch (level) {
    case Level::kRef:
      return true;
    case Level::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
    case Level::kAvx512:
      return CpuHas(Level::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

Level BestLevel() {
  if (CpuHas(Level::kAvx512)) return Level::kAvx512;
  return CpuHas(Level::kAvx2) ? Level::kAvx2 : Level::kRef;
}

}  // namespace kvasir::backend::cpu
