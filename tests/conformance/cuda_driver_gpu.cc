#include "tests/conformance/cuda_driver.h"

namespace rondo::test {
namespace {

// Memory on GPUs is not counted, because CUDA keeps some of it (tests/cuda/gpu_driver_test.cc knows how
// much).
class GpuUnderTest : public CudaUnderTest {
 public:
  using CudaUnderTest::CudaUnderTest;
  std::string name() const override { return shares_device() ? "SharedGpu" : "Gpu"; }
  std::string Held(Driver*) override { return ""; }
};

}  // namespace

const std::vector<DriverUnderTest*>& DriversUnderTest() {
  static GpuUnderTest own(false), shared(true);
  static const std::vector<DriverUnderTest*> all = {&own, &shared};
  return all;
}

}  // namespace rondo::test
