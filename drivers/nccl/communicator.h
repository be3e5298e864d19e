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

// The process's callbacks for a communicator.
struct ProcessHooks {
  // Makes the context of a rank's device current for the calling thread; `leave` restores the old one.
  void (*enter)(void* user, uint32_t device) = nullptr;
  void (*leave)(void* user) = nullptr;
  // OK, or why the ranks of another process will not come. Null: all ranks are in this process.
  Status (*others)(void* user) = nullptr;
  void* user = nullptr;
  uint32_t process = 0;  // its index, as in RankPlace
};

// Made by rank 0's process, and passed to all others.
Result<UniqueId> MakeId(const Api& api);

class Communicator {
 public:
  // One rank at each of `places`, in that order. The ranks of this process are made here, the others by their
  // processes with the same `id` (null: all are here). Blocks until all are connected, at most `patience_ns`
  // for each rank. Each rank has a thread, which sleeps until the communicator ends. Errors: CheckGroup's,
  // kInternal (NCCL's error, or a timeout), kOutOfMemory, the hooks' error about others.
  static Result<Communicator*> Create(const Api& api, Span<const RankPlace> places, const UniqueId* id,
                                      uint64_t patience_ns, const ProcessHooks& hooks,
                                      const ThreadHooks& threads);
  // Nothing may be in flight, and no graph with one of its collectives may exist.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // One for each rank.
  Span<const RankPlace> places() const { return {places_.get(), num_ranks_}; }

  // Enqueues (or records) `rank`'s part of a collective on `stream`; that rank's context must be current.
  // Returns once NCCL has enqueued it.
  Status Enqueue(uint32_t rank, const SyncPoint& point, const void* from, void* to, Stream stream);

  // One rank's memory and stream for a collective.
  struct Share {
    const void* from = nullptr;
    void* to = nullptr;
    Stream stream = nullptr;
  };
  // The same for all ranks, on the caller's thread: a call for each rank would wait for the later ones. Sets
  // the contexts.
  Status EnqueueAll(const SyncPoint& point, Span<const Share> shares);

  // Ends everything in flight on all ranks: kernels stop within moments, and the communicator is unusable
  // from then on. Does not wait: NCCL's own abort raises its flags and may then wait until graphs are
  // destroyed; the ranks' threads do that.
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
  // A thread inside NCCL calls on the ranks, which are not ended meanwhile.
  class Calling {
   public:
    explicit Calling(Communicator* owner);
    ~Calling();
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;
    // OK, or an error that the ranks are being ended.
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
  // Makes the threads of all ranks call `end`, unless they were told before. All at once, since one rank may
  // wait for the others.
  void End(Result_t (*end)(Comm comm));
  static void* EndRank(void* rank);
  // One NCCL call, whose name is stored in `name`.
  Result_t Call(uint32_t rank, const SyncPoint& point, const Share& share, const char** name);
  // Sends to and receives from every rank, itself included.
  Result_t CallAllToAll(uint32_t rank, const Share& share, size_t count, int type, size_t bytes,
                        const char** name);
  Status CheckAdds(const SyncPoint& point) const;
  // Waits until the rank's last call is complete, at most `patience_ns` (0: without limit).
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
