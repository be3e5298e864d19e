// GuardedDriver: another driver whose memory lies between canaries, and an account of all that is taken from
// it.
//
// Any number of devices; any thread. Findings (kGuard, kGivenTwice, kFreedWrongly, kNotGivenBack) go to the
// list, which is written under a lock of the driver's own.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/forwarding_driver.h"
#include "runtime/verify/finding.h"

namespace rondo::verify {

inline constexpr uint64_t kGuardBytes = 4096;  // on each side of what is taken, at least

// What is taken from a driver: how many of each.
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

  // Compares all canaries of `device`, one of this driver's; what has changed is found, once. `step` of
  // `program` was the last to run there.
  static Status CheckGuards(Device* device, uint32_t program, uint32_t step);
  // What is taken and not given back, on all devices.
  Account account() const;
  // Whatever is left becomes findings, and is forgotten, memory given back: when all sessions and runtimes
  // are gone.
  void ExpectEmpty();
  // Free bytes of all opened devices, as they say.
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
