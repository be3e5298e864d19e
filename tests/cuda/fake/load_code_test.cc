// If libcuda cannot load code, the error has the message of libcuda's compiler.
#include <gtest/gtest.h>

#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/cuda_driver.h"
#include "tests/cuda/fake/fake_cuda.h"
#include "tests/says.h"

namespace rondo {
namespace {

TEST(LoadCode, SaysWhatTheCompilerSays) {
  fake_cuda::Heal();
  fake_cuda::SetMachine({});
  Driver* const driver = CreateCudaDriver().Take();
  auto* const device = static_cast<cuda::CudaDevice*>(driver->Open(0).Take());
  cuda::ModuleHandle module = nullptr;
  {
    const cuda::CudaDevice::Use use(*device);
    const Status status = device->LoadCode(&module, "nonsense", "loading nonsense");
    EXPECT_SAYS(status, "loading nonsense");
    EXPECT_SAYS(status, "(200): no image begins like this");
  }
  DestroyCudaDriver(driver);
}

}  // namespace
}  // namespace rondo
