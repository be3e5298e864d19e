// Communicator: one NCCL communicator over the GPUs of a group, all of this process.
//
// Non-blocking: no call waits inside NCCL, so that a rank that fails never leaves another hanging.
// Threads: different ranks may be used by different threads at once, one rank by one at a time; Abort by any
// thread at any moment.
#ifndef RONDO_DRIVERS_NCCL_COMMUNICATOR_H_
#define RONDO_DRIVERS_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "core/plan.h"
#include "core/span.h"
#include "core/status.h"
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
  static Result<Communicator*> Create(const Api& api, Span<const uint32_t> devices,
                                      const ContextHooks& hooks);
  // Nothing may be in flight, and no graph that holds one of its collectives may exist.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::vector<uint32_t>& devices() const { return devices_; }

  // Enqueues (or records) `rank`'s part of a collective on `stream`; that rank's context must be current.
  // Returns once NCCL has enqueued it.
  Status Enqueue(uint32_t rank, const SyncPoint& point, const void* from, void* to, Stream stream);

  // Ends all that is in flight, on all ranks: kernels stop within moments, and the communicator is of no use
  // from then on. NCCL's own abort may wait for graphs to be destroyed, so it runs on threads that the
  // destructor joins.
  void Abort();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  Communicator(const Api& api, const ContextHooks& hooks) : api_(api), hooks_(hooks) {}
  Status Connect();
  // Waits until the rank's last call is through.
  Status Settle(uint32_t rank, Result_t result, const char* call);

  const Api& api_;
  const ContextHooks hooks_;
  std::vector<uint32_t> devices_;
  std::vector<Comm> comms_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards aborters_
  std::vector<std::thread> aborters_;
};

}  // namespace rondo::nccl

#endif  // RONDO_DRIVERS_NCCL_COMMUNICATOR_H_
