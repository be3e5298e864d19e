// CudaCollectives: what the collectives of one program of one session need on its GPUs. Internal to
// drivers/cuda.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "core/driver.h"
#include "core/list.h"
#include "drivers/cuda/collective_notes.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/peer_collectives/choose.h"
#include "drivers/cuda/peer_collectives/peers.h"
#include "drivers/cuda/peer_collectives/small_group.h"
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
  // working order; by `id` a new one if its ranks are in several processes. There, every program of a session
  // has its own: runs that come in another order in another process wait for each other, which the watchdog
  // ends, and never mix their data.
  Result<nccl::Communicator*> Acquire(Span<const nccl::RankPlace> places, const nccl::UniqueId* id = nullptr);
  // Whether ranks at `places` can be connected (nccl::CanConnect).
  Status Check(Span<const nccl::RankPlace> places) const { return nccl::CanConnect(api_, places); }
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

// What the collectives of a driver share.
struct CollectiveMeans {
  CommunicatorTable* nccl = nullptr;  // null: there is none,
  Status nccl_status;                 // and why
  PeerTable* peers = nullptr;
  Processes* processes = nullptr;  // with which plans are run, by NCCL alone; null: this process alone
  CollectiveKernels kernels = CollectiveKernels::kNccl;
  Span<const SmallUpTo> small_up_to = {};  // with kAuto: what was measured
  uint64_t limit_ns = 0;                   // that a rank of a small collective waits for another
};

class CudaCollectives {
 public:
  // `numbers[i]` is the number of the program's device i among the driver's `devices`; several may be one.
  // With `means.processes`, only that of this process is one of them. `means` must outlive the result.
  static Result<CudaCollectives*> Create(const Program& program, Span<CudaDevice* const> devices,
                                         Span<const uint32_t> numbers, const CollectiveMeans& means);
  ~CudaCollectives();
  CudaCollectives(const CudaCollectives&) = delete;
  CudaCollectives& operator=(const CudaCollectives&) = delete;

  // On the device's own stream for collectives, after what `stream` has been given so far. What is recorded
  // is enqueued at once, each rank's on a thread of its own; what is not, by the rank that comes last, for
  // all where all are in this process (and, recorded where several ranks share a GPU, on `stream` itself: a
  // branch of a graph takes one of the GPU's few queues), so that one thread may begin the collectives of
  // several ranks. Wait waits for that one, or for Abort. A small one is enqueued at once in any case, and in
  // a graph on `stream` itself also if its step is the one before its wait: the kernels around it may be
  // launched as dependents then. `stream` is told if it does not come to its end.
  Status Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to, CudaStream* stream);
  Status Wait(const CollectivePart& part, CudaStream* stream);
  // Enqueues what `stream`, which records, holds; with `norm` if that is not null: Takes has said so.
  Status EnqueueHeld(const small::Norm* norm, CudaStream* stream);
  // What `stream` holds, if anything, is not enqueued any more.
  static void Drop(CudaStream* stream);
  // Whether the kernels of a collective can go on with `norm`.
  bool Takes(const small::Norm& norm, const CollectivePart& part) const;
  // OK, or that an earlier failure has ended a communicator.
  Status Begin();
  void Abort();
  // How far the program's device `device`, one of this process's, has come by what has been noted. Where all
  // devices are this process's, none notes an end: a collective that all have come to is taken for ended.
  // From any thread.
  CollectiveProgress Progress(uint32_t device) const;
  // Of the part's device, where they are noted on a stream beside those that work; else null.
  CollectiveNotes* NotesBeside(const CollectivePart& part);

 private:
  struct Member {
    CudaDevice* device = nullptr;
    bool several_ranks = false;  // on its GPU
    StreamHandle stream = nullptr;
    GrowingList<EventHandle> started, ended;  // one a sync point
    GrowingList<uint32_t> starts;             // the sync points that the device starts, in order
    GrowingList<uint32_t> counts;             // where in that a sync point is
    CollectiveNotes notes;
    // The same: what is to be enqueued when the last rank has come; no stream: nothing. Guarded by mutex_.
    GrowingList<nccl::Communicator::Share> posted;
    // The small collective begun last, in which recording (0: none), and on which stream.
    uint32_t last = kNone;
    uint64_t last_recording = 0;
    StreamHandle last_stream = nullptr;
    CudaStream* holder = nullptr;       // whose next collective is one of this member's
    GrowingList<StreamHandle> between;  // one a sync point: the stream of kernels that it runs among, or null
  };
  CudaCollectives(const Program& program, const CollectiveMeans& means) : program_(program), means_(means) {}
  Status Prepare(const Program& program, Span<CudaDevice* const> devices, Span<const uint32_t> numbers);
  // Where all devices of the program are.
  Result<GrowingList<nccl::RankPlace>> FindPlaces(Span<CudaDevice* const> devices,
                                                  Span<const uint32_t> numbers);
  // What communicator `number` of the program needs: a small group, an NCCL communicator, or both.
  Status Connect(const Program& program, uint32_t number, Span<const nccl::RankPlace> places);
  // NCCL's over `ranks`, in which the program's device `leader` is rank 0; null if none is this process's.
  Result<nccl::Communicator*> ConnectNccl(Span<const nccl::RankPlace> ranks, uint32_t leader);
  Status ConnectSmall(const Program& program, uint32_t number, const SyncPoint& first);
  Status MakeMember(const Program& program, uint32_t device, Member* member);
  Status StartSmall(const CollectivePart& part, DeviceAddress from, DeviceAddress to, CudaStream* stream);
  Status EnqueueSmall(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                      const small::Norm* norm, CudaStream* stream);
  static Status Follow(const Member& member, uint32_t sync_point, StreamHandle stream);
  // Whether it may go on with a norm.
  bool MayGoOn(uint32_t sync_point) const;
  // Whether the next step of its device is the wait for it, on its stream.
  bool IsWaitedForAtOnce(const CollectivePart& part) const;
  Status Post(const CollectivePart& part, const nccl::Communicator::Share& share);
  Status Ended(Member* member, uint32_t sync_point, StreamHandle on);
  // Whether all its participants, which are this process's, have come to it.
  bool AllHaveStarted(uint32_t sync_point) const;
  Member& MemberOf(const CollectivePart& part) { return members_[part.point->participants[part.rank]]; }

  const Program& program_;
  const CollectiveMeans& means_;
  GrowingList<SmallKernel> kernels_;                // by sync point; kNone: NCCL does it
  GrowingList<nccl::Communicator*> communicators_;  // by SyncPoint::communicator; null where it is not needed
  GrowingList<SmallGroup*> groups_;                 // the same; owned
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Member[]> members_;  // by the program's device
  size_t num_members_ = 0;
  std::mutex mutex_;
  std::unique_ptr<nccl::Communicator::Share[]> shares_;  // of one collective; guarded by mutex_
  std::condition_variable posted_;                       // something has been enqueued, or will not be
};

}  // namespace rondo::cuda
