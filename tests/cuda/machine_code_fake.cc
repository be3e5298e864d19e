#include "tests/cuda/fake/fake_gpu.h"
#include "tests/cuda/machine_code.h"

namespace rondo {

struct MachineCode::Impl {
  explicit Impl(PlanData* plan) : gpu(plan) {}
  FakeGpu gpu;
};

MachineCode::MachineCode(PlanData* plan) : impl_(std::make_unique<Impl>(plan)) {}

MachineCode::~MachineCode() = default;

bool BeginCudaAgain() {
  fake_cuda::Heal();
  return true;
}

}  // namespace rondo
