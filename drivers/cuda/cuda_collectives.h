// CudaCollectives: the resources on the GPUs for the collectives of one program of one session. Internal to
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

// The communicators that sessions share: one for each group of ranks, as long as it has users. Thread-safe.
class CommunicatorTable {
 public:
  // Connecting a group may take up to `patience_ns`.
  CommunicatorTable(const nccl::Api& api, uint64_t patience_ns, const nccl::ProcessHooks& hooks,
                    const ThreadHooks& threads)
      : api_(api), patience_ns_(patience_ns), hooks_(hooks), threads_(threads) {}
  ~CommunicatorTable();
  CommunicatorTable(const CommunicatorTable&) = delete;
  CommunicatorTable& operator=(const CommunicatorTable&) = delete;
  // The communicator over `places` (devices of the driver, in rank order); created if none in working order
  // exists. With `id`, always a new one, for ranks in several processes: there, every program of a session
  // has its own. Runs that come in another order in another process then wait for each other, which the
  // watchdog ends, and never mix their data.
  Result<nccl::Communicator*> Acquire(Span<const nccl::RankPlace> places, const nccl::UniqueId* id = nullptr);
  // Whether ranks at `places` can be connected (nccl::CanConnect).
  Status Check(Span<const nccl::RankPlace> places) const { return nccl::CanConnect(api_, places); }
  // For rank 0, which passes it to the others.
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

// Resources shared by all collectives of a driver.
struct CollectiveMeans {
  CommunicatorTable* nccl = nullptr;  // null: not available,
  Status nccl_status;                 // and the reason
  PeerTable* peers = nullptr;
  Processes* processes = nullptr;  // that run plans together, by NCCL alone; null: this process only
  CollectiveKernels kernels = CollectiveKernels::kNccl;
  Span<const SmallUpTo> small_up_to = {};  // with kAuto: measured limits
  uint64_t limit_ns = 0;                   // how long a rank of a small collective waits for another
};

class CudaCollectives {
 public:
  // `numbers[i]` is the index of the program's device i among the driver's `devices`; several may be the
  // same. With `means.processes`, only this process's device is among them. `means` must outlive the result.
  static Result<CudaCollectives*> Create(const Program& program, Span<CudaDevice* const> devices,
                                         Span<const uint32_t> numbers, const CollectiveMeans& means);
  ~CudaCollectives();
  CudaCollectives(const CudaCollectives&) = delete;
  CudaCollectives& operator=(const CudaCollectives&) = delete;

  // Start runs on the device's own stream for collectives, after the work of `stream` so far; Wait waits for
  // that stream, or for Abort.
  // - While recording, each rank enqueues at once, on a thread of its own.
  // - Otherwise the last rank to come enqueues for all, if all are in this process, so that one thread may
  //   start the collectives of several ranks.
  // - Recorded where several ranks share a GPU: on `stream` itself, since a branch of a graph would take one
  //   of the GPU's few queues.
  // - A small collective is always enqueued at once. In a graph it is on `stream` itself also if its wait is
  //   the next step, so that the kernels around it may be launched as dependents.
  // `stream` gets the error if the collective does not complete.
  Status Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to, CudaStream* stream);
  Status Wait(const CollectivePart& part, CudaStream* stream);
  // Enqueues the collective that `stream`, which is recording, holds; fused with `norm` if that is not null
  // and Takes returned true.
  Status EnqueueHeld(const small::Norm* norm, CudaStream* stream);
  // Discards the collective that `stream` holds, if any.
  static void Drop(CudaStream* stream);
  // Whether the kernel of a collective can also do `norm`.
  bool Takes(const small::Norm& norm, const CollectivePart& part) const;
  // OK, or an error if an earlier failure has ended a communicator.
  Status Begin();
  void Abort();
  // The progress of the program's device `device`, one of this process's, from its notes. If all devices are
  // in this process, ends are not noted: a collective that all have reached counts as ended. From any thread.
  CollectiveProgress Progress(uint32_t device) const;
  // The notes of the part's device, if they are written on a stream beside the working ones; otherwise null.
  CollectiveNotes* NotesBeside(const CollectivePart& part);

 private:
  struct Member {
    CudaDevice* device = nullptr;
    bool several_ranks = false;  // on its GPU
    StreamHandle stream = nullptr;
    GrowingList<EventHandle> started, ended;  // one a sync point
    GrowingList<uint32_t> starts;             // the sync points that the device starts, in order
    GrowingList<uint32_t> counts;             // the position of each sync point in `starts`
    CollectiveNotes notes;
    // Likewise by sync point: what to enqueue when the last rank has come; no stream: nothing. Guarded by
    // mutex_.
    GrowingList<nccl::Communicator::Share> posted;
    // The small collective started last, with its recording (0: none) and its stream.
    uint32_t last = kNone;
    uint64_t last_recording = 0;
    StreamHandle last_stream = nullptr;
    CudaStream* holder = nullptr;       // the stream that holds a collective of this member
    GrowingList<StreamHandle> between;  // by sync point: the stream of the kernels around it, or null
  };
  CudaCollectives(const Program& program, const CollectiveMeans& means) : program_(program), means_(means) {}
  Status Prepare(const Program& program, Span<CudaDevice* const> devices, Span<const uint32_t> numbers);
  // The places of all devices of the program.
  Result<GrowingList<nccl::RankPlace>> FindPlaces(Span<CudaDevice* const> devices,
                                                  Span<const uint32_t> numbers);
  // Makes what communicator `number` of the program needs: a small group, an NCCL communicator, or both.
  Status Connect(const Program& program, uint32_t number, Span<const nccl::RankPlace> places);
  // The NCCL communicator over `ranks`, in which the program's device `leader` is rank 0; null if no rank is
  // in this process.
  Result<nccl::Communicator*> ConnectNccl(Span<const nccl::RankPlace> ranks, uint32_t leader);
  Status ConnectSmall(const Program& program, uint32_t number, const SyncPoint& first);
  Status MakeMember(const Program& program, uint32_t device, Member* member);
  Status StartSmall(const CollectivePart& part, DeviceAddress from, DeviceAddress to, CudaStream* stream);
  Status EnqueueSmall(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                      const small::Norm* norm, CudaStream* stream);
  static Status Follow(const Member& member, uint32_t sync_point, StreamHandle stream);
  // Whether the collective may be fused with a norm.
  bool MayGoOn(uint32_t sync_point) const;
  // Whether the device's next step, on the same stream, is the wait for it.
  bool IsWaitedForAtOnce(const CollectivePart& part) const;
  Status Post(const CollectivePart& part, const nccl::Communicator::Share& share);
  Status Ended(Member* member, uint32_t sync_point, StreamHandle on);
  // Whether all its participants, all in this process, have reached it.
  bool AllHaveStarted(uint32_t sync_point) const;
  Member& MemberOf(const CollectivePart& part) { return members_[part.point->participants[part.rank]]; }

  const Program& program_;
  const CollectiveMeans& means_;
  GrowingList<SmallKernel> kernels_;                // by sync point; kNone: NCCL
  GrowingList<nccl::Communicator*> communicators_;  // by SyncPoint::communicator; null where not needed
  GrowingList<SmallGroup*> groups_;                 // the same; owned
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Member[]> members_;  // by the program's device
  size_t num_members_ = 0;
  std::mutex mutex_;
  std::unique_ptr<nccl::Communicator::Share[]> shares_;  // of one collective; guarded by mutex_
  std::condition_variable posted_;  // signals that something has been enqueued, or will not be
};

}  // namespace rondo::cuda
