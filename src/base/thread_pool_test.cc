#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace kvasir {
namespace {

TEST(ThreadPool, RunsEveryChunkOnce) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (const int64_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
      pool.Run(chunks, [&](int64_t chunk, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        ++runs[static_cast<size_t>(chunk)];
      });
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, RegionsFollowEachOther) {
  ThreadPool pool(3);
  int64_t sum = 0;  // written by the caller between regions only
  for (int region = 0; region < 2000; ++region) {
    std::atomic<int64_t> part{0};
    pool.Run(5, [&](int64_t chunk, int) { part += chunk; });
    sum += part;
  }
  EXPECT_EQ(sum, 2000 * 10);
}

}  // namespace
}  // namespace kvasir
