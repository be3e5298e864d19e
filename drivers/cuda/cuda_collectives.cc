#include "drivers/cuda/cuda_collectives.h"

#include <algorithm>
#include <new>
#include <utility>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/peer_collectives/norm.h"

namespace rondo::cuda {
namespace {

// The place of the program's device `device`.
nccl::RankPlace PlaceOf(Span<const uint32_t> numbers, uint32_t device) {
  const auto before =
      static_cast<uint32_t>(std::count(numbers.begin(), numbers.begin() + device, numbers[device]));
  return {numbers[device], before};
}

// Up to so many ranks, and rows of up to small::kShortRow vectors: here one kernel is faster than two, but
// not if blocks share rows (tools/bench/results/peer-collectives.md).
constexpr size_t kNormRanks = 2;

// A process's information about its GPU for the others.
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
    if (id != nullptr || entry.communicator->aborted() ||
        !std::equal(has.begin(), has.end(), places.begin(), places.end()))
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
                                                 Span<const uint32_t> numbers, const CollectiveMeans& means) {
  std::unique_ptr<CudaCollectives> made(new (std::nothrow) CudaCollectives(program, means));
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
    if (means_.processes != nullptr && num_members_ - 1 != means_.processes->rank()) continue;
    member.device = devices[number];
    const auto here = static_cast<uint32_t>(std::count(numbers.begin(), numbers.end(), number));
    if (means_.processes == nullptr && here > 1) {
      member.several_ranks = true;
      member.device->SeveralRanks(here);
    }
    RONDO_RETURN_IF_ERROR(MakeMember(program, static_cast<uint32_t>(num_members_ - 1), &member));
  }
  RONDO_ASSIGN_OR_RETURN(const GrowingList<nccl::RankPlace> places, FindPlaces(devices, numbers));
  for (uint32_t number = 0; number < communicators; ++number)  // the same order on all processes
    RONDO_RETURN_IF_ERROR(Connect(program, number, {places.data(), places.size()}));
  return Status::Ok();
}

