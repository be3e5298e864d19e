#include "drivers/cuda/cuda_collectives.h"

#include <algorithm>
#include <new>

#include "drivers/cuda/cuda_constants.h"

namespace rondo::cuda {
namespace {

// Of the program's device `device`.
nccl::RankPlace PlaceOf(Span<const uint32_t> numbers, uint32_t device) {
  const auto before =
      static_cast<uint32_t>(std::count(numbers.begin(), numbers.begin() + device, numbers[device]));
  return {numbers[device], before};
}

}  // namespace

Result<nccl::Communicator*> CommunicatorTable::Acquire(Span<const nccl::RankPlace> places) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Entry& entry : entries_) {
    const Span<const nccl::RankPlace> has = entry.communicator->places();
    if (entry.communicator->aborted() || !std::equal(has.begin(), has.end(), places.begin(), places.end()))
      continue;
    ++entry.users;
    return entry.communicator;
  }
  if (!entries_.Reserve(entries_.size() + 1))
    return Status::Error(Code::kOutOfMemory, "no host memory for a communicator");
  RONDO_ASSIGN_OR_RETURN(nccl::Communicator * made,
                         nccl::Communicator::Create(api_, places, patience_ns_, hooks_, threads_));
  entries_.push_back({made, 1});
  return made;
}

void CommunicatorTable::Release(nccl::Communicator* communicator) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].communicator != communicator || --entries_[i].users != 0) continue;
    entries_[i] = entries_.back();
    entries_.pop_back();
    delete communicator;
    return;
  }
}

CommunicatorTable::~CommunicatorTable() {
  for (const Entry& entry : entries_) delete entry.communicator;
}

Result<CudaCollectives*> CudaCollectives::Create(const Program& program, Span<CudaDevice* const> devices,
                                                 Span<const uint32_t> numbers, const CollectiveMeans& means) {
  std::unique_ptr<CudaCollectives> made(new (std::nothrow) CudaCollectives(means));
  if (made == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for collectives");
  RONDO_RETURN_IF_ERROR(made->Prepare(program, devices, numbers));
  return made.release();
}

Status CudaCollectives::Prepare(const Program& program, Span<CudaDevice* const> devices,
                                Span<const uint32_t> numbers) {
  members_.reset(new (std::nothrow) Member[numbers.size()]);
  shares_.reset(new (std::nothrow) nccl::Communicator::Share[numbers.size()]);
  uint32_t communicators = 0;
  for (const SyncPoint& point : program.sync_points)
    communicators = std::max(communicators, point.communicator + 1);
  communicators_ = GrowingList<nccl::Communicator*>::Filled(communicators, nullptr);
  groups_ = GrowingList<SmallGroup*>::Filled(communicators, nullptr);
  kernels_ = GrowingList<SmallKernel>::Filled(program.sync_points.size(), SmallKernel::kNone);
  if (members_ == nullptr || shares_ == nullptr || !communicators_.ok() || !groups_.ok() || !kernels_.ok())
    return Status::Error(Code::kOutOfMemory, "no host memory for collectives");
  for (uint32_t number : numbers) {
    Member& member = members_[num_members_++];
    member.device = devices[number];
    if (std::count(numbers.begin(), numbers.end(), number) > 1) {
      member.several_ranks = true;
      member.device->SeveralRanks();
    }
    RONDO_RETURN_IF_ERROR(MakeMember(&member, program.sync_points.size()));
  }
  for (uint32_t number = 0; number < communicators; ++number)
    RONDO_RETURN_IF_ERROR(Connect(program, number, numbers));
  return Status::Ok();
}

Status CudaCollectives::Connect(const Program& program, uint32_t number, Span<const uint32_t> numbers) {
  const SyncPoint* first = nullptr;
  GrowingList<nccl::RankPlace> ranks;
  bool shared = false;
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    const SyncPoint& point = program.sync_points[i];
    if (point.communicator != number) continue;
    if (first == nullptr) {
      first = &point;
      for (uint32_t device : point.participants) {
        ranks.push_back(PlaceOf(numbers, device));
        shared |= std::count_if(ranks.begin(), ranks.end(), [&](const nccl::RankPlace& rank) {
                    return rank.device == numbers[device];
                  }) > 1;
      }
    }
    kernels_[i] = ChooseSmall(means_.kernels, point, shared);
  }
  if (first == nullptr) return Status::Ok();
  if (!ranks.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for a communicator");
  RONDO_RETURN_IF_ERROR(ConnectSmall(program, number, *first));
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    if (program.sync_points[i].communicator != number || kernels_[i] != SmallKernel::kNone) continue;
    if (means_.nccl == nullptr) return means_.nccl_status;
    RONDO_ASSIGN_OR_RETURN(communicators_[number], means_.nccl->Acquire({ranks.data(), ranks.size()}));
    break;
  }
  return Status::Ok();
}

