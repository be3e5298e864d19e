// Threads that split one piece of work at a time. Starting work allocates nothing.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/status.h"
#include "core/threads.h"

namespace rondo::host {

inline constexpr uint32_t kMaxThreads = 256;

// Work(context, share, shares): the share-th of `shares` equal parts of the work.
using Work = void (*)(void* context, uint32_t share, uint32_t shares);

class ThreadPool {
 public:
  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Starts threads - 1 workers; the caller of Run is the last one.
  Status Start(uint32_t threads, const ThreadHooks& hooks = DefaultThreadHooks());
  uint32_t threads() const { return workers_ + 1; }

  // Runs `work` in at most `shares` shares and returns when all are done. Share 0 runs on the caller. If
  // another thread is using the workers, the caller runs everything alone, as one share.
  void Run(Work work, void* context, uint32_t shares);

 private:
  static void* Main(void* pool);
  void Serve(uint32_t index);
  // Waits for a round other than `seen` in which worker `index` has a share. 0: stop.
  uint64_t AwaitRound(uint32_t index, uint64_t seen);
  bool AnyAsleep(uint32_t shares) const;

  uint32_t workers_ = 0;
  ThreadHooks hooks_;
  void* handles_[kMaxThreads] = {};
  std::atomic<uint32_t> next_index_{1};

  std::atomic<bool> busy_{false};  // a caller owns the workers
  // The number of rounds, times kRound, plus the number of shares of the current round. A worker without a
  // share reads nothing else and may miss rounds; the caller waits for all others.
  std::atomic<uint64_t> round_{0};
  std::atomic<uint32_t> pending_{0};  // workers that have not finished this round
  std::atomic<bool> asleep_[kMaxThreads] = {};
  std::atomic<bool> stop_{false};
  Work work_ = nullptr;
  void* context_ = nullptr;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace rondo::host
