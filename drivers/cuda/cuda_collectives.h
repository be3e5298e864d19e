// CudaCollectives: what the collectives of one program of one session need on its GPUs. Internal to
// drivers/cuda.
#ifndef RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_
#define RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_

#include <memory>
#include <mutex>
#include <vector>

#include "core/driver.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/nccl/communicator.h"

namespace rondo::cuda {

// The communicators that sessions share: one a group of devices, as long as somebody uses it. Thread-safe.
class CommunicatorTable {
 public:
  CommunicatorTable(const nccl::Api& api, const nccl::ContextHooks& hooks) : api_(api), hooks_(hooks) {}
  // The one over `devices` (of the driver, in the order of their ranks), made if there is none in working
  // order.
  Result<nccl::Communicator*> Acquire(Span<const uint32_t> devices);
  void Release(nccl::Communicator* communicator);

 private:
  struct Entry {
    std::unique_ptr<nccl::Communicator> communicator;
    uint32_t users = 0;
  };
  const nccl::Api& api_;
  const nccl::ContextHooks hooks_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

class CudaCollectives {
 public:
  // `devices[i]` is the program's device i; `numbers` are theirs in the driver.
  static Result<CudaCollectives*> Create(const Program& program, const std::vector<CudaDevice*>& devices,
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
    std::vector<EventHandle> started, ended;  // one a sync point
  };
  explicit CudaCollectives(CommunicatorTable& table) : table_(table) {}
  Status MakeMember(CudaDevice* device, size_t sync_points);
  Member& MemberOf(const CollectivePart& part) { return members_[part.point->participants[part.rank]]; }

  CommunicatorTable& table_;
  std::vector<nccl::Communicator*> communicators_;  // by SyncPoint::communicator
  std::vector<Member> members_;                     // by the program's device
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_
