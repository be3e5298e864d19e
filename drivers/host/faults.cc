#include "drivers/host/faults.h"

#include <ctime>

namespace rondo::host {

uint64_t Faults::Random() {
  // SplitMix64 (G. Steele, D. Lea, C. Flood, 2014) at this device's place in the sequence.
  uint64_t z =
      options_.seed + (draws_.fetch_add(1, std::memory_order_relaxed) * kMaxHostDevices + device_ + 1) *
                          0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

Status Faults::Meet(HostCall call, uint32_t step) {
  if (options_.most_delay_us != 0) {
    const uint64_t draw = Random();
    if (draw % 4 == 0) {
      const uint64_t microseconds = (draw >> 8) % (uint64_t{options_.most_delay_us} + 1);
      const timespec time{static_cast<time_t>(microseconds / 1000000),
                          static_cast<long>(microseconds % 1000000 * 1000)};
      nanosleep(&time, nullptr);
    }
  }
  if (options_.before != nullptr) {
    RONDO_RETURN_IF_ERROR(options_.before(options_.user, call, device_, step));
  }
  if (options_.fail_device == device_ && call == HostCall::kPostCollective &&
      posted_.fetch_add(1, std::memory_order_relaxed) == options_.fail_collective) {
    return Status::Error(Code::kInternal, "collective %llu of host device %u failed as asked",
                         static_cast<unsigned long long>(options_.fail_collective), device_);
  }
  return Status::Ok();
}

}  // namespace rondo::host
