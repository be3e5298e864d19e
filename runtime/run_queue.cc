#include "runtime/run_queue.h"

#include "runtime/session_impl.h"

namespace rondo {
namespace {

// The queue that the calling thread serves; null if none.
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
  std::lock_guard<std::mutex> lock(mutex_);
  session->pending.next = nullptr;
  session->pending.active = true;
  (last_ == nullptr ? first_ : last_->pending.next) = session;
  last_ = session;
  wake_.notify_one();  // with the lock held: a worker that ends the run may also destroy the queue
}

bool RunQueue::Unlink(SessionImpl* session) {
  SessionImpl* before = nullptr;
  SessionImpl** link = &first_;
  while (*link != nullptr && *link != session) {
    before = *link;
    link = &before->pending.next;
  }
  if (*link == nullptr) return false;
  *link = session->pending.next;
  if (last_ == session) last_ = before;
  return true;
}

Status RunQueue::Wait(SessionImpl* session) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (session->pending.active && OnWorker()) {
    return Status::Error(Code::kFailedPrecondition,
                         "a thread that executes asynchronous runs cannot wait for the end of one");
  }
  ++session->pending.waiting;
  while (session->pending.active) ended_.wait(lock);
  if (--session->pending.waiting == 0) ended_.notify_all();
  return Status::Ok();
}

void RunQueue::Drain(SessionImpl* session) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (session->pending.active && OnWorker() && Unlink(session)) {
    session->pending.active = false;
    const Completion completion = session->pending.completion;
    lock.unlock();
    if (completion.call != nullptr) {
      completion.call(completion,
                      Status::Error(Code::kAborted, "the session was destroyed before its run began"));
    }
    lock.lock();
  }
  while (session->pending.active || session->pending.waiting != 0) ended_.wait(lock);
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
    Unlink(session);
    lock.unlock();
    Status status = ExecutePending(session);
    const Completion completion = session->pending.completion;
    lock.lock();
    // After this, others may use and destroy the session.
    session->pending.active = false;
    session->busy.store(false, std::memory_order_release);
    ended_.notify_all();
    lock.unlock();
    if (completion.call != nullptr) completion.call(completion, status);
    lock.lock();
  }
}

}  // namespace rondo
