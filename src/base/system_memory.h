// base/system_memory.h
// How much memory this process can still take: the machine's available memory, or less where a control group limits it.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <string>

namespace kvasir {

// Bytes; 0 when the system does not say.
size_t AvailableMemoryBytes();
size_t TotalMemoryBytes();

// "1.9 GiB", "512 MiB", "64 B"
std::string FormatBytes(size_t bytes);

}  // namespace kvasir
