// backend/cpu/level.h
// The instruction-set levels of the CPU kernels, and which of them this machine has.
//
// Each level is a numerics class of its own. `ref` is plain C++, the oracle; `avx2` needs AVX2, FMA and F16C; `avx512`
// needs F, BW, VL, DQ and VNNI.
#pragma once

#include <optional>
#include <string_view>

namespace kvasir::backend::cpu {

enum class Level { kRef, kAvx2, kAvx512 };

constexpr Level kLevels[] = {Level::kRef, Level::kAvx2, Level::kAvx512};

std::string_view Name(Level level);
std::optional<Level> ParseLevel(std::string_view name);
bool CpuHas(Level level);
Level BestLevel();

}  // namespace kvasir::backend::cpu
