#include "cli/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "backend/factory.h"
#include "base/system_memory.h"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFeatures[] = {"avx2",        "fma",         "f16c",        "avx_vnni", "avx512f",
                                          "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16"};

std::string ReadText(const fs::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string FirstLine(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<size_t> ToNumber(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  size_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  // "32768K", as caches are given.
  return stop != text.data() + text.size() && *stop == 'K' ? number * 1024 : number;
}

// The value of the first "key   : value" line.
std::string Field(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view name = line.substr(0, colon);
    while (!name.empty() && (name.back() == '\t' || name.back() == ' ')) name.remove_suffix(1);
    if (name != key) continue;
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    return std::string(value);
  }
  return {};
}

int CountNumaNodes(const fs::path& folder) {
  int count = 0;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (name.size() > 4 && name.compare(0, 4, "node") == 0 && name[4] >= '0' && name[4] <= '9') ++count;
  }
  return count;
}

int UsableCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

Machine ReadMachine(const std::string& root) {
  const fs::path base(root);
  Machine machine;
  const std::string cpuinfo = ReadText(base / "proc/cpuinfo");
  machine.cpu = Field(cpuinfo, "model name");
  machine.logical_cores = UsableCores();
  machine.physical_cores = backend::PhysicalCores();
  machine.numa_nodes = CountNumaNodes(base / "sys/devices/system/node");
  machine.l3_bytes = ToNumber(FirstLine(base / "sys/devices/system/cpu/cpu0/cache/index3/size")).value_or(0);

  std::istringstream flags(Field(cpuinfo, "flags"));
  std::set<std::string> present;
  for (std::string flag; flags >> flag;) present.insert(flag);
  for (const std::string_view feature : kFeatures) {
    if (present.count(std::string(feature)) > 0) machine.features.emplace_back(feature);
  }

  machine.memory_bytes = TotalMemoryBytes();
  machine.available_bytes = AvailableMemoryBytes();
  const std::string meminfo = ReadText(base / "proc/meminfo");
  machine.huge_page_bytes = ToNumber(Field(meminfo, "HugePages_Free")).value_or(0) *
                            ToNumber(Field(meminfo, "Hugepagesize")).value_or(0) * 1024;

  // "always [madvise] never": the one in brackets holds.
  const std::string huge = FirstLine(base / "sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = huge.find('[');
  const size_t close = huge.find(']');
  if (open != std::string::npos && close > open)
    machine.transparent_huge_pages = huge.substr(open + 1, close - open - 1);
  return machine;
}

}  // namespace kvasir::cli
