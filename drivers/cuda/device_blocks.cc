#include "drivers/cuda/device_blocks.h"

#include <algorithm>

#include "drivers/cuda/cuda_constants.h"

namespace rondo::cuda {

uint32_t DeviceBlocks::Shared::FirstFree(uint32_t count) const {
  uint32_t first = 0;
  for (uint32_t page = 0; page < kPages;) {
    if (pages[page] != 0) {
      page += pages[page];
      first = page;
    } else if (++page - first == count) {
      return first;
    }
  }
  return kPages;
}

Error DeviceBlocks::Take(uint64_t bytes, uint64_t alignment, Address* address) {
  if (bytes > kSmallBlock || alignment > kDevicePage) return TakeWhole(bytes, alignment, address);
  const uint64_t pages = InUnits(std::max<uint64_t>(bytes, 1), kDevicePage) / kDevicePage;
  return TakePages(static_cast<uint32_t>(pages), address);
}

// Steps start at addresses that meet most alignments. Room to round an address up is requested only if a step
// does not.
Error DeviceBlocks::TakeWhole(uint64_t bytes, uint64_t alignment, Address* address) {
  if (bytes > UINT64_MAX - 2 * kDeviceStep - alignment) return kOutOfMemoryError;
  const uint64_t need = InDeviceSteps(std::max<uint64_t>(bytes, 1));
  Address given = 0;
  Error error = api_.allocate(&given, need);
  if (error == 0 && given % alignment != 0) {
    api_.release(given);
    error = api_.allocate(&given, need + InDeviceSteps(alignment));
  }
  if (error != 0) return error;
  *address = InUnits(given, alignment);
  if (*address == given) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (rounded_.push_back({given, *address})) return 0;
  api_.release(given);
  return kNoHostMemory;
}

Error DeviceBlocks::TakePages(uint32_t count, Address* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Shared& step : shared_) {
    const uint32_t first = step.FirstFree(count);
    if (first == kPages) continue;
    step.pages[first] = static_cast<uint16_t>(count);
    *address = step.address + first * kDevicePage;
    return 0;
  }
  if (!shared_.Reserve(shared_.size() + 1)) return kNoHostMemory;
  Shared step;
  if (const Error error = api_.allocate(&step.address, kDeviceStep); error != 0) return error;
  step.pages[0] = static_cast<uint16_t>(count);
  shared_.push_back(step);  // capacity is reserved
  *address = step.address;
  return 0;
}

bool DeviceBlocks::GivePages(Address address) {
  for (Shared& step : shared_) {
    if (address < step.address || address - step.address >= kDeviceStep) continue;
    step.pages[(address - step.address) / kDevicePage] = 0;
    if (!step.IsEmpty()) return true;
    api_.release(step.address);
    step = shared_.back();
    shared_.pop_back();
    return true;
  }
  return false;
}

void DeviceBlocks::Give(Address address) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (GivePages(address)) return;
    for (Rounded& block : rounded_) {
      if (block.address != address) continue;
      address = block.given;
      block = rounded_.back();
      rounded_.pop_back();
      break;
    }
  }
  api_.release(address);
}

}  // namespace rondo::cuda
