// RunQueue: the runs that RunAsync has accepted, and the threads that execute them. Internal to runtime/.
//
// A session waits in the queue at most once, so it is its own link: nothing is allocated for a run.
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
  // Ends and joins the workers; the queue must be empty, and the caller none of them.
  ~RunQueue();

  Status Start(const ThreadHooks& hooks, uint32_t workers);
  uint32_t workers() const { return workers_; }
  // Whether the calling thread is one of the workers.
  bool OnWorker() const;

  // Appends a session whose pending run has been filled in. Once its completion has been told, others may
  // have destroyed the session, and the runtime too: nothing of either is touched after that.
  void Push(SessionImpl* session);
  // Blocks until the session has no pending run. On a worker, which might wait for itself:
  // kFailedPrecondition if there is one.
  Status Wait(SessionImpl* session);
  // The same for a session that is being destroyed. On a worker, a run that has not begun is taken out of the
  // queue and its completion told. Returns when nobody is inside Wait, either.
  void Drain(SessionImpl* session);

 private:
  static void* Main(void* queue);
  void Serve();
  // Takes `session` out of the queue, with the lock held. False: it is not in it.
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
