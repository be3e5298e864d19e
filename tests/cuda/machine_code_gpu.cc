#include <gtest/gtest.h>

#include "compiler/codegen/cuda/add_modules.h"
#include "tests/cuda/machine_code.h"

namespace rondo {

struct MachineCode::Impl {
  EmittedPlan emitted;
};

MachineCode::MachineCode(PlanData* plan) : impl_(std::make_unique<Impl>()) {
  impl_->emitted.arena = std::make_unique<Arena>();
  impl_->emitted.plan = *plan;
  std::string report;
  ModuleOptions options;
  options.units.architecture = "sm_90a";
  const Status status = AddCudaModules(&impl_->emitted, options, &report);
  EXPECT_TRUE(status.ok()) << status.message();
  plan->modules = impl_->emitted.plan.modules;
}

MachineCode::~MachineCode() = default;

bool BeginCudaAgain() { return false; }

}  // namespace rondo
