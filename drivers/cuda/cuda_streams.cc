// CudaDevice's streams and events.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "drivers/cuda/cuda_collectives.h"
#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {

namespace {

constexpr uint64_t kLeastForTeam = 2 << 20;  // bytes that a run copies

// The fault of a small collective that did not complete.
Status CollectiveFault(const FaultRecord& fault) {
  if (fault.taken == small::kAbortFault)
    return Status::Error(Code::kAborted, "the collective was aborted while it waited for rank %llu",
                         fault.value);
  return Status::Error(Code::kDeadlineExceeded, "the collective has waited %g s for rank %llu",
                       static_cast<double>(fault.extent) / 1e9, fault.value);
}

}  // namespace

Result<Stream*> CudaDevice::CreateStream() {
  CudaStream* stream = new (std::nothrow) CudaStream;
  if (stream == nullptr)
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a stream", index_);
  Use use(*this);
  void* faults = nullptr;
  Status status = Check(api_.stream_create(&stream->handle, kNonBlockingStream), "creating a stream");
  if (status.ok())
    status =
        Check(api_.host_allocate(&faults, sizeof(FaultRecord), kPortable | kMapped), "page-locked memory");
  if (!status.ok()) {
    if (stream->handle != nullptr) api_.stream_destroy(stream->handle);
    delete stream;
    return status;
  }
  stream->faults = static_cast<FaultRecord*>(faults);
  std::memset(faults, 0, sizeof(FaultRecord));
  return reinterpret_cast<Stream*>(stream);
}

void CudaDevice::DestroyStream(Stream* stream) {
  if (CudaRecording* recording = ToCuda(stream)->recording) {
    if (recording->origin == ToCuda(stream)) {
      Leave(recording);
    } else {
      recording->streams.Forget(ToCuda(stream));
      CudaCollectives::Drop(ToCuda(stream));
      if (ToCuda(stream)->own != nullptr) ToCuda(stream)->handle = ToCuda(stream)->own;
    }
  }
  Use use(*this);
  api_.stream_synchronize(ToCuda(stream)->handle);
  ToCuda(stream)->staging.reset();
  api_.stream_destroy(ToCuda(stream)->handle);
  api_.host_release(ToCuda(stream)->faults);
  delete ToCuda(stream);
}

Result<uint64_t> CudaDevice::ReserveStaging(Stream* stream, const CopyNeeds& copies) {
  if (copies.in == 0 && copies.out == 0) return uint64_t{0};
  CopyTeam* team = nullptr;
  if (std::max(copies.in, copies.out) >= kLeastForTeam) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (team_ == nullptr) {
      RONDO_ASSIGN_OR_RETURN(team_, CopyTeam::Create(hooks_));
    }
    team = team_.get();
  }
  RONDO_ASSIGN_OR_RETURN(ToCuda(stream)->staging, Staging::Create(*this, copies, team));
  return ToCuda(stream)->staging->bytes();
}

Result<Event*> CudaDevice::MakeEvent(bool timed) {
  CudaEvent* event = new (std::nothrow) CudaEvent;
  if (event == nullptr)
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for an event", index_);
  event->timed = timed;
  Use use(*this);
  Status status = Check(api_.event_create(&event->handle, timed ? 0 : kNoTiming), "creating an event");
  if (!status.ok()) {
    delete event;
    return status;
  }
  return reinterpret_cast<Event*>(event);
}

Result<Event*> CudaDevice::CreateEvent() { return MakeEvent(false); }

Result<Event*> CudaDevice::CreateTimedEvent() { return MakeEvent(true); }

Result<double> CudaDevice::ElapsedMicroseconds(Event* from, Event* to) {
  Use use(*this);
  float milliseconds = 0;
  RONDO_RETURN_IF_ERROR(Check(api_.event_elapsed(&milliseconds, ToCuda(from)->handle, ToCuda(to)->handle),
                              "reading timed events"));
  return static_cast<double>(milliseconds) * 1e3;
}

void CudaDevice::DestroyEvent(Event* event) {
  if (CudaRecording* recording = ToCuda(event)->recording) recording->events.Forget(ToCuda(event));
  Use use(*this);
  api_.event_destroy(ToCuda(event)->handle);
  delete ToCuda(event);
}

Status CudaDevice::Record(Event* event, Stream* stream) {
  CudaEvent* e = ToCuda(event);
  CudaStream* s = ToCuda(stream);
  RONDO_RETURN_IF_ERROR(Settle(s));
  Use use(*this);
  if (e->timed) s->after_kernel = false;
  // A recorded event is an edge of the graph; with this flag it is a node that takes the time.
  unsigned flags = e->timed && s->recording != nullptr ? kRecordExternal : 0;
  RONDO_RETURN_IF_ERROR(Check(api_.event_record(e->handle, s->handle, flags), "recording an event"));
  if (e->recording == s->recording || e->timed) return Status::Ok();
  if (e->recording != nullptr) e->recording->events.Forget(e);
  e->recording = nullptr;
  if (s->recording != nullptr && !s->recording->events.push_back(e))
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a recording", index_);
  e->recording = s->recording;
  return Status::Ok();
}

Status CudaDevice::Wait(Event* event, Stream* stream) {
  CudaStream* s = ToCuda(stream);
  RONDO_RETURN_IF_ERROR(Settle(s));
  s->after_kernel = false;
  Use use(*this);
  CudaRecording* const recording = ToCuda(event)->recording;
  const bool in_line = recording != nullptr && recording->in_line;  // its dependences already precede it
  if (!in_line)
    RONDO_RETURN_IF_ERROR(
        Check(api_.stream_wait(s->handle, ToCuda(event)->handle, 0), "waiting for an event"));
  if (recording == nullptr || s->recording != nullptr) return Status::Ok();
  if (!recording->streams.push_back(s))
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a recording", index_);
  s->recording = recording;
  if (in_line) s->own = std::exchange(s->handle, recording->origin->handle);
  return Status::Ok();
}

Status CudaDevice::Synchronize(Stream* stream, uint32_t* failed_step) {
  CudaStream* s = ToCuda(stream);
  *failed_step = kNone;
  s->failed_assertion = kNone;
  {
    Use use(*this);
    RONDO_RETURN_IF_ERROR(s->staging != nullptr
                              ? s->staging->Finish(s->handle)
                              : Check(api_.stream_synchronize(s->handle), "running on the device"));
  }
  DropWeightCopy(s->handle);
  if (!s->fault.ok()) {
    *failed_step = s->fault_step;
    return std::exchange(s->fault, Status());
  }
  if (s->faults->taken == 0) return Status::Ok();
  FaultRecord fault = *s->faults;
  std::memset(s->faults, 0, sizeof(FaultRecord));
  *failed_step = static_cast<uint32_t>(fault.step);
  if (fault.taken == kAssertFault) {
    s->failed_assertion = static_cast<uint32_t>(fault.value);
    const auto sign = static_cast<double>(static_cast<int64_t>(fault.extent));
    return NotFinite(*s->plan, *failed_step, s->failed_assertion, sign / 0.0);
  }
  if (fault.taken != kIndexFault) return CollectiveFault(fault);
  return Status::Error(Code::kOutOfRange, "index %lld is out of range: it must be within 0 to %lld",
                       static_cast<long long>(fault.value), static_cast<long long>(fault.extent) - 1);
}

uint32_t CudaDevice::FailedAssertion(const Stream* stream) const {
  return reinterpret_cast<const CudaStream*>(stream)->failed_assertion;
}

}  // namespace rondo::cuda
