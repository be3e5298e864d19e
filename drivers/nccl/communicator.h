// Communicator: one NCCL communicator over the GPUs of a group, all of this process.
//
// Non-blocking: no call waits inside NCCL, so that a rank that fails never leaves another hanging.
// Threads: different ranks may be used by different threads at once, one rank by one at a time; Abort by any
// thread at any moment.
#ifndef RONDO_DRIVERS_NCCL_COMMUNICATOR_H_
#define RONDO_DRIVERS_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <memory>
#include <mutex>

#include "core/plan.h"
#include "core/span.h"
#include "core/status.h"
#include "core/threads.h"
#include "drivers/nccl/nccl_api.h"

namespace rondo::nccl {

// Makes the context of a rank's device current for the caller's thread, and gives the old one back.
struct ContextHooks {
  void (*enter)(void* user, uint32_t device) = nullptr;
  void (*leave)(void* user) = nullptr;
  void* user = nullptr;
};

class Communicator {
 public:
  // Over `devices`, whose ranks are their places in the list. Blocks until all ranks are connected.
  static Result<Communicator*> Create(const Api& api, Span<const uint32_t> devices, const ContextHooks& hooks,
                                      const ThreadHooks& threads);
  // Nothing may be in flight, and no graph that holds one of its collectives may exist.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Of each rank.
  Span<const uint32_t> devices() const { return {devices_.get(), num_ranks_}; }

  // Enqueues (or records) `rank`'s part of a collective on `stream`; that rank's context must be current.
  // Returns once NCCL has enqueued it.
  Status Enqueue(uint32_t rank, const SyncPoint& point, const void* from, void* to, Stream stream);

  // Ends all that is in flight, on all ranks: kernels stop within moments, and the communicator is of no use
  // from then on. NCCL's own abort may wait for graphs to be destroyed, so it runs on threads that the
  // destructor joins, or, where none can be had, on the caller's.
  void Abort();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  // What is done to all ranks at once, since one may wait for the others.
  struct Rank {
    Communicator* owner = nullptr;
    uint32_t number = 0;
    Comm comm = nullptr;
    Result_t (*end)(Comm comm) = nullptr;  // ncclCommAbort or ncclCommDestroy
    void* thread = nullptr;
    bool started = false;
  };
  Communicator(const Api& api, const ContextHooks& hooks, const ThreadHooks& threads)
      : api_(api), hooks_(hooks), threads_(threads) {}
  Status Connect();
  // Calls `end` for every rank that there is, each on a thread of its own.
  void EndAll(Result_t (*end)(Comm comm));
  void JoinAll();
  static void* End(void* rank);
  // To and from every rank, itself included.
  Status EnqueueAllToAll(uint32_t rank, const char* from, char* to, size_t count, int type, size_t bytes,
                         Stream stream);
  // Waits until the rank's last call is through.
  Status Settle(uint32_t rank, Result_t result, const char* call);

  const Api& api_;
  const ContextHooks hooks_;
  const ThreadHooks threads_;
  size_t num_ranks_ = 0;
  std::unique_ptr<uint32_t[]> devices_;
  std::unique_ptr<Rank[]> ranks_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // of Abort
};

}  // namespace rondo::nccl

#endif  // RONDO_DRIVERS_NCCL_COMMUNICATOR_H_
