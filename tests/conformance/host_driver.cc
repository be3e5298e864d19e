// The host driver on one thread, on three, with the baseline instructions, and with devices that run their
// work in random order.
#include "drivers/host/host_driver.h"

#include "core/sanitized.h"
#include "tests/conformance/driver_under_test.h"

namespace rondo::test {
namespace {

class HostUnderTest : public DriverUnderTest {
 public:
  HostUnderTest(const char* name, const HostOptions& options, bool shares = false)
      : name_(name), options_(options), shares_(shares) {}
  std::string name() const override { return name_; }
  bool shares_device() const override { return shares_; }
  std::string Lacks(Feature feature) const override {
    if (kSanitized && feature == Feature::kOutOfMemory) return "a sanitizer ends the process instead";
    return DriverUnderTest::Lacks(feature);
  }
  Result<Driver*> Make(uint32_t devices, const OpRegistry* ops) override {
    HostOptions options = options_;
    options.devices = devices;
    options.ops = ops;
    return CreateHostDriver(options);
  }
  void Destroy(Driver* driver) override { DestroyHostDriver(driver); }
  // Makes an integer op read a float register.
  void Spoil(PlanData*, std::vector<Kernel>* kernels, Arena& arena) override {
    Kernel& kernel = kernels->front();
    std::vector<Part> parts(kernel.parts.begin(), kernel.parts.end());
    std::vector<TapeInst> body(parts[0].body.begin(), parts[0].body.end());
    body[2].op = TapeOp::kBitNot;
    body[2].type = TapeType::kI64;
    parts[0].body = arena.Copy(body);
    kernel.parts = arena.Copy(parts);
  }
  std::string Held(Driver* driver) override {
    std::string held;
    for (uint32_t d = 0; driver != nullptr && d < driver->DeviceCount(); ++d) {
      const HostBooks books = ReadHostBooks(driver, d);
      if (books.blocks == 0) continue;
      held += "device " + std::to_string(d) + ": " + std::to_string(books.blocks) + " blocks of " +
              std::to_string(books.bytes) + " bytes; ";
    }
    return held;
  }

 private:
  const char* const name_;
  const HostOptions options_;
  const bool shares_;
};

HostOptions Options(uint32_t threads, uint32_t max_isa, bool reorder) {
  HostOptions options;
  options.threads = threads;
  options.work_per_thread = 1;
  options.max_isa = max_isa;
  options.faults.reorder = reorder;
  options.faults.seed = 1;
  return options;
}

}  // namespace

const std::vector<DriverUnderTest*>& DriversUnderTest() {
  static HostUnderTest one("OneThread", Options(1, 2, false)), three("ThreeThreads", Options(3, 2, false)),
      baseline("Baseline", Options(1, 0, false)), reordered("Reordered", Options(2, 2, true)),
      shared("SharedDevice", Options(2, 2, false), true);
  static const std::vector<DriverUnderTest*> all = {&one, &three, &baseline, &reordered, &shared};
  return all;
}

}  // namespace rondo::test
