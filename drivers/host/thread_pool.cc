#include "drivers/host/thread_pool.h"

#include <sched.h>

namespace rondo::host {
namespace {

constexpr int kSpins = 4000;  // some tens or hundreds of microseconds before a worker sleeps
constexpr uint64_t kRound = 1024;
static_assert(kMaxThreads < kRound);

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

uint64_t ThreadPool::AwaitRound(uint32_t index, uint64_t seen) {
  const auto is_mine = [&](uint64_t round) { return round != seen && index < round % kRound; };
  for (int i = 0; i < kSpins; ++i) {
    const uint64_t round = round_.load(std::memory_order_acquire);
    if (is_mine(round)) return round;
    if (stop_.load(std::memory_order_relaxed)) return 0;
    Pause();
  }
  pthread_mutex_lock(&mutex_);
  asleep_[index].store(true);
  uint64_t round = round_.load();
  while (!is_mine(round) && !stop_.load()) {
    pthread_cond_wait(&wake_, &mutex_);
    round = round_.load();
  }
  asleep_[index].store(false);
  pthread_mutex_unlock(&mutex_);
  return stop_.load() ? 0 : round;
}

void ThreadPool::Serve(uint32_t index) {
  for (uint64_t round = 0; (round = AwaitRound(index, round)) != 0;) {
    work_(context_, index, static_cast<uint32_t>(round % kRound));
    pending_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

bool ThreadPool::AnyAsleep(uint32_t shares) const {
  bool any = false;
  for (uint32_t i = 1; i < shares; ++i) any |= asleep_[i].load();
  return any;
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
  pending_.store(shares - 1, std::memory_order_relaxed);
  round_.store((round_.load(std::memory_order_relaxed) / kRound + 1) * kRound + shares);
  if (AnyAsleep(shares)) {
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
