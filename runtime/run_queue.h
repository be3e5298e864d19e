// RunQueue: the runs that RunAsync has accepted, and the threads that execute them. Internal to runtime/.
//
// A session is in the queue at most once, and is itself the link, so a run allocates nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "core/status.h"
#include "core/threads.h"

namespace rondo {

struct SessionImpl;

inline constexpr uint32_t kMaxAsyncWorkers = 64;

class RunQueue {
 public:
  RunQueue() = default;
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;
  // Ends and joins the workers. The queue must be empty, and the caller must not be a worker.
  ~RunQueue();

  Status Start(const ThreadHooks& hooks, uint32_t workers);
  uint32_t workers() const { return workers_; }
  // Whether the calling thread is one of the workers.
  bool OnWorker() const;

  // Appends a session whose pending run has been filled in. After the completion has been called, others may
  // have destroyed the session and the runtime, so neither is touched any more.
  void Push(SessionImpl* session);
  // Blocks until the session has no pending run. On a worker, which might wait for itself:
  // kFailedPrecondition if there is one.
  Status Wait(SessionImpl* session);
  // The same for a session that is being destroyed. On a worker, a run that has not begun is taken out of the
  // queue and its completion called. Also waits until no thread is inside Wait.
  void Drain(SessionImpl* session);

 private:
  static void* Main(void* queue);
  void Serve();
  // Takes `session` out of the queue. The lock must be held. False: it was not in the queue.
  bool Unlink(SessionImpl* session);

  ThreadHooks hooks_;
  uint32_t workers_ = 0;
  void* threads_[kMaxAsyncWorkers] = {};
  std::mutex mutex_;  // guards what follows, and `next`, `active` and `waiting` of sessions' pending runs
  std::condition_variable wake_;
  std::condition_variable ended_;
  SessionImpl* first_ = nullptr;
  SessionImpl* last_ = nullptr;
  bool stop_ = false;
};

}  // namespace rondo
