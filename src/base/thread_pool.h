// base/thread_pool.h
// A fixed team of threads that runs one parallel region after another, for kernels.
//
// A step is a few hundred regions of tens of microseconds, so the workers spin between regions while a step is in
// flight and sleep between steps. What it does not do: run unrelated tasks, nest, or queue.
//
// Thread rule: one thread (the caller) calls Run; it is worker 0 of every region.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kvasir {

class ThreadPool {
 public:
  // `threads` in all, the caller counted. REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(chunk, worker) once for each chunk in [0, chunks), spread over the team, and returns when all are done.
  // Which worker runs which chunk is not defined: chunks must be independent and their results must not depend on it.
  void Run(int64_t chunks, const std::function<void(int64_t chunk, int worker)>& task);

 private:
  void WorkerLoop(int worker);
  void TakeChunks(int worker);

  struct alignas(64) Padded {
    std::atomic<int64_t> value{0};
  };
  Padded generation_;  // raised to publish a region; -1 ends the team
  Padded next_chunk_;
  Padded working_;  // workers that have not finished the current region
  int64_t chunks_ = 0;
  const std::function<void(int64_t, int)>* task_ = nullptr;
  std::vector<std::thread> workers_;
};

}  // namespace kvasir
