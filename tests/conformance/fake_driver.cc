// The fake driver of tests/runtime: those tests rest on what it promises.
#include "tests/runtime/fake_driver.h"

#include "tests/conformance/driver_under_test.h"

namespace rondo::test {
namespace {

class FakeUnderTest : public DriverUnderTest {
 public:
  std::string name() const override { return "Fake"; }
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
    return static_cast<Driver*>(driver);
  }
  void Destroy(Driver* driver) override { delete driver; }
  std::string Held(Driver* driver) override {
    if (driver == nullptr) return "";
    const FakeControls& controls = static_cast<FakeDriver*>(driver)->controls;
    if (controls.live_objects == 0 && controls.live_bytes == 0) return "";
    return std::to_string(controls.live_objects) + " objects, " + std::to_string(controls.live_bytes) +
           " bytes";
  }
};

}  // namespace

const std::vector<DriverUnderTest*>& DriversUnderTest() {
  static FakeUnderTest fake;
  static const std::vector<DriverUnderTest*> all = {&fake};
  return all;
}

}  // namespace rondo::test
