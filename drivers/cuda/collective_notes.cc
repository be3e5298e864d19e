#include "drivers/cuda/collective_notes.h"

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {

void CollectiveNotes::Close() {
  if (bytes_ == nullptr) return;
  CudaDevice::Use use(*device_);
  device_->api().host_release(bytes_);
  bytes_ = nullptr;
}

Status CollectiveNotes::Prepare(CudaDevice* device, uint32_t starts, bool ends) {
  if (starts == 0) return Status::Ok();
  device_ = device;
  void* bytes = nullptr;
  CudaDevice::Use use(*device);
  RONDO_RETURN_IF_ERROR(device->Check(
      device->api().host_allocate(&bytes, uint64_t{starts} * (ends ? 2 : 1), kPortable | kMapped),
      "page-locked memory"));
  bytes_ = static_cast<uint8_t*>(bytes);
  starts_ = starts;
  ends_ = ends;
  Clear();
  return Status::Ok();
}

Status CollectiveNotes::Note(uint8_t* at, StreamHandle stream) const {
  return device_->Check(device_->api().fill(reinterpret_cast<Address>(at), 1, 1, stream),
                        "noting a collective");
}

void CollectiveNotes::Clear() {
  for (uint32_t i = 0; i < starts_ * (ends_ ? 2 : 1); ++i) __atomic_store_n(bytes_ + i, 0, __ATOMIC_RELAXED);
}

uint32_t CollectiveNotes::Count(const uint8_t* first) const {
  uint32_t count = 0;
  while (count < starts_ && IsSet(first + count)) ++count;
  return count;
}

}  // namespace rondo::cuda
