// Communicator: one NCCL communicator over the GPUs of a group, of this process or of several.
//
// Non-blocking: no call waits inside NCCL, so that a rank that fails never leaves another hanging.
// Threads: different ranks may be used by different threads at once, one rank by one at a time; Abort by any
// thread at any moment.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "core/plan.h"
#include "core/span.h"
#include "core/status.h"
#include "core/threads.h"
#include "drivers/nccl/group.h"
#include "drivers/nccl/nccl_api.h"

namespace rondo::nccl {

// What a communicator wants of the process that it is in.
struct ProcessHooks {
  // Make the context of a rank's device current for the caller's thread, and give the old one back.
  void (*enter)(void* user, uint32_t device) = nullptr;
  void (*leave)(void* user) = nullptr;
  // OK, or why another process's ranks will not come. Null: there are none.
  Status (*others)(void* user) = nullptr;
  void* user = nullptr;
  uint32_t process = 0;  // its number, in RankPlace
};

// What rank 0's process makes, and all others must be given.
Result<UniqueId> MakeId(const Api& api);

class Communicator {
 public:
  // With a rank at each of `places`, numbered in that order; those of this process are made here, the others
  // by theirs, with the same `id` (null: all are here). Blocks until all are connected, at most for
  // `patience_ns` a rank. Each rank has a thread, which sleeps until the communicator ends. Errors:
  // CheckGroup's, kInternal (what NCCL says, or that it takes too long), kOutOfMemory, what the hooks say of
  // others.
  static Result<Communicator*> Create(const Api& api, Span<const RankPlace> places, const UniqueId* id,
                                      uint64_t patience_ns, const ProcessHooks& hooks,
                                      const ThreadHooks& threads);
  // Nothing may be in flight, and no graph that holds one of its collectives may exist.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Of each rank.
  Span<const RankPlace> places() const { return {places_.get(), num_ranks_}; }

  // Enqueues (or records) `rank`'s part of a collective on `stream`; that rank's context must be current.
  // Returns once NCCL has enqueued it.
  Status Enqueue(uint32_t rank, const SyncPoint& point, const void* from, void* to, Stream stream);

  // What one rank does about a collective.
  struct Share {
    const void* from = nullptr;
    void* to = nullptr;
    Stream stream = nullptr;
  };
  // The same of all ranks, on the caller's thread: one call for each would wait for the others, who come
  // after it. Contexts are seen to.
  Status EnqueueAll(const SyncPoint& point, Span<const Share> shares);

  // Ends all that is in flight, on all ranks: kernels stop within moments, and the communicator is of no use
  // from then on. Waits for nothing: NCCL's own abort raises its flags and then may wait until graphs are
  // destroyed, which is what the ranks' threads are for.
  void Abort();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  struct Rank {
    Communicator* owner = nullptr;
    uint32_t number = 0;
    Comm comm = nullptr;
    void* thread = nullptr;
    bool started = false;
  };
  // A thread that is in calls of NCCL's on the ranks: they are not ended under it.
  class Calling {
   public:
    explicit Calling(Communicator* owner);
    ~Calling();
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;
    // OK, or that the ranks are being ended.
    Status status() const;

   private:
    Communicator* const owner_;
    bool entered_ = false;
  };
  Communicator(const Api& api, const ProcessHooks& hooks, const ThreadHooks& threads)
      : api_(api), hooks_(hooks), threads_(threads) {}
  Status StartThreads();
  Status Connect(const UniqueId* given, uint64_t patience_ns);
  bool IsHere(size_t rank) const { return places_[rank].process == hooks_.process; }
  // Has the threads of all ranks call `end`, unless they have been told before. All at once, since one rank
  // may wait for the others.
  void End(Result_t (*end)(Comm comm));
  static void* EndRank(void* rank);
  // One call of NCCL, whose name becomes `name`.
  Result_t Call(uint32_t rank, const SyncPoint& point, const Share& share, const char** name);
  // To and from every rank, itself included.
  Result_t CallAllToAll(uint32_t rank, const Share& share, size_t count, int type, size_t bytes,
                        const char** name);
  Status CheckAdds(const SyncPoint& point) const;
  // Waits until the rank's last call is through, at most for `patience_ns` (0: without limit).
  Status Settle(uint32_t rank, Result_t result, const char* call, uint64_t patience_ns = 0);

  const Api& api_;
  const ProcessHooks hooks_;
  const ThreadHooks threads_;
  size_t num_ranks_ = 0;
  std::unique_ptr<RankPlace[]> places_;
  std::unique_ptr<Rank[]> ranks_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards end_ and calling_
  std::condition_variable ends_;
  uint32_t calling_ = 0;                  // threads
  Result_t (*end_)(Comm comm) = nullptr;  // ncclCommAbort or ncclCommDestroy
};

}  // namespace rondo::nccl
