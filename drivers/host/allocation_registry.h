// AllocationRegistry: the owning device of each block of device memory. Virtual devices share one address
// space, so only a registry can tell their memories apart.
#pragma once

#include <cinttypes>
#include <mutex>

#include "core/driver.h"
#include "core/list.h"
#include "core/status.h"
#include "drivers/host/host_driver.h"

namespace rondo::host {

// May be used from any thread. Check allocates nothing.
class AllocationRegistry {
 public:
  // False when out of memory.
  bool Add(DeviceAddress address, uint64_t bytes, uint32_t device) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!blocks_.push_back({address, bytes, device})) return false;
    HostBooks& books = books_[device];
    ++books.blocks;
    books.bytes += bytes;
    if (books.bytes > books.most_bytes) books.most_bytes = books.bytes;
    return true;
  }
  // False if `device` has no block at this address.
  bool Remove(DeviceAddress address, uint32_t device) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Block& block : blocks_) {
      if (block.address != address || block.device != device) continue;
      --books_[device].blocks;
      books_[device].bytes -= block.bytes;
      block = blocks_.back();
      blocks_.pop_back();
      return true;
    }
    return false;
  }
  // Refuses memory of another device. Memory of no device (a mapped weight, the caller's memory) is allowed.
  Status Check(DeviceAddress address, uint64_t bytes, uint32_t device) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Block& block : blocks_) {
      if (block.device == device || address >= block.address + block.bytes ||
          address + (bytes == 0 ? 1 : bytes) <= block.address)
        continue;
      return Status::Error(Code::kInvalidArgument,
                           "host device %u: %" PRIu64 " bytes at address 0x%" PRIx64
                           " are memory of host device %u",
                           device, bytes, address, block.device);
    }
    return Status::Ok();
  }
  HostBooks Read(uint32_t device) {
    std::lock_guard<std::mutex> lock(mutex_);
    return books_[device];
  }

 private:
  struct Block {
    DeviceAddress address;
    uint64_t bytes;
    uint32_t device;
  };
  std::mutex mutex_;
  GrowingList<Block> blocks_;
  HostBooks books_[kMaxHostDevices] = {};
};

}  // namespace rondo::host
