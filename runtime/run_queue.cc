#include "runtime/run_queue.h"

#include "runtime/session_impl.h"

namespace rondo {
namespace {

// The queue that the calling thread serves.
thread_local const RunQueue* served = nullptr;

}  // namespace

RunQueue::~RunQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (uint32_t i = 0; i < workers_; ++i) hooks_.join(hooks_.user, threads_[i]);
}

Status RunQueue::Start(const ThreadHooks& hooks, uint32_t workers) {
  if (workers > kMaxAsyncWorkers) {
    return Status::Error(Code::kInvalidArgument,
                         "%u asynchronous workers asked for; a runtime has at most %u", workers,
                         kMaxAsyncWorkers);
  }
  hooks_ = hooks;
  for (; workers_ < workers; ++workers_) {
    const int error = hooks_.start(hooks_.user, Main, this, &threads_[workers_]);
    if (error != 0) {
      return Status::Error(Code::kOutOfMemory, "asynchronous worker %u of %u could not be started (error %d)",
                           workers_ + 1, workers, error);
    }
  }
  return Status::Ok();
}

bool RunQueue::OnWorker() const { return served == this; }

void RunQueue::Push(SessionImpl* session) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    session->pending.next = nullptr;
    session->pending.active = true;
    (last_ == nullptr ? first_ : last_->pending.next) = session;
    last_ = session;
  }
  wake_.notify_one();
}

void RunQueue::Wait(SessionImpl* session) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (session->pending.active) ended_.wait(lock);
}

void* RunQueue::Main(void* queue) {
  static_cast<RunQueue*>(queue)->Serve();
  return nullptr;
}

void RunQueue::Serve() {
  served = this;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    while (first_ == nullptr && !stop_) wake_.wait(lock);
    if (first_ == nullptr) return;
    SessionImpl* session = first_;
    first_ = session->pending.next;
    if (first_ == nullptr) last_ = nullptr;
    lock.unlock();
    Status status = ExecutePending(session);
    const Completion completion = session->pending.completion;
    lock.lock();
    // From here on the session may be used, and destroyed, by others.
    session->pending.active = false;
    session->busy.store(false, std::memory_order_release);
    lock.unlock();
    ended_.notify_all();
    if (completion.call != nullptr) completion.call(completion, status);
    lock.lock();
  }
}

}  // namespace rondo
