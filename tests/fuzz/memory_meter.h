// MemoryMeter: counts and limits the host memory that code under test allocates.
#pragma once

#include <cstdint>

#include "core/arena.h"

namespace rondo::fuzz {

// Allocates from the default allocator. One thread at a time; must outlive its blocks.
class MemoryMeter {
 public:
  // Refuses allocations that would exceed `limit` bytes in use; these still count in the peak.
  explicit MemoryMeter(uint64_t limit = uint64_t{1} << 32) : limit_(limit) {}
  HostAllocator allocator() { return {Allocate, Deallocate, this}; }
  // Greatest bytes in use at once since the last Reset.
  uint64_t peak() const { return peak_; }
  void Reset() { peak_ = live_; }
  uint64_t live() const { return live_; }  // bytes in use now

 private:
  static void* Allocate(void* user, size_t bytes, size_t alignment) {
    MemoryMeter& meter = *static_cast<MemoryMeter*>(user);
    if (bytes > meter.limit_ || meter.live_ > meter.limit_ - bytes) {
      const uint64_t asked = bytes > ~meter.live_ ? ~uint64_t{0} : meter.live_ + bytes;
      if (asked > meter.peak_) meter.peak_ = asked;
      return nullptr;
    }
    void* block = DefaultHostAllocator().allocate(DefaultHostAllocator().user, bytes, alignment);
    if (block != nullptr) meter.live_ += bytes;
    if (meter.live_ > meter.peak_) meter.peak_ = meter.live_;
    return block;
  }
  static void Deallocate(void* user, void* block, size_t bytes) {
    static_cast<MemoryMeter*>(user)->live_ -= bytes;
    DefaultHostAllocator().deallocate(DefaultHostAllocator().user, block, bytes);
  }
  uint64_t live_ = 0, peak_ = 0;
  const uint64_t limit_;
};

}  // namespace rondo::fuzz
