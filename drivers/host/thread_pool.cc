#include "drivers/host/thread_pool.h"

#include <sched.h>

namespace rondo::host {
namespace {

constexpr int kSpins = 4000;  // a few tens of microseconds before a worker sleeps

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Status ThreadPool::Start(uint32_t threads, const ThreadHooks& hooks) {
  hooks_ = hooks;
  for (uint32_t i = 1; i < threads; ++i) {
    const int error = hooks_.start(hooks_.user, Main, this, &handles_[workers_]);
    if (error != 0) {
      return Status::Error(Code::kOutOfMemory, "host driver: thread %u of %u could not be started (error %d)",
                           i + 1, threads, error);
    }
    ++workers_;
  }
  return Status::Ok();
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  pthread_mutex_lock(&mutex_);
  pthread_cond_broadcast(&wake_);
  pthread_mutex_unlock(&mutex_);
  for (uint32_t i = 0; i < workers_; ++i) hooks_.join(hooks_.user, handles_[i]);
}

void* ThreadPool::Main(void* pool) {
  ThreadPool* self = static_cast<ThreadPool*>(pool);
  self->Serve(self->next_index_.fetch_add(1));
  return nullptr;
}

// Waits until there is a round after `seen`. False: stop.
bool ThreadPool::Sleep(uint64_t seen) {
  for (int i = 0; i < kSpins; ++i) {
    if (round_.load(std::memory_order_acquire) != seen) return true;
    if (stop_.load(std::memory_order_relaxed)) return false;
    Pause();
  }
  pthread_mutex_lock(&mutex_);
  sleeping_.fetch_add(1);
  while (round_.load() == seen && !stop_.load()) pthread_cond_wait(&wake_, &mutex_);
  sleeping_.fetch_sub(1);
  pthread_mutex_unlock(&mutex_);
  return !stop_.load();
}

void ThreadPool::Serve(uint32_t index) {
  uint64_t seen = 0;
  while (Sleep(seen)) {
    ++seen;  // every worker takes part in every round, so it never misses one
    if (index < shares_) work_(context_, index, shares_);
    pending_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void ThreadPool::Run(Work work, void* context, uint32_t shares) {
  if (shares > workers_ + 1) shares = workers_ + 1;
  bool idle = false;
  if (shares <= 1 || !busy_.compare_exchange_strong(idle, true, std::memory_order_acquire)) {
    work(context, 0, 1);
    return;
  }
  work_ = work;
  context_ = context;
  shares_ = shares;
  pending_.store(workers_, std::memory_order_relaxed);
  round_.fetch_add(1);
  if (sleeping_.load() != 0) {
    pthread_mutex_lock(&mutex_);
    pthread_cond_broadcast(&wake_);
    pthread_mutex_unlock(&mutex_);
  }
  work(context, 0, shares);
  for (int i = 0; pending_.load(std::memory_order_acquire) != 0; ++i) {
    if (i < kSpins) {
      Pause();
    } else {
      sched_yield();
    }
  }
  busy_.store(false, std::memory_order_release);
}

}  // namespace rondo::host
