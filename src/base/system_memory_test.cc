#include "base/system_memory.h"

#include <gtest/gtest.h>

namespace kvasir {
namespace {

TEST(SystemMemory, AvailableIsPartOfTotal) {
  EXPECT_GT(AvailableMemoryBytes(), 0u);
  EXPECT_LE(AvailableMemoryBytes(), TotalMemoryBytes());
}

TEST(SystemMemory, SizesAreWrittenInTheUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(size_t{512} << 20), "512 MiB");
  EXPECT_EQ(FormatBytes(size_t{5} << 40), "5.0 TiB");
}

}  // namespace
}  // namespace kvasir
