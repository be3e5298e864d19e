#include "drivers/cuda/collective_notes.h"

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {

void CollectiveNotes::Close() {
  if (device_ == nullptr) return;
  CudaDevice::Use use(*device_);
  const Api& api = device_->api();
  if (stream_ != nullptr) api.stream_synchronize(stream_);
  if (noted_ != nullptr) api.event_destroy(noted_);
  if (stream_ != nullptr) api.stream_destroy(stream_);
  if (words_ != nullptr) api.host_release(words_);
  device_ = nullptr;
}

Status CollectiveNotes::Prepare(CudaDevice* device, uint32_t starts, bool ends, bool in_line) {
  if (starts == 0) return Status::Ok();
  device_ = device;
  starts_ = starts;
  ends_ = ends;
  const Api& api = device->api();
  void* words = nullptr;
  CudaDevice::Use use(*device);
  const uint64_t bytes = uint64_t{starts} * (ends ? 2 : 1) * sizeof(uint32_t);
  RONDO_RETURN_IF_ERROR(
      device->Check(api.host_allocate(&words, bytes, kPortable | kMapped), "page-locked memory"));
  words_ = static_cast<uint32_t*>(words);
  Clear();
  if (in_line) return device->small().Load();
  RONDO_RETURN_IF_ERROR(device->Check(api.stream_create(&stream_, kNonBlockingStream), "creating a stream"));
  return device->Check(api.event_create(&noted_, kNoTiming), "creating an event");
}

Status CollectiveNotes::Note(uint32_t* at, EventHandle event, StreamHandle stream) const {
  if (stream_ == nullptr) return device_->small().EnqueueNote(at, stream);
  const Api& api = device_->api();
  RONDO_RETURN_IF_ERROR(device_->Check(api.stream_wait(stream_, event, 0), "waiting for an event"));
  return device_->Check(api.write_value(stream_, reinterpret_cast<Address>(at), 1, 0), "noting a collective");
}

Status CollectiveNotes::JoinTo(StreamHandle stream) {
  const Api& api = device_->api();
  RONDO_RETURN_IF_ERROR(device_->Check(api.event_record(noted_, stream_, 0), "recording an event"));
  return device_->Check(api.stream_wait(stream, noted_, 0), "waiting for an event");
}

void CollectiveNotes::Clear() {
  for (uint32_t i = 0; i < starts_ * (ends_ ? 2 : 1); ++i) __atomic_store_n(words_ + i, 0, __ATOMIC_RELAXED);
}

uint32_t CollectiveNotes::Count(const uint32_t* first) const {
  uint32_t count = 0;
  while (count < starts_ && IsSet(first + count)) ++count;
  return count;
}

}  // namespace rondo::cuda
