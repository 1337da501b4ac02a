#include "backend/factory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/level.h"
#include "backend/sim/sim_backend.h"

namespace kvasir::backend {
namespace {

std::string LevelNames() {
  std::string names;
  for (const cpu::Level level : cpu::kLevels)
    names += std::string(names.empty() ? "" : ", ") + std::string(cpu::Name(level));
  return names;
}

// "auto" asks the environment first, the CPU second.
Result<cpu::Level> ChooseLevel(const std::string& asked) {
  std::string name = asked;
  std::string_view source = "";
  if (asked == "auto") {
    const char* forced = std::getenv("KVASIR_ISA");
    if (forced == nullptr || *forced == '\0') return cpu::BestLevel();
    name = forced;
    source = "KVASIR_ISA: ";
  }
  const std::optional<cpu::Level> level = cpu::ParseLevel(name);
  if (!level.has_value()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}\"{}\" is not a CPU level; there are {}", source, name,
                     LevelNames());
  }
  if (!cpu::CpuHas(*level)) {
    return MakeError(ErrorCode::kUnsupported, "{}this CPU lacks the instructions of level {}; its best is {}", source,
                     name, cpu::Name(cpu::BestLevel()));
  }
  return *level;
}

}  // namespace

Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  KVASIR_ASSIGN_OR_RETURN(const cpu::Level level, ChooseLevel(options.level));
  if (options.threads < 0) {
    return MakeError(ErrorCode::kInvalidArgument, "{} threads: at least 1, or 0 for one per physical core",
                     options.threads);
  }
  const int threads = options.threads == 0 ? PhysicalCores() : options.threads;
  return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(level, threads, options.compute));
}

Result<std::unique_ptr<Backend>> CreateSimBackend(const SimOptions& options) {
  KVASIR_ASSIGN_OR_RETURN(std::unique_ptr<Backend> cpu, CreateCpuBackend(options.cpu));
  KVASIR_ASSIGN_OR_RETURN(std::unique_ptr<sim::DeviceMemory> memory, sim::DeviceMemory::Create(options.device_bytes));
  return std::unique_ptr<Backend>(
      std::make_unique<sim::SimBackend>(std::move(cpu), std::move(memory), options.link_bytes_per_second));
}

std::vector<std::string> AvailableCpuLevels() {
  std::vector<std::string> names;
  for (const cpu::Level level : cpu::kLevels) {
    if (cpu::CpuHas(level)) names.emplace_back(cpu::Name(level));
  }
  return names;
}

// Hyper-threads of one core share its vector units, so they do not count.
int PhysicalCores() {
  std::set<std::string> cores;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu", error)) {
    const auto topology = entry.path() / "topology";
    std::string package, core;
    if (std::ifstream(topology / "physical_package_id") >> package && std::ifstream(topology / "core_id") >> core) {
      cores.insert(package.append(":").append(core));
    }
  }
  if (!cores.empty()) return static_cast<int>(cores.size());
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace kvasir::backend
