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

// What a process tells the others of its GPU.
struct GpuCard {
  uint64_t gpu = 0;
  uint32_t device = 0;
};

}  // namespace

Result<nccl::Communicator*> CommunicatorTable::Acquire(Span<const nccl::RankPlace> places,
                                                       const nccl::UniqueId* id) {
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
                         nccl::Communicator::Create(api_, places, id, patience_ns_, hooks_, threads_));
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
                                                 Span<const uint32_t> numbers, CommunicatorTable& table,
                                                 Processes* processes) {
  std::unique_ptr<CudaCollectives> made(new (std::nothrow) CudaCollectives(table, processes));
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
  if (members_ == nullptr || shares_ == nullptr || !communicators_.ok())
    return Status::Error(Code::kOutOfMemory, "no host memory for collectives");
  for (uint32_t number : numbers) {
    Member& member = members_[num_members_++];
    if (processes_ != nullptr && num_members_ - 1 != processes_->rank()) continue;
    member.device = devices[number];
    if (processes_ == nullptr && std::count(numbers.begin(), numbers.end(), number) > 1)
      member.device->SeveralRanks();
    RONDO_RETURN_IF_ERROR(MakeMember(program, static_cast<uint32_t>(num_members_ - 1), &member));
  }
  RONDO_ASSIGN_OR_RETURN(const GrowingList<nccl::RankPlace> places, FindPlaces(devices, numbers));
  uint32_t connected = 0;  // communicators before it; the same order on all processes
  for (const SyncPoint& point : program.sync_points) {
    if (point.communicator < connected) continue;
    connected = point.communicator + 1;
    GrowingList<nccl::RankPlace> ranks;
    bool takes_part = processes_ == nullptr;
    for (uint32_t device : point.participants) {
      ranks.push_back(places[device]);
      takes_part |= processes_ != nullptr && device == processes_->rank();
    }
    if (!ranks.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for a communicator");
    RONDO_ASSIGN_OR_RETURN(communicators_[point.communicator],
                           Connect({ranks.data(), ranks.size()}, point.participants[0], takes_part));
  }
  return Status::Ok();
}

Result<GrowingList<nccl::RankPlace>> CudaCollectives::FindPlaces(Span<CudaDevice* const> devices,
                                                                 Span<const uint32_t> numbers) {
  GrowingList<nccl::RankPlace> places;
  GpuCard mine, all[kMaxProcesses];
  if (processes_ != nullptr) {
    mine.device = numbers[processes_->rank()];
    mine.gpu = devices[mine.device]->identity();
    RONDO_RETURN_IF_ERROR(processes_->Gather(Status::Ok(), &mine, all, sizeof(mine), nullptr));
  }
  for (uint32_t device = 0; device < numbers.size(); ++device) {
    if (processes_ == nullptr) {
      places.push_back(PlaceOf(numbers, device));
      continue;
    }
    const auto before = static_cast<uint32_t>(
        std::count_if(all, all + device, [&](const GpuCard& card) { return card.gpu == all[device].gpu; }));
    places.push_back({all[device].device, before, device, all[device].gpu});
  }
  if (!places.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for a communicator");
  return places;
}

Result<nccl::Communicator*> CudaCollectives::Connect(Span<const nccl::RankPlace> ranks, uint32_t leader,
                                                     bool takes_part) {
  if (processes_ == nullptr) return table_.Acquire(ranks);
  nccl::UniqueId id = {}, all[kMaxProcesses];
  Status made;
  if (leader == processes_->rank()) {
    Result<nccl::UniqueId> own = table_.MakeId();
    made = own.status();
    if (own.ok()) id = *own;
  }
  RONDO_RETURN_IF_ERROR(processes_->Gather(made, &id, all, sizeof(id), nullptr));
  if (!takes_part) return static_cast<nccl::Communicator*>(nullptr);
  return table_.Acquire(ranks, &all[leader]);
}

Status CudaCollectives::MakeMember(const Program& program, uint32_t number, Member* member) {
  CudaDevice* const device = member->device;
  const size_t sync_points = program.sync_points.size();
  member->counts = GrowingList<uint32_t>::Filled(sync_points, 0);
  if (!member->counts.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for collectives");
  uint32_t starts = 0;
  for (const Step& step : program.steps) {
    if (step.device == number && step.kind == StepKind::kCollectiveStart)
      member->counts[step.sync_point] = ++starts;
  }
  RONDO_RETURN_IF_ERROR(member->notes.Prepare(device, starts));
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
    Member& member = members_[i];
    if (member.device == nullptr) continue;
    member.notes.Close();
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
    if (communicator != nullptr) table_.Release(communicator);
  }
}

Status CudaCollectives::Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                              StreamHandle stream, bool recorded) {
  Member& member = MemberOf(part);
  CudaDevice* device = member.device;
  const Api& api = device->api();
  const bool at_once = recorded || processes_ != nullptr;
  const nccl::Communicator::Share share = {reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to),
                                           member.stream};
  {
    CudaDevice::Use use(*device);
    const EventHandle started = member.started[part.sync_point];
    RONDO_RETURN_IF_ERROR(device->Check(api.event_record(started, stream, 0), "recording an event"));
    RONDO_RETURN_IF_ERROR(device->Check(api.stream_wait(member.stream, started, 0), "waiting for an event"));
    RONDO_RETURN_IF_ERROR(member.notes.NoteStarted(started, member.counts[part.sync_point]));
    if (at_once) {
      RONDO_RETURN_IF_ERROR(communicators_[part.point->communicator]->Enqueue(
          part.rank, *part.point, share.from, share.to, share.stream));
    }
  }
  return at_once ? Ended(&member, part.sync_point) : Post(part, share);
}

Status CudaCollectives::Ended(Member* member, uint32_t sync_point) {
  CudaDevice::Use use(*member->device);
  const EventHandle ended = member->ended[sync_point];
  RONDO_RETURN_IF_ERROR(member->device->Check(member->device->api().event_record(ended, member->stream, 0),
                                              "recording an event"));
  return member->notes.NoteEnded(ended, member->counts[sync_point]);
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
    if (status.ok()) status = Ended(&member, part.sync_point);
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

CollectiveProgress CudaCollectives::Progress(uint32_t device) const {
  return device < num_members_ ? members_[device].notes.Read() : CollectiveProgress();
}

Status CudaCollectives::Begin() {
  for (size_t i = 0; i < num_members_; ++i) members_[i].notes.Clear();
  for (const nccl::Communicator* communicator : communicators_) {
    if (communicator == nullptr || !communicator->aborted()) continue;
    return Status::Error(
        Code::kFailedPrecondition,
        "a communicator of this session was aborted when a run on its devices failed; make the "
        "session anew");
  }
  return Status::Ok();
}

void CudaCollectives::Abort() {
  for (nccl::Communicator* communicator : communicators_) {
    if (communicator != nullptr) communicator->Abort();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  posted_.notify_all();
}

}  // namespace rondo::cuda
