#include "runtime/verify/shadow.h"

#include <algorithm>
#include <utility>

namespace rondo::verify {

Result<DeviceIo> DeviceIo::Create(Device* device, bool host_memory) {
  RONDO_ASSIGN_OR_RETURN(Stream * stream, device->CreateStream());
  return DeviceIo(device, stream, host_memory);
}

DeviceIo::DeviceIo(DeviceIo&& other) noexcept
    : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)), host_(other.host_) {}

DeviceIo::~DeviceIo() {
  if (stream_ != nullptr) device_->DestroyStream(stream_);
}

Status DeviceIo::Finish(Status status) const {
  uint32_t failed_step = kNone;
  const Status waited = device_->Synchronize(stream_, &failed_step);
  return status.ok() ? waited : status;
}

Status DeviceIo::Read(DeviceAddress from, uint64_t bytes, uint8_t* to) const {
  if (host_) return static_cast<void>(std::memcpy(to, reinterpret_cast<const void*>(from), bytes)), Status();
  return Finish(device_->CopyOut(to, from, bytes, stream_));
}

Status DeviceIo::Write(DeviceAddress to, uint64_t bytes, const uint8_t* from) const {
  if (host_) return static_cast<void>(std::memcpy(reinterpret_cast<void*>(to), from, bytes)), Status();
  return Finish(device_->CopyIn(to, from, bytes, stream_));
}

ShadowRegion::ShadowRegion(const DeviceIo* io, DeviceRegion at, uint64_t granule)
    : io_(io),
      address_(at.address),
      shift_(__builtin_ctzll(granule)),
      mirror_(at.bytes),
      owners_((at.bytes + granule - 1) / granule, kNone) {}

void ShadowRegion::SetOwner(ByteRange range, uint32_t buffer) {
  std::fill(owners_.begin() + static_cast<int64_t>(range.first >> shift_),
            owners_.begin() + static_cast<int64_t>((range.end + granule() - 1) >> shift_), buffer);
}

Status ShadowRegion::PoisonAll(const Poison& poison) {
  std::fill(owners_.begin(), owners_.end(), kNone);
  return bytes() == 0 ? Status::Ok() : PoisonRange({0, bytes()}, poison);
}

Status ShadowRegion::PoisonRange(ByteRange range, const Poison& poison) {
  poison.Fill(range.first, range.end - range.first, mirror_.data() + range.first);
  return io_->Write(address_ + range.first, range.end - range.first, mirror_.data() + range.first);
}

Status ShadowRegion::Accept(ByteRange range) {
  return io_->Read(address_ + range.first, range.end - range.first, mirror_.data() + range.first);
}

void ShadowRegion::Expect(ByteRange range, const uint8_t* bytes) {
  std::memcpy(mirror_.data() + range.first, bytes, range.end - range.first);
}

}  // namespace rondo::verify
