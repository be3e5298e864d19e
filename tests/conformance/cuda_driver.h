// The cuda driver, over a libcuda without a GPU (cuda_driver_fake.cc) or on GPUs (cuda_driver_gpu.cc).
#pragma once

#include "drivers/cuda/cuda_driver.h"
#include "drivers/nccl/nccl_api.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/cuda/machine_code.h"

namespace rondo::test {

class CudaUnderTest : public DriverUnderTest {
 public:
  // `shares`: all ranks are on GPU 0.
  explicit CudaUnderTest(bool shares) : shares_(shares) {}
  bool shares_device() const override { return shares_; }
  std::string Lacks(Feature feature) const override {
    switch (feature) {
      case Feature::kTellsAborts: return "what NCCL ends early looks like what is done";
      case Feature::kBeginsAfterAbort: return "a communicator of NCCL's that was aborted is of no more use";
      case Feature::kAbortsOneSession: return "sessions on the same GPUs share their communicators";
      case Feature::kCallsInGraphs: return "custom ops run on the host";
      case Feature::kComparesCollectives: return "NCCL compares nothing: plans are verified instead";
      default: return "";
    }
  }
  Result<Driver*> Make(uint32_t devices, const OpRegistry* ops) override {
    CudaOptions options;
    options.ops = ops;
    RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriver(options));
    const bool newer = CudaNcclVersion(driver) >= nccl::Version(2, 30);
    if (driver->DeviceCount() >= devices && (newer || !shares_)) return driver;
    const bool enough = driver->DeviceCount() >= devices;
    DestroyCudaDriver(driver);
    if (enough) return Status::Error(Code::kUnsupported, "two ranks on one GPU take NCCL 2.30 or newer");
    return Status::Error(Code::kUnsupported, "fewer than %u GPUs", devices);
  }
  void Destroy(Driver* driver) override { DestroyCudaDriver(driver); }
  std::shared_ptr<void> AddCode(PlanData* plan) override { return std::make_shared<MachineCode>(plan); }
  // Changes the launch so that it does not match the compiled one.
  void Spoil(PlanData* plan, std::vector<Kernel>*, Arena& arena) override {
    std::vector<CodeModule> modules(plan->modules.begin(), plan->modules.end());
    std::vector<KernelBinary> binaries(modules[0].binaries.begin(), modules[0].binaries.end());
    binaries[0].grid += 1;
    modules[0].binaries = arena.Copy(binaries);
    plan->modules = arena.Copy(modules);
  }

 private:
  const bool shares_;
};

}  // namespace rondo::test
