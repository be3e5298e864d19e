#include "drivers/cuda/cuda_collectives.h"

#include <algorithm>

namespace rondo::cuda {
namespace {

constexpr unsigned kNoTiming = 2;           // CU_EVENT_DISABLE_TIMING
constexpr unsigned kNonBlockingStream = 1;  // CU_STREAM_NON_BLOCKING

}  // namespace

Result<nccl::Communicator*> CommunicatorTable::Acquire(Span<const uint32_t> devices) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Entry& entry : entries_) {
    const std::vector<uint32_t>& has = entry.communicator->devices();
    if (entry.communicator->aborted() || !std::equal(has.begin(), has.end(), devices.begin(), devices.end()))
      continue;
    ++entry.users;
    return entry.communicator.get();
  }
  RONDO_ASSIGN_OR_RETURN(nccl::Communicator * made, nccl::Communicator::Create(api_, devices, hooks_));
  entries_.push_back({std::unique_ptr<nccl::Communicator>(made), 1});
  return made;
}

void CommunicatorTable::Release(nccl::Communicator* communicator) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& e) { return e.communicator.get() == communicator; });
  if (--entry->users == 0) entries_.erase(entry);
}

Result<CudaCollectives*> CudaCollectives::Create(const Program& program,
                                                 const std::vector<CudaDevice*>& devices,
                                                 Span<const uint32_t> numbers, CommunicatorTable& table) {
  std::unique_ptr<CudaCollectives> made(new CudaCollectives(table));
  for (CudaDevice* device : devices) {
    RONDO_RETURN_IF_ERROR(made->MakeMember(device, program.sync_points.size()));
  }
  for (const SyncPoint& point : program.sync_points) {
    if (point.communicator >= made->communicators_.size()) {
      made->communicators_.resize(point.communicator + 1, nullptr);
    }
    nccl::Communicator*& communicator = made->communicators_[point.communicator];
    if (communicator != nullptr) continue;
    std::vector<uint32_t> ranks;
    for (uint32_t device : point.participants) ranks.push_back(numbers[device]);
    RONDO_ASSIGN_OR_RETURN(communicator, table.Acquire({ranks.data(), ranks.size()}));
  }
  return made.release();
}

Status CudaCollectives::MakeMember(CudaDevice* device, size_t sync_points) {
  members_.emplace_back();
  Member& member = members_.back();
  member.device = device;
  CudaDevice::Use use(*device);
  RONDO_RETURN_IF_ERROR(
      device->Check(device->api().stream_create(&member.stream, kNonBlockingStream), "creating a stream"));
  for (std::vector<EventHandle>* events : {&member.started, &member.ended}) {
    events->assign(sync_points, nullptr);
    for (EventHandle& event : *events) {
      RONDO_RETURN_IF_ERROR(
          device->Check(device->api().event_create(&event, kNoTiming), "creating an event"));
    }
  }
  return Status::Ok();
}

CudaCollectives::~CudaCollectives() {
  for (Member& member : members_) {
    CudaDevice::Use use(*member.device);
    const Api& api = member.device->api();
    for (const std::vector<EventHandle>* events : {&member.started, &member.ended}) {
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
                              StreamHandle stream) {
  Member& member = MemberOf(part);
  CudaDevice* device = member.device;
  const Api& api = device->api();
  CudaDevice::Use use(*device);
  const EventHandle started = member.started[part.sync_point];
  RONDO_RETURN_IF_ERROR(device->Check(api.event_record(started, stream, 0), "recording an event"));
  RONDO_RETURN_IF_ERROR(device->Check(api.stream_wait(member.stream, started, 0), "waiting for an event"));
  RONDO_RETURN_IF_ERROR(communicators_[part.point->communicator]->Enqueue(
      part.rank, *part.point, reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to),
      member.stream));
  return device->Check(api.event_record(member.ended[part.sync_point], member.stream, 0),
                       "recording an event");
}

Status CudaCollectives::Wait(const CollectivePart& part, StreamHandle stream) {
  Member& member = MemberOf(part);
  CudaDevice::Use use(*member.device);
  return member.device->Check(member.device->api().stream_wait(stream, member.ended[part.sync_point], 0),
                              "waiting for a collective");
}

Status CudaCollectives::Begin() const {
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
}

}  // namespace rondo::cuda
