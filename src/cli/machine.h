// cli/machine.h
// What Linux says about this machine: processor, memory, huge pages.
//
// Read from /proc and /sys. What cannot be read stays empty or zero; nothing here fails.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvasir::cli {

struct Machine {
  std::string cpu;        // "Intel(R) Xeon(R) Processor"
  int logical_cores = 0;  // that this process may use
  int physical_cores = 0;
  int numa_nodes = 0;
  size_t l3_bytes = 0;
  std::vector<std::string> features;  // of those that kernels use or could: "avx2", "avx512_vnni", ...
  size_t memory_bytes = 0;
  size_t available_bytes = 0;
  std::string transparent_huge_pages;  // "always", "madvise", "never"
  size_t huge_page_bytes = 0;          // reserved ones that are free
};

// `root` stands for "/"; other values are for tests.
Machine ReadMachine(const std::string& root = "/");

}  // namespace kvasir::cli