// Where the GPUs do not reach each other, NCCL does all of it, unless small kernels are what is asked for.
Status CudaCollectives::ConnectSmall(const Program& program, uint32_t number, const SyncPoint& first) {
  uint64_t packs = 0;
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    if (program.sync_points[i].communicator == number && kernels_[i] != SmallKernel::kNone)
      packs = std::max(packs, PacksSent(kernels_[i], program.sync_points[i]));
  }
  if (packs == 0) return Status::Ok();
  CudaDevice* devices[small::kMostRanks] = {};
  uint32_t ranks = 0;
  for (uint32_t device : first.participants) devices[ranks++] = members_[device].device;
  const Status reached = means_.peers->Connect({devices, ranks});
  if (reached.code() == Code::kUnsupported && means_.kernels == CollectiveKernels::kAuto) {
    for (size_t i = 0; i < program.sync_points.size(); ++i) {
      if (program.sync_points[i].communicator == number) kernels_[i] = SmallKernel::kNone;
    }
    return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(reached.At("small collectives"));
  RONDO_ASSIGN_OR_RETURN(groups_[number], SmallGroup::Create({devices, ranks}, packs, means_.limit_ns));
  return Status::Ok();
}

Status CudaCollectives::MakeMember(Member* member, size_t sync_points) {
  CudaDevice* const device = member->device;
  CudaDevice::Use use(*device);
  RONDO_RETURN_IF_ERROR(
      device->Check(device->api().stream_create(&member->stream, kNonBlockingStream), "creating a stream"));
  member->posted = GrowingList<nccl::Communicator::Share>::Filled(sync_points, {});
  if (!member->posted.ok())
    return Status::Error(Code::kOutOfMemory, "no host memory for %zu collectives", sync_points);
  for (GrowingList<EventHandle>* events : {&member->started, &member->ended}) {
    *events = GrowingList<EventHandle>::Filled(sync_points, nullptr);
    if (!events->ok()) return Status::Error(Code::kOutOfMemory, "no host memory for %zu events", sync_points);
    for (EventHandle& event : *events) {
      RONDO_RETURN_IF_ERROR(
          device->Check(device->api().event_create(&event, kNoTiming), "creating an event"));
    }
  }
  return Status::Ok();
}

CudaCollectives::~CudaCollectives() {
  for (size_t i = 0; i < num_members_; ++i) {
    const Member& member = members_[i];
    CudaDevice::Use use(*member.device);
    const Api& api = member.device->api();
    for (const GrowingList<EventHandle>* events : {&member.started, &member.ended}) {
      for (EventHandle event : *events) {
        if (event != nullptr) api.event_destroy(event);
      }
    }
    if (member.stream != nullptr) api.stream_destroy(member.stream);
  }
  for (nccl::Communicator* communicator : communicators_) {
    if (communicator != nullptr) means_.nccl->Release(communicator);
  }
  for (const SmallGroup* group : groups_) delete group;
}