Result<GrowingList<nccl::RankPlace>> CudaCollectives::FindPlaces(Span<CudaDevice* const> devices,
                                                                 Span<const uint32_t> numbers) {
  GrowingList<nccl::RankPlace> places;
  GpuCard mine, all[kMaxProcesses];
  if (means_.processes != nullptr) {
    mine.device = numbers[means_.processes->rank()];
    mine.gpu = devices[mine.device]->identity();
    RONDO_RETURN_IF_ERROR(means_.processes->Gather(Status::Ok(), &mine, all, sizeof(mine), nullptr));
  }
  for (uint32_t device = 0; device < numbers.size(); ++device) {
    if (means_.processes == nullptr) {
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

Result<nccl::Communicator*> CudaCollectives::ConnectNccl(Span<const nccl::RankPlace> ranks, uint32_t leader) {
  if (means_.nccl == nullptr) return means_.nccl_status;
  if (means_.processes == nullptr) return means_.nccl->Acquire(ranks);
  nccl::UniqueId id = {}, all[kMaxProcesses];
  Status made;
  if (leader == means_.processes->rank()) {
    Result<nccl::UniqueId> own = means_.nccl->MakeId();
    made = own.status();
    if (own.ok()) id = *own;
  }
  RONDO_RETURN_IF_ERROR(means_.processes->Gather(made, &id, all, sizeof(id), nullptr));
  const bool takes_part = std::any_of(ranks.begin(), ranks.end(), [&](const nccl::RankPlace& rank) {
    return rank.process == means_.processes->rank();
  });
  if (!takes_part) return static_cast<nccl::Communicator*>(nullptr);
  return means_.nccl->Acquire(ranks, &all[leader]);
}

Status CudaCollectives::Connect(const Program& program, uint32_t number, Span<const nccl::RankPlace> places) {
  const SyncPoint* first = nullptr;
  GrowingList<nccl::RankPlace> ranks;
  uint32_t sharing = 0;  // upper bound of the ranks on one GPU
  CollectiveKernels kernels = means_.kernels;
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    const SyncPoint& point = program.sync_points[i];
    if (point.communicator != number) continue;
    if (first == nullptr) {
      first = &point;
      for (uint32_t device : point.participants) {
        ranks.push_back(places[device]);
        const auto here = std::count_if(ranks.begin(), ranks.end(), [&](const nccl::RankPlace& rank) {
          return rank.device == places[device].device;
        });
        sharing = std::max(sharing, static_cast<uint32_t>(here));
      }
      // If NCCL cannot connect the ranks, small kernels do as much as they can.
      const bool nccl = means_.nccl != nullptr &&
                        means_.nccl->Check({ranks.data(), ranks.size()}).code() != Code::kUnsupported;
      if (kernels == CollectiveKernels::kAuto && !nccl) kernels = CollectiveKernels::kSmall;
    }
    kernels_[i] = ChooseSmall(kernels, point, sharing, means_.small_up_to);
  }
  if (first == nullptr) return Status::Ok();
  if (!ranks.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for a communicator");
  RONDO_RETURN_IF_ERROR(ConnectSmall(program, number, *first));
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    if (program.sync_points[i].communicator != number || kernels_[i] != SmallKernel::kNone) continue;
    RONDO_ASSIGN_OR_RETURN(communicators_[number],
                           ConnectNccl({ranks.data(), ranks.size()}, first->participants[0]));
    break;
  }
  return Status::Ok();
}

// If the GPUs have no peer access, NCCL does all collectives, unless small kernels are requested.
Status CudaCollectives::ConnectSmall(const Program& program, uint32_t number, const SyncPoint& first) {
  uint64_t packs = 0;
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    if (program.sync_points[i].communicator == number && kernels_[i] != SmallKernel::kNone)
      packs = std::max(packs, PacksOfInbox(kernels_[i], program.sync_points[i]));
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
  for (size_t i = 0; i < program.sync_points.size(); ++i) {
    const bool may = program.sync_points[i].communicator == number && MayGoOn(static_cast<uint32_t>(i));
    if (may) RONDO_RETURN_IF_ERROR(groups_[number]->LoadNorm(program.sync_points[i].dtype));
  }
  return Status::Ok();
}

Status CudaCollectives::MakeMember(const Program& program, uint32_t number, Member* member) {
  CudaDevice* const device = member->device;
  const size_t sync_points = program.sync_points.size();
  member->counts = GrowingList<uint32_t>::Filled(sync_points, 0);
  if (!member->counts.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for collectives");
  for (const Step& step : program.steps) {
    if (step.device != number || step.kind != StepKind::kCollectiveStart) continue;
    member->counts[step.sync_point] = static_cast<uint32_t>(member->starts.size());
    member->starts.push_back(step.sync_point);
  }
  if (!member->starts.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for collectives");
  RONDO_RETURN_IF_ERROR(member->notes.Prepare(device, static_cast<uint32_t>(member->starts.size()),
                                              means_.processes != nullptr, member->several_ranks));
  CudaDevice::Use use(*device);
  RONDO_RETURN_IF_ERROR(
      device->Check(device->api().stream_create(&member->stream, kNonBlockingStream), "creating a stream"));
  member->posted = GrowingList<nccl::Communicator::Share>::Filled(sync_points, {});
  member->between = GrowingList<StreamHandle>::Filled(sync_points, nullptr);
  if (!member->posted.ok() || !member->between.ok())
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
    if (member.holder != nullptr) Drop(member.holder);
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
    if (communicator != nullptr) means_.nccl->Release(communicator);
  }
  for (const SmallGroup* group : groups_) delete group;
}

Status CudaCollectives::Start(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                              CudaStream* stream) {
  Member& member = MemberOf(part);
  const bool recorded = stream->recording != nullptr;
  if (kernels_[part.sync_point] != SmallKernel::kNone) return StartSmall(part, from, to, stream);
  stream->after_kernel = false;
  const StreamHandle on = member.several_ranks && recorded ? stream->handle : member.stream;
  member.between[part.sync_point] = on == stream->handle ? on : nullptr;
  const nccl::Communicator::Share share = {reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to),
                                           on};
  const bool at_once = recorded || means_.processes != nullptr;
  {
    CudaDevice::Use use(*member.device);
    if (on != stream->handle) RONDO_RETURN_IF_ERROR(Follow(member, part.sync_point, stream->handle));
    RONDO_RETURN_IF_ERROR(member.notes.Note(member.notes.Start(member.counts[part.sync_point]),
                                            member.started[part.sync_point], on));
    if (at_once) {
      RONDO_RETURN_IF_ERROR(communicators_[part.point->communicator]->Enqueue(
          part.rank, *part.point, share.from, share.to, share.stream));
    }
  }
  return at_once ? Ended(&member, part.sync_point, on) : Post(part, share);
}

// Makes the member's own stream wait for everything enqueued on `stream` so far.
Status CudaCollectives::Follow(const Member& member, uint32_t sync_point, StreamHandle stream) {
  const Api& api = member.device->api();
  const EventHandle started = member.started[sync_point];
  RONDO_RETURN_IF_ERROR(member.device->Check(api.event_record(started, stream, 0), "recording an event"));
  return member.device->Check(api.stream_wait(member.stream, started, 0), "waiting for an event");
}

// A collective of a graph that the graph waits for at once is held back until the next step is known.
Status CudaCollectives::StartSmall(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                                   CudaStream* stream) {
  Member& member = MemberOf(part);
  if (member.holder != nullptr) RONDO_RETURN_IF_ERROR(EnqueueHeld(nullptr, member.holder));
  const bool held = stream->recording != nullptr && MayGoOn(part.sync_point) && IsWaitedForAtOnce(part);
  if (!held) return EnqueueSmall(part, from, to, nullptr, stream);
  stream->held = {this, part, from, to};
  member.holder = stream;
  member.between[part.sync_point] = stream->handle;
  return Status::Ok();
}

bool CudaCollectives::MayGoOn(uint32_t sync_point) const {
  const bool pays = program_.sync_points[sync_point].participants.size() <= kNormRanks;
  return MayNorm(means_.kernels, kernels_[sync_point]) &&
         (pays || means_.kernels == CollectiveKernels::kFused);
}

Status CudaCollectives::EnqueueHeld(const small::Norm* norm, CudaStream* stream) {
  const HeldCollective held = std::exchange(stream->held, HeldCollective());
  MemberOf(held.part).holder = nullptr;
  return EnqueueSmall(held.part, held.from, held.to, norm, stream);
}

void CudaCollectives::Drop(CudaStream* stream) {
  const HeldCollective held = std::exchange(stream->held, HeldCollective());
  if (held.of != nullptr) held.of->MemberOf(held.part).holder = nullptr;
}

bool CudaCollectives::Takes(const small::Norm& norm, const CollectivePart& part) const {
  const bool pays =
      VectorsOf(norm, part.point->dtype == DType::kF32 ? small::kF32 : small::kF16) <= small::kShortRow;
  return (pays || means_.kernels == CollectiveKernels::kFused) &&
         groups_[part.point->communicator]->Takes(norm, *part.point);
}

// A collective of a graph runs between the kernels of the starting stream if the graph waits for it at once,
// or if its rank shares its GPU. Others run on the member's own stream.
Status CudaCollectives::EnqueueSmall(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                                     const small::Norm* norm, CudaStream* stream) {
  Member& member = MemberOf(part);
  CudaDevice::Use use(*member.device);
  const Api& api = member.device->api();
  const bool between = stream->recording != nullptr && (member.several_ranks || IsWaitedForAtOnce(part));
  const StreamHandle on = between ? stream->handle : member.stream;
  bool after_kernel = between && stream->after_kernel;
  stream->after_kernel = between;
  member.between[part.sync_point] = between ? on : nullptr;
  if (!between) RONDO_RETURN_IF_ERROR(Follow(member, part.sync_point, stream->handle));
  // They stay in order, on whichever streams they run.
  const uint64_t recording = stream->recording != nullptr ? stream->recording->number : 0;
  if (member.last != kNone && member.last_recording == recording && member.last_stream != on) {
    RONDO_RETURN_IF_ERROR(
        member.device->Check(api.stream_wait(on, member.ended[member.last], 0), "waiting for an event"));
    after_kernel = false;
  }
  small::Call call = {};
  call.from = reinterpret_cast<const char*>(from);
  call.to = reinterpret_cast<char*>(to);
  // The stream that launches a graph reports the graph's faults.
  call.faults = stream->recording != nullptr ? stream->recording->origin->faults : stream->faults;
  call.step = part.step;
  call.note = member.notes.Start(member.counts[part.sync_point]);
  RONDO_RETURN_IF_ERROR(groups_[part.point->communicator]->Enqueue(
      part.rank, kernels_[part.sync_point], *part.point, call, norm, after_kernel, on));
  member.last = part.sync_point;
  member.last_recording = recording;
  member.last_stream = on;
  return member.device->Check(api.event_record(member.ended[part.sync_point], on, 0), "recording an event");
}

bool CudaCollectives::IsWaitedForAtOnce(const CollectivePart& part) const {
  const Span<const Step> steps = program_.steps;
  if (part.step >= steps.size()) return false;
  const Step& start = steps[part.step];
  size_t next = part.step + size_t{1};
  while (next < steps.size() && steps[next].device != start.device) ++next;
  if (next == steps.size()) return false;
  const Step& wait = steps[next];
  return wait.kind == StepKind::kCollectiveWait && wait.sync_point == part.sync_point &&
         wait.stream == start.stream && wait.waits.empty() && start.records == kNone;
}

Status CudaCollectives::Ended(Member* member, uint32_t sync_point, StreamHandle on) {
  CudaDevice::Use use(*member->device);
  const EventHandle ended = member->ended[sync_point];
  RONDO_RETURN_IF_ERROR(
      member->device->Check(member->device->api().event_record(ended, on, 0), "recording an event"));
  if (means_.processes == nullptr) return Status::Ok();
  return member->notes.Note(member->notes.End(member->counts[sync_point]), ended, on);
}

// Enqueues the collective for all ranks if all have arrived.
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
    if (status.ok()) status = Ended(&member, part.sync_point, member.stream);
    member.posted[part.sync_point] = {};
  }
  posted_.notify_all();
  return status;
}

