// GuardedDriver: puts canaries around all memory of another driver, and accounts for everything allocated
// from it.
//
// Any number of devices; any thread. Findings (kGuard, kGivenTwice, kFreedWrongly, kNotGivenBack) go to the
// list, which is written under the driver's own lock.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/forwarding_driver.h"
#include "runtime/verify/finding.h"

namespace rondo::verify {

inline constexpr uint64_t kGuardBytes = 4096;  // at least this much on each side of a block

// Kinds of things allocated from a driver.
enum class Taken : uint8_t { kBytes, kBlocks, kModules, kStreams, kEvents, kGraphs, kCollectives };
inline constexpr size_t kTakenKinds = 7;
using Account = std::array<uint64_t, kTakenKinds>;

class GuardedDevice;

class GuardedDriver : public ForwardingDriver {
 public:
  // Both must outlive it.
  GuardedDriver(Driver* inner, FindingList* findings);
  ~GuardedDriver() override;

  Result<Device*> Open(uint32_t index) override;
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override;
  void DestroyCollectives(Collectives* collectives) override;

  // Compares all canaries of `device`, one of this driver's. Each change is reported once. `step` of
  // `program` was the last to run there.
  static Status CheckGuards(Device* device, uint32_t program, uint32_t step);
  // What is allocated now, on all devices.
  Account account() const;
  // Call it when all sessions and runtimes are gone: everything left becomes a finding, is forgotten, and its
  // memory is freed.
  void ExpectEmpty();
  // Free bytes of all opened devices, as the devices report them.
  Result<uint64_t> FreeBytes();

 private:
  friend class GuardedDevice;
  void Change(Taken what, int64_t by);
  void Found(LifecycleRule rule, uint32_t device, const std::string& expected, const std::string& found,
             uint32_t program = kNone, uint32_t step = kNone);

  FindingList* findings_;
  mutable std::mutex mutex_;
  Account account_ = {};
  std::map<uint32_t, std::unique_ptr<GuardedDevice>> devices_;
};

}  // namespace rondo::verify
