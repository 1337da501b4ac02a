// What this machine has, and what of it will be used.
#include <fmt/ostream.h>

#include "backend/factory.h"
#include "base/system_memory.h"
#include "cli/commands.h"
#include "cli/flag_table.h"
#include "cli/json.h"
#include "cli/machine.h"

namespace kvasir::cli {
namespace {

std::string HugePageAdvice(const Machine& machine) {
  if (machine.transparent_huge_pages == "always") return "used for weights and KV";
  if (machine.transparent_huge_pages == "madvise") return "used where the program asks for them";
  if (machine.transparent_huge_pages == "never") {
    return "off: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (as root) makes large models faster";
  }
  return "unknown to this kernel";
}

}  // namespace

int RunDoctor(const Args& args, Streams streams) {
  bool json = false;
  Flags flags("doctor", "What this machine has and what will be used.");
  flags.Add(kJsonFlag, &json);
  if (const auto exit = flags.Read(args, streams)) return *exit;

  const Machine machine = ReadMachine();
  const std::vector<std::string> levels = backend::AvailableCpuLevels();
  if (json) {
    const Json report = {{"cpu", machine.cpu},
                         {"logical_cores", machine.logical_cores},
                         {"physical_cores", machine.physical_cores},
                         {"numa_nodes", machine.numa_nodes},
                         {"l3_bytes", machine.l3_bytes},
                         {"features", machine.features},
                         {"levels", levels},
                         {"level", levels.back()},
                         {"threads", machine.physical_cores},
                         {"memory_bytes", machine.memory_bytes},
                         {"available_bytes", machine.available_bytes},
                         {"transparent_huge_pages", machine.transparent_huge_pages},
                         {"huge_page_bytes", machine.huge_page_bytes},
                         {"gpu", nullptr}};
    fmt::print(streams.out, "{}\n", ToText(report));
    return kExitOk;
  }
  const auto line = [&](std::string_view name, const std::string& value) {
    fmt::print(streams.out, "{:<12} {}\n", name, value);
  };
  line("cpu", machine.cpu);
  line("cores", fmt::format("{} physical, {} logical usable, {} NUMA node(s); {} threads by default (-t)",
                            machine.physical_cores, machine.logical_cores, machine.numa_nodes, machine.physical_cores));
  line("features", fmt::to_string(fmt::join(machine.features, " ")));
  line("kernels", fmt::format("{} of {} (--isa or KVASIR_ISA forces one)", levels.back(), fmt::join(levels, ", ")));
  line("L3 cache", FormatBytes(machine.l3_bytes));
  line("memory",
       fmt::format("{}, {} available", FormatBytes(machine.memory_bytes), FormatBytes(machine.available_bytes)));
  line("huge pages", fmt::format("transparent: {}, {}; {} reserved and free",
                                 machine.transparent_huge_pages.empty() ? "?" : machine.transparent_huge_pages,
                                 HugePageAdvice(machine), FormatBytes(machine.huge_page_bytes)));
  line("gpu", "not used: this build runs on the CPU");
  return kExitOk;
}

}  // namespace kvasir::cli
