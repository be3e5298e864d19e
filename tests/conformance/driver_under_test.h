// DriverUnderTest: everything that the suite needs of a driver besides core/driver.h. Each program of the
// suite links one file that defines its drivers (DriversUnderTest).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/driver.h"

namespace rondo {
class OpRegistry;
}  // namespace rondo

namespace rondo::test {

// Features that a driver may lack. Features that a driver itself reports by core/driver.h (DriverInfo,
// kUnsupported) are not listed.
enum class Feature {
  kEverySkeleton,        // kernels of every skeleton
  kRefusesKernels,       // LoadModule fails for a kernel that it cannot run
  kNamesIndex,           // the error of an index out of range names the index
  kOutOfMemory,          // a failed allocation is an error on this machine
  kTellsAborts,          // Synchronize returns kAborted for a collective that was ended in flight
  kBeginsAfterAbort,     // the same Collectives can be used again after an abort
  kAbortsOneSession,     // an abort does not affect other sessions on the same devices
  kComparesCollectives,  // ranks that meet with different collectives get an error
  kCalls,                // custom ops
  kCallsInGraphs,        // a graph may contain them
};

class DriverUnderTest {
 public:
  virtual ~DriverUnderTest() = default;
  virtual std::string name() const = 0;  // letters and digits: a part of the tests' names
  // Whether the ranks of collectives are all on device 0. If so, tests of one device skip this driver:
  // another driver under test is the same there.
  virtual bool shares_device() const { return false; }
  // The reason why it lacks `feature`; "" if it has it.
  virtual std::string Lacks(Feature) const { return ""; }
  // A driver of at least `devices` devices, with custom ops if `ops` is not null; `ops` must outlive it.
  // kUnsupported, with the reason, if this machine can have none.
  virtual Result<Driver*> Make(uint32_t devices, const OpRegistry* ops) = 0;
  virtual void Destroy(Driver* driver) = 0;
  // Gives `plan` this driver's code. The code lives as long as the result and `plan` do.
  virtual std::shared_ptr<void> AddCode(PlanData* plan) { return plan == nullptr ? nullptr : Nothing(); }
  // Changes the first of `kernels` so that this driver cannot run it. `kernels` are those of `plan`, which
  // has its code.
  virtual void Spoil(PlanData*, std::vector<Kernel>*, Arena&) {}
  // Names everything that the devices gave out and have not got back; "" for nothing. `driver` is null once
  // it is destroyed.
  virtual std::string Held(Driver* driver) = 0;

 private:
  static std::shared_ptr<void> Nothing() { return std::make_shared<int>(0); }
};

// The program's drivers; they live as long as the program.
const std::vector<DriverUnderTest*>& DriversUnderTest();
// Those whose ranks have devices of their own.
std::vector<DriverUnderTest*> DriversOfOneDevice();

}  // namespace rondo::test
