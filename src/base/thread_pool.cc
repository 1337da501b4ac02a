#include "base/thread_pool.h"

#include "base/check.h"

namespace kvasir {
namespace {

// A worker that finds no region spins about this many times (tens of microseconds) before it sleeps. Waking a sleeper
// costs 5 us and more, a region often less: never sleep inside a step.
constexpr int kSpins = 20'000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  KVASIR_CHECK(threads >= 1);
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  generation_.value.store(-1);
  generation_.value.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t chunks, const std::function<void(int64_t, int)>& task) {
  if (workers_.empty() || chunks <= 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) task(chunk, 0);
    return;
  }
  chunks_ = chunks;
  task_ = &task;
  next_chunk_.value.store(0, std::memory_order_relaxed);
  working_.value.store(static_cast<int64_t>(workers_.size()), std::memory_order_relaxed);
  generation_.value.fetch_add(1, std::memory_order_release);
  generation_.value.notify_all();
  TakeChunks(0);
  while (working_.value.load(std::memory_order_acquire) != 0) Pause();
}

void ThreadPool::TakeChunks(int worker) {
  for (;;) {
    const int64_t chunk = next_chunk_.value.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= chunks_) return;
    (*task_)(chunk, worker);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  int64_t seen = 0;
  for (;;) {
    int spins = 0;
    int64_t generation = 0;
    while ((generation = generation_.value.load(std::memory_order_acquire)) == seen) {
      if (++spins < kSpins) {
        Pause();
      } else {
        generation_.value.wait(seen, std::memory_order_acquire);
      }
    }
    if (generation < 0) return;
    seen = generation;
    TakeChunks(worker);
    working_.value.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace kvasir
