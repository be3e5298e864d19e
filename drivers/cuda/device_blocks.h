// DeviceBlocks: allocates the memory of one GPU in whole steps (core/device_steps.h), so that a plan's memory
// is known in advance. Internal to drivers/cuda.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/device_steps.h"
#include "core/list.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

// A large block has steps of its own. Small blocks share steps, each at the first free pages; a step is freed
// with its last block. Thread-safe. The device's context must be current in all calls.
class DeviceBlocks {
 public:
  static constexpr Error kNoHostMemory = -1;

  explicit DeviceBlocks(const Api& api) : api_(api) {}
  DeviceBlocks(const DeviceBlocks&) = delete;

  // 0, CUDA's error, or kNoHostMemory. `alignment`: a power of two. 0 bytes count as 1.
  Error Take(uint64_t bytes, uint64_t alignment, Address* address);
  void Give(Address address);

 private:
  static constexpr uint32_t kPages = kDeviceStep / kDevicePage;
  // A step shared by small blocks. For each page: the number of pages of the block that begins there.
  struct Shared {
    Address address = 0;
    uint16_t pages[kPages] = {};
    // The first of `count` consecutive free pages; kPages: there are none.
    uint32_t FirstFree(uint32_t count) const;
    bool IsEmpty() const { return FirstFree(kPages) == 0; }
  };
  // The address that CUDA returned, and the aligned one that was passed on.
  struct Rounded {
    Address given = 0, address = 0;
  };

  Error TakeWhole(uint64_t bytes, uint64_t alignment, Address* address);
  Error TakePages(uint32_t count, Address* address);
  // False if it was not a small block.
  bool GivePages(Address address);

  const Api& api_;
  std::mutex mutex_;  // guards the lists
  GrowingList<Shared> shared_;
  GrowingList<Rounded> rounded_;
};

}  // namespace rondo::cuda
