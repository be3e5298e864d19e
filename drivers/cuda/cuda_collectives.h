// CudaCollectives: what the collectives of one program of one session need on its GPUs. Internal to
// drivers/cuda.
#ifndef RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_
#define RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_

#include <condition_variable>
#include <memory>
#include <mutex>

#include "core/driver.h"
#include "core/list.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/nccl/communicator.h"
#include "drivers/processes/processes.h"

namespace rondo::cuda {

// The communicators that sessions share: one a group of ranks, as long as somebody uses it. Thread-safe.
class CommunicatorTable {
 public:
  // Connecting a group may take `patience_ns`.
  CommunicatorTable(const nccl::Api& api, uint64_t patience_ns, const nccl::ProcessHooks& hooks,
                    const ThreadHooks& threads)
      : api_(api), patience_ns_(patience_ns), hooks_(hooks), threads_(threads) {}
  ~CommunicatorTable();
  CommunicatorTable(const CommunicatorTable&) = delete;
  CommunicatorTable& operator=(const CommunicatorTable&) = delete;
  // The one over `places` (devices of the driver, in the order of their ranks), made if there is none in
  // working order, by `id` if its ranks are in several processes.
  Result<nccl::Communicator*> Acquire(Span<const nccl::RankPlace> places, const nccl::UniqueId* id = nullptr);
  // For rank 0 to give to the others.
  Result<nccl::UniqueId> MakeId() const { return nccl::MakeId(api_); }
  void Release(nccl::Communicator* communicator);

 private:
  struct Entry {
    nccl::Communicator* communicator = nullptr;  // owned
    uint32_t users = 0;
  };
  const nccl::Api& api_;
  const uint64_t patience_ns_;
  const nccl::ProcessHooks hooks_;
  const ThreadHooks threads_;
  std::mutex mutex_;
  GrowingList<Entry> entries_;
};

class CudaCollectives {
 public:
  // `numbers[i]` is the number of the program's device i among the driver's `devices`; several may be one.
  // With `processes` (or null), only that of this process is one of them.
  static Result<CudaCollectives*> Create(const Program& program, Span<CudaDevice* const> devices,
                                         Span<const uint32_t> numbers, CommunicatorTable& table,
                                         Processes* processes);
  ~CudaCollectives();
  CudaCollectives(const CudaCollectives&) = delete;
  CudaCollectives& operator=(const CudaCollectives&) = delete;

  // On the device's own stream for collectives, after what `stream` has been given so far. What is recorded
  // is enqueued at once, each rank's on a thread of its own; what is not, by the rank that comes last, for
  // all, so that one thread may begin the collectives of several ranks (but of one where others are in other
  // processes). Wait waits for that one, or for
  // Abort.
  Status Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to, StreamHandle stream,
               bool recorded);
  Status Wait(const CollectivePart& part, StreamHandle stream);
  // OK, or that an earlier failure has ended a communicator.
  Status Begin();
  void Abort();
  // What the program's device `device`, one of this process's, has noted. From any thread.
  CollectiveProgress Progress(uint32_t device) const;
  CollectiveNotes* NotesOf(const CollectivePart& part) { return &MemberOf(part).notes; }

 private:
  struct Member {
    CudaDevice* device = nullptr;
    StreamHandle stream = nullptr;
    GrowingList<EventHandle> started, ended;  // one a sync point
    GrowingList<uint32_t> counts;             // which of the device's starts a sync point's is, from 1 on
    CollectiveNotes notes;
    // The same: what is to be enqueued when the last rank has come; no stream: nothing. Guarded by mutex_.
    GrowingList<nccl::Communicator::Share> posted;
  };
  CudaCollectives(CommunicatorTable& table, Processes* processes) : table_(table), processes_(processes) {}
  Status Prepare(const Program& program, Span<CudaDevice* const> devices, Span<const uint32_t> numbers);
  Status MakeMember(const Program& program, uint32_t device, Member* member);
  // Where all devices of the program are.
  Result<GrowingList<nccl::RankPlace>> FindPlaces(Span<CudaDevice* const> devices,
                                                  Span<const uint32_t> numbers);
  // The communicator over `ranks`, in which `leader` is rank 0.
  Result<nccl::Communicator*> Connect(Span<const nccl::RankPlace> ranks, uint32_t leader, bool takes_part);
  Status Post(const CollectivePart& part, const nccl::Communicator::Share& share);
  Status Ended(Member* member, uint32_t sync_point);
  Member& MemberOf(const CollectivePart& part) { return members_[part.point->participants[part.rank]]; }

  CommunicatorTable& table_;
  Processes* const processes_;
  GrowingList<nccl::Communicator*> communicators_;  // by SyncPoint::communicator
  std::unique_ptr<Member[]> members_;               // by the program's device
  size_t num_members_ = 0;
  std::mutex mutex_;
  std::unique_ptr<nccl::Communicator::Share[]> shares_;  // of one collective; guarded by mutex_
  std::condition_variable posted_;                       // something has been enqueued, or will not be
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_CUDA_COLLECTIVES_H_
