// DeviceBlocks: the memory of one GPU in blocks, taken from CUDA in whole steps (core/device_steps.h), so
// that what a plan takes is known before. Internal to drivers/cuda.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/device_steps.h"
#include "core/list.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

// A large block has steps of its own. Small ones share steps, each at the first pages that are free; a step
// goes back with its last block. Thread-safe. The device's context must be current in all calls.
class DeviceBlocks {
 public:
  static constexpr Error kNoHostMemory = -1;

  explicit DeviceBlocks(const Api& api) : api_(api) {}
  DeviceBlocks(const DeviceBlocks&) = delete;

  // 0, CUDA's error, or kNoHostMemory. `alignment`: a power of two. No bytes are taken as one.
  Error Take(uint64_t bytes, uint64_t alignment, Address* address);
  void Give(Address address);

 private:
  static constexpr uint32_t kPages = kDeviceStep / kDevicePage;
  // A step that small blocks lie in: of each page, how many pages the block has that begins there.
  struct Shared {
    Address address = 0;
    uint16_t pages[kPages] = {};
    // The first of `count` free pages in a row; kPages: there are none.
    uint32_t FirstFree(uint32_t count) const;
    bool IsEmpty() const { return FirstFree(kPages) == 0; }
  };
  // What CUDA gave for an address that had to be rounded up.
  struct Rounded {
    Address given = 0, address = 0;
  };

  Error TakeWhole(uint64_t bytes, uint64_t alignment, Address* address);
  Error TakePages(uint32_t count, Address* address);
  // Whether it was a small block.
  bool GivePages(Address address);

  const Api& api_;
  std::mutex mutex_;  // guards the lists
  GrowingList<Shared> shared_;
  GrowingList<Rounded> rounded_;
};

}  // namespace rondo::cuda