Status CudaCollectives::Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                              FaultRecord* faults, StreamHandle stream, bool recorded) {
  Member& member = MemberOf(part);
  CudaDevice* device = member.device;
  const Api& api = device->api();
  const StreamHandle on = member.several_ranks && recorded ? stream : member.stream;
  const nccl::Communicator::Share share = {reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to),
                                           on};
  const SmallKernel kernel = kernels_[part.sync_point];
  {
    CudaDevice::Use use(*device);
    const EventHandle started = member.started[part.sync_point];
    if (on != stream) {
      RONDO_RETURN_IF_ERROR(device->Check(api.event_record(started, stream, 0), "recording an event"));
      RONDO_RETURN_IF_ERROR(device->Check(api.stream_wait(on, started, 0), "waiting for an event"));
    }
    if (kernel != SmallKernel::kNone) {
      small::Call call = {};
      call.from = reinterpret_cast<const char*>(from);
      call.to = reinterpret_cast<char*>(to);
      call.faults = faults;
      call.step = part.step;
      RONDO_RETURN_IF_ERROR(
          groups_[part.point->communicator]->Enqueue(part.rank, kernel, *part.point, call, on));
    } else if (recorded) {
      RONDO_RETURN_IF_ERROR(communicators_[part.point->communicator]->Enqueue(
          part.rank, *part.point, share.from, share.to, share.stream));
    }
  }
  return recorded || kernel != SmallKernel::kNone ? Ended(member, part.sync_point, on) : Post(part, share);
}

Status CudaCollectives::Ended(const Member& member, uint32_t sync_point, StreamHandle on) {
  CudaDevice::Use use(*member.device);
  return member.device->Check(member.device->api().event_record(member.ended[sync_point], on, 0),
                              "recording an event");
}

// Enqueues the collective for all ranks if they have all come.
Status CudaCollectives::Post(const CollectivePart& part, const nccl::Communicator::Share& share) {
  std::lock_guard<std::mutex> lock(mutex_);
  MemberOf(part).posted[part.sync_point] = share;
  size_t ranks = 0;
  for (uint32_t device : part.point->participants) {
    shares_[ranks] = members_[device].posted[part.sync_point];
    if (shares_[ranks++].stream == nullptr) return Status::Ok();
  }
  Status status = communicators_[part.point->communicator]->EnqueueAll(*part.point, {shares_.get(), ranks});
  for (uint32_t device : part.point->participants) {
    Member& member = members_[device];
    if (status.ok()) status = Ended(member, part.sync_point, member.stream);
    member.posted[part.sync_point] = {};
  }
  posted_.notify_all();
  return status;
}

Status CudaCollectives::Wait(const CollectivePart& part, StreamHandle stream) {
  Member& member = MemberOf(part);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (member.posted[part.sync_point].stream != nullptr) {
      if (communicators_[part.point->communicator]->aborted())
        return Status::Error(Code::kAborted, "the communicator was aborted");
      posted_.wait(lock);
    }
  }
  CudaDevice::Use use(*member.device);
  return member.device->Check(member.device->api().stream_wait(stream, member.ended[part.sync_point], 0),
                              "waiting for a collective");
}

Status CudaCollectives::Begin() const {
  bool aborted = aborted_.load(std::memory_order_acquire);
  for (const nccl::Communicator* communicator : communicators_)
    aborted |= communicator != nullptr && communicator->aborted();
  if (!aborted) return Status::Ok();
  return Status::Error(
      Code::kFailedPrecondition,
      "a communicator of this session was aborted when a run on its devices failed; make the "
      "session anew");
}

void CudaCollectives::Abort() {
  aborted_.store(true, std::memory_order_release);
  for (SmallGroup* group : groups_) {
    if (group != nullptr) group->Abort();
  }
  for (nccl::Communicator* communicator : communicators_) {
    if (communicator != nullptr) communicator->Abort();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  posted_.notify_all();
}

}  // namespace rondo::cuda
