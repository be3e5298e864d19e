// CudaCollectives: what the collectives of one program of one session need on its GPUs. Internal to
// drivers/cuda.
#ifndef RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_
#define RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_

#include <memory>
#include <mutex>

#include "core/driver.h"
#include "core/list.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/nccl/communicator.h"

namespace rondo::cuda {

// The communicators that sessions share: one a group of ranks, as long as somebody uses it. Thread-safe.
class CommunicatorTable {
 public:
  // Connecting a group may take `patience_ns`.
  CommunicatorTable(const nccl::Api& api, uint64_t patience_ns, const nccl::ContextHooks& hooks,
                    const ThreadHooks& threads)
      : api_(api), patience_ns_(patience_ns), hooks_(hooks), threads_(threads) {}
  ~CommunicatorTable();
  CommunicatorTable(const CommunicatorTable&) = delete;
  CommunicatorTable& operator=(const CommunicatorTable&) = delete;
  // The one over `places` (devices of the driver, in the order of their ranks), made if there is none in
  // working order.
  Result<nccl::Communicator*> Acquire(Span<const nccl::RankPlace> places);
  void Release(nccl::Communicator* communicator);

 private:
  struct Entry {
    nccl::Communicator* communicator = nullptr;  // owned
    uint32_t users = 0;
  };
  const nccl::Api& api_;
  const uint64_t patience_ns_;
  const nccl::ContextHooks hooks_;
  const ThreadHooks threads_;
  std::mutex mutex_;
  GrowingList<Entry> entries_;
};

class CudaCollectives {
 public:
  // `numbers[i]` is the number of the program's device i among the driver's `devices`; several may be one.
  static Result<CudaCollectives*> Create(const Program& program, Span<CudaDevice* const> devices,
                                         Span<const uint32_t> numbers, CommunicatorTable& table);
  ~CudaCollectives();
  CudaCollectives(const CudaCollectives&) = delete;
  CudaCollectives& operator=(const CudaCollectives&) = delete;

  // On the device's own stream for collectives, after what `stream` has been given so far.
  Status Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to, StreamHandle stream);
  Status Wait(const CollectivePart& part, StreamHandle stream);
  // OK, or that an earlier failure has ended a communicator.
  Status Begin() const;
  void Abort();

 private:
  struct Member {
    CudaDevice* device = nullptr;
    StreamHandle stream = nullptr;
    GrowingList<EventHandle> started, ended;  // one a sync point
  };
  explicit CudaCollectives(CommunicatorTable& table) : table_(table) {}
  Status Prepare(const Program& program, Span<CudaDevice* const> devices, Span<const uint32_t> numbers);
  Status MakeMember(Member* member, size_t sync_points);
  Member& MemberOf(const CollectivePart& part) { return members_[part.point->participants[part.rank]]; }

  CommunicatorTable& table_;
  GrowingList<nccl::Communicator*> communicators_;  // by SyncPoint::communicator
  std::unique_ptr<Member[]> members_;               // by the program's device
  size_t num_members_ = 0;
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_
