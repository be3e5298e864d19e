#include "drivers/cuda/collective_notes.h"

#include "core/list.h"
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
  if (numbers_ != 0) device_->Free(numbers_, uint64_t{starts_} * sizeof(uint32_t));
  device_ = nullptr;
}

Status CollectiveNotes::Prepare(CudaDevice* device, uint32_t starts) {
  if (starts == 0) return Status::Ok();
  device_ = device;
  starts_ = starts;
  const Api& api = device->api();
  const uint64_t bytes = uint64_t{starts} * sizeof(uint32_t);
  void* words = nullptr;
  GrowingList<uint32_t> numbers;
  for (uint32_t i = 1; i <= starts; ++i) numbers.push_back(i);
  if (!numbers.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for %u notes", starts);
  RONDO_ASSIGN_OR_RETURN(numbers_, device->Allocate(bytes, sizeof(uint32_t)));
  CudaDevice::Use use(*device);
  RONDO_RETURN_IF_ERROR(device->Check(api.stream_create(&stream_, kNonBlockingStream), "creating a stream"));
  RONDO_RETURN_IF_ERROR(device->Check(api.event_create(&noted_, kNoTiming), "creating an event"));
  RONDO_RETURN_IF_ERROR(device->Check(api.host_allocate(&words, 2 * sizeof(uint32_t), kPortable | kMapped),
                                      "page-locked memory"));
  words_ = static_cast<uint32_t*>(words);
  Clear();
  RONDO_RETURN_IF_ERROR(
      device->Check(api.copy_in(numbers_, numbers.data(), bytes, stream_), "copying notes"));
  return device->Check(api.stream_synchronize(stream_), "copying notes");
}

Status CollectiveNotes::Note(EventHandle event, uint32_t count, int which) {
  if (count == 0 || count > starts_) return Status::Ok();
  const Api& api = device_->api();
  RONDO_RETURN_IF_ERROR(device_->Check(api.stream_wait(stream_, event, 0), "waiting for an event"));
  return device_->Check(api.copy_out(&words_[which], numbers_ + uint64_t{count - 1} * sizeof(uint32_t),
                                     sizeof(uint32_t), stream_),
                        "noting a collective");
}

Status CollectiveNotes::JoinTo(StreamHandle stream) {
  const Api& api = device_->api();
  RONDO_RETURN_IF_ERROR(device_->Check(api.event_record(noted_, stream_, 0), "recording an event"));
  return device_->Check(api.stream_wait(stream, noted_, 0), "waiting for an event");
}

void CollectiveNotes::Clear() {
  for (int i = 0; words_ != nullptr && i < 2; ++i) __atomic_store_n(&words_[i], 0, __ATOMIC_RELAXED);
}

CollectiveProgress CollectiveNotes::Read() const {
  CollectiveProgress progress;
  if (words_ == nullptr) return progress;
  progress.started = __atomic_load_n(&words_[0], __ATOMIC_RELAXED);
  progress.ended = __atomic_load_n(&words_[1], __ATOMIC_RELAXED);
  return progress;
}

}  // namespace rondo::cuda
