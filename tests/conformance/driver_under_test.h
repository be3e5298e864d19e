// DriverUnderTest: what the suite has to know of a driver besides core/driver.h. Each program of the suite
// links one file that makes its drivers known (DriversUnderTest).
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

// What a driver may do without. What core/driver.h lets a driver say itself (DriverInfo, kUnsupported) is not
// among it.
enum class Feature {
  kEverySkeleton,        // kernels of every skeleton
  kRefusesKernels,       // LoadModule fails for a kernel that it cannot run
  kNamesIndex,           // the error of an index out of range says which
  kOutOfMemory,          // memory that is not there is an error, here
  kTellsAborts,          // Synchronize returns kAborted of a collective that was ended in flight
  kBeginsAfterAbort,     // the same Collectives serve again after an abort
  kAbortsOneSession,     // an abort leaves other sessions on the same devices alone
  kComparesCollectives,  // ranks that meet with different collectives are told
  kCalls,                // custom ops
  kCallsInGraphs,        // a graph may contain them
};

class DriverUnderTest {
 public:
  virtual ~DriverUnderTest() = default;
  virtual std::string name() const = 0;  // letters and digits: a part of the tests' names
  // Ranks of collectives are all on device 0. The tests of one device leave it out: another is the same
  // there.
  virtual bool shares_device() const { return false; }
  // Why it lacks `feature`; "" if it does not.
  virtual std::string Lacks(Feature) const { return ""; }
  // A driver of at least `devices` devices, with custom ops where there are any; `ops` must outlive it.
  // kUnsupported: there can be none on this machine, and why.
  virtual Result<Driver*> Make(uint32_t devices, const OpRegistry* ops) = 0;
  virtual void Destroy(Driver* driver) = 0;
  // Gives `plan` the code that this driver runs, which is there as long as the result and `plan` are.
  virtual std::shared_ptr<void> AddCode(PlanData* plan) { return plan == nullptr ? nullptr : Nothing(); }
  // Makes the first of `kernels`, those of `plan`, which has its code, one that this driver cannot run.
  virtual void Spoil(PlanData*, std::vector<Kernel>*, Arena&) {}
  // What is still held of what devices gave out, in words; "" for nothing. `driver` may be null: destroyed.
  virtual std::string Held(Driver* driver) = 0;

 private:
  static std::shared_ptr<void> Nothing() { return std::make_shared<int>(0); }
};

// Of the program; they live as long as it does.
const std::vector<DriverUnderTest*>& DriversUnderTest();
// Those of them whose ranks have devices of their own.
std::vector<DriverUnderTest*> DriversOfOneDevice();

}  // namespace rondo::test
