// Host memory in use: what the runtime has allocated, and whether the process's heap stays flat.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/host_memory.h"
#include "runtime/verify/finding.h"

namespace rondo::verify {

// Counts the host memory that the runtime has allocated and not freed.
class CountedHostMemory {
 public:
  HostAllocator allocator() {
    return {[](void* self, size_t bytes, size_t alignment) {
              auto* counted = static_cast<CountedHostMemory*>(self);
              void* block = counted->under_.allocate(counted->under_.user, bytes, alignment);
              if (block != nullptr) counted->bytes_ += static_cast<int64_t>(bytes);
              return block;
            },
            [](void* self, void* block, size_t bytes) {
              auto* counted = static_cast<CountedHostMemory*>(self);
              counted->bytes_ -= static_cast<int64_t>(bytes);
              counted->under_.deallocate(counted->under_.user, block, bytes);
            },
            this};
  }
  void ExpectEmpty(FindingList* findings) {
    if (bytes_ == 0) return;
    Finding finding;
    finding.rule = LifecycleRule::kNotGivenBack;
    finding.expected = "0 bytes of host memory in use after all is closed";
    finding.found = std::to_string(bytes_.exchange(0)) + " bytes left";
    findings->Add(finding);
  }

 private:
  const HostAllocator under_ = RuntimeHostAllocator();
  std::atomic<int64_t> bytes_{0};
};

// A number of bytes in use after each opening and closing: it may vary, but must not grow each time.
class Flatness {
 public:
  Flatness(const char* what, uint64_t least) : what_(what), least_(least) {}
  void Add(int64_t in_use) { amounts_.push_back(in_use); }
  // Whether it has grown each time so far.
  bool Grows() const { return LeastGrowth() >= static_cast<int64_t>(least_); }
  void Check(FindingList* findings) const {
    if (!Grows()) return;
    const int64_t smallest = LeastGrowth();
    Finding finding;
    finding.rule = LifecycleRule::kNotFlat;
    finding.expected = std::string("as much ") + what_ + " in use after each opening and closing";
    finding.found = "at least " + std::to_string(smallest) + " bytes more after each of the last " +
                    std::to_string(amounts_.size() - kFirst);
    findings->Add(finding);
  }

 private:
  static constexpr size_t kFirst = 2;  // the first opening may leave things that are made only once
  // The smallest growth from one opening to the next; 0 with too few openings to tell.
  int64_t LeastGrowth() const {
    if (amounts_.size() < kFirst + 2) return 0;
    int64_t smallest = INT64_MAX;
    for (size_t i = kFirst; i < amounts_.size(); ++i)
      smallest = std::min(smallest, amounts_[i] - amounts_[i - 1]);
    return smallest;
  }

  const char* what_;
  uint64_t least_;
  std::vector<int64_t> amounts_;
};

// Bytes in use in the process's heap; 0 where they are not counted (for example under sanitizers).
inline uint64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace rondo::verify
