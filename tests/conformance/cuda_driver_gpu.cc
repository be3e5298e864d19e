#include "tests/conformance/cuda_driver.h"

namespace rondo::test {
namespace {

// What GPUs give out is not counted: CUDA keeps some of it (tests/cuda/gpu_driver_test.cc knows how much).
class GpuUnderTest : public CudaUnderTest {
 public:
  std::string name() const override { return "Gpu"; }
  std::string Held(Driver*) override { return ""; }
};

}  // namespace

const std::vector<DriverUnderTest*>& DriversUnderTest() {
  static GpuUnderTest gpu;
  static const std::vector<DriverUnderTest*> all = {&gpu};
  return all;
}

}  // namespace rondo::test
