#include "base/system_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace kvasir {
namespace {

size_t MeminfoBytes(const std::string& field) {
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  size_t kilobytes = 0;
  while (meminfo >> name >> kilobytes) {
    std::getline(meminfo, unit);
    if (name == field + ":") return kilobytes * 1024;
  }
  return 0;
}

// Room below the limit of the control group (version 2) we run in; no limit gives the largest number.
size_t ControlGroupRoom() {
  size_t limit = 0, used = 0;
  std::ifstream max("/sys/fs/cgroup/memory.max"), current("/sys/fs/cgroup/memory.current");
  if (!(max >> limit) || !(current >> used)) return std::numeric_limits<size_t>::max();
  return limit > used ? limit - used : 0;
}

}  // namespace

size_t AvailableMemoryBytes() {
  return std::min(MeminfoBytes("MemAvailable"), ControlGroupRoom());
}

size_t TotalMemoryBytes() {
  return MeminfoBytes("MemTotal");
}

std::string FormatBytes(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return value < 10 && unit > 0 ? fmt::format("{:.1f} {}", value, kUnits[unit])
                                : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

}  // namespace kvasir
