// The fake driver of tests/runtime, on whose promises those tests rely. Also the same driver behind a driver
// and devices that forward every call.
#include "tests/runtime/fake_driver.h"

#include <map>

#include "core/forwarding_driver.h"
#include "tests/conformance/driver_under_test.h"

namespace rondo::test {
namespace {

class Forwarding : public ForwardingDriver {
 public:
  explicit Forwarding(FakeDriver* fake) : ForwardingDriver(fake) {}
  Result<Device*> Open(uint32_t index) override {
    RONDO_ASSIGN_OR_RETURN(Device * inner, inner_->Open(index));
    return static_cast<Device*>(&devices_.try_emplace(index, inner).first->second);
  }
  FakeDriver* fake() { return static_cast<FakeDriver*>(inner_); }

 private:
  std::map<uint32_t, ForwardingDevice> devices_;
};

class FakeUnderTest : public DriverUnderTest {
 public:
  explicit FakeUnderTest(bool forwarded) : forwarded_(forwarded) {}
  std::string name() const override { return forwarded_ ? "Forwarded" : "Fake"; }
  std::string Lacks(Feature feature) const override {
    switch (feature) {
      case Feature::kEverySkeleton: return "it runs maps of floats over one loop";
      case Feature::kRefusesKernels: return "it looks at kernels only when it runs them";
      case Feature::kNamesIndex: return "it keeps no more of a fault than its step";
      case Feature::kCalls:
      case Feature::kCallsInGraphs: return "it calls no custom ops";
      default: return "";
    }
  }
  Result<Driver*> Make(uint32_t devices, const OpRegistry*) override {
    auto* driver = new FakeDriver(devices);
    driver->controls.rebinds = true;
    return forwarded_ ? static_cast<Driver*>(new Forwarding(driver)) : driver;
  }
  void Destroy(Driver* driver) override {
    if (forwarded_) delete FakeOf(driver);
    delete driver;
  }
  std::string Held(Driver* driver) override {
    if (driver == nullptr) return "";
    const FakeControls& controls = FakeOf(driver)->controls;
    if (controls.live_objects == 0 && controls.live_bytes == 0) return "";
    return std::to_string(controls.live_objects) + " objects, " + std::to_string(controls.live_bytes) +
           " bytes";
  }

 private:
  FakeDriver* FakeOf(Driver* driver) const {
    return forwarded_ ? static_cast<Forwarding*>(driver)->fake() : static_cast<FakeDriver*>(driver);
  }
  bool forwarded_;
};

}  // namespace

const std::vector<DriverUnderTest*>& DriversUnderTest() {
  static FakeUnderTest fake(false), forwarded(true);
  static const std::vector<DriverUnderTest*> all = {&fake, &forwarded};
  return all;
}

}  // namespace rondo::test
