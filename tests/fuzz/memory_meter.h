// MemoryMeter: counts the host memory that code under test takes through an allocator, and bounds it.
#ifndef RONDO_TESTS_FUZZ_MEMORY_METER_H_
#define RONDO_TESTS_FUZZ_MEMORY_METER_H_

#include <cstdint>

#include "core/arena.h"

namespace rondo::fuzz {

// Hands out the default allocator's memory. One thread at a time; must outlive what it gave out.
class MemoryMeter {
 public:
  HostAllocator allocator() { return {Allocate, Deallocate, this}; }
  // Greatest bytes in use at once since the last Reset.
  uint64_t peak() const { return peak_; }
  void Reset() { peak_ = live_; }

 private:
  static void* Allocate(void* user, size_t bytes, size_t alignment) {
    MemoryMeter& meter = *static_cast<MemoryMeter*>(user);
    // More than any machine of the tests has: the code under test must cope with a refusal.
    if (bytes > uint64_t{1} << 32) {
      if (bytes > meter.peak_) meter.peak_ = bytes;
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
};

}  // namespace rondo::fuzz

#endif  // RONDO_TESTS_FUZZ_MEMORY_METER_H_