Status CudaCollectives::Wait(const CollectivePart& part, CudaStream* stream) {
  Member& member = MemberOf(part);
  if (member.between[part.sync_point] == stream->handle) return Status::Ok();
  stream->after_kernel = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (member.posted[part.sync_point].stream != nullptr) {
      if (communicators_[part.point->communicator]->aborted())
        return Status::Error(Code::kAborted, "the communicator was aborted");
      posted_.wait(lock);
    }
  }
  CudaDevice::Use use(*member.device);
  return member.device->Check(
      member.device->api().stream_wait(stream->handle, member.ended[part.sync_point], 0),
      "waiting for a collective");
}

CollectiveNotes* CudaCollectives::NotesBeside(const CollectivePart& part) {
  CollectiveNotes& notes = MemberOf(part).notes;
  return kernels_[part.sync_point] == SmallKernel::kNone && notes.are_beside() ? &notes : nullptr;
}

CollectiveProgress CudaCollectives::Progress(uint32_t device) const {
  CollectiveProgress progress;
  if (device >= num_members_) return progress;
  const Member& member = members_[device];
  progress.started = member.notes.Started();
  progress.ended = member.notes.Ended();
  if (means_.processes != nullptr) return progress;
  while (progress.ended < progress.started && AllHaveStarted(member.starts[progress.ended])) ++progress.ended;
  return progress;
}

bool CudaCollectives::AllHaveStarted(uint32_t sync_point) const {
  const Span<const uint32_t> devices = program_.sync_points[sync_point].participants;
  return std::all_of(devices.begin(), devices.end(), [&](uint32_t device) {
    return members_[device].notes.HasStarted(members_[device].counts[sync_point]);
  });
}

Status CudaCollectives::Begin() {
  for (size_t i = 0; i < num_members_; ++i) members_[i].notes.Clear();
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
