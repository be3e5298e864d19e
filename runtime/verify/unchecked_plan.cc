#include "runtime/verify/unchecked_plan.h"

#include "formats/plan/verifier.h"
#include "runtime/host_memory.h"
#include "runtime/plan_impl.h"

namespace rondo {

Result<Plan> UncheckedPlan::FromData(const PlanData& data, Span<const uint8_t> weights) {
  RONDO_RETURN_IF_ERROR(VerifyPlan(data));
  const HostAllocator& allocator = RuntimeHostAllocator();
  PlanImpl* impl = NewObject<PlanImpl>(allocator, allocator);
  if (impl == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory to open a plan");
  impl->file.data = data;
  impl->weights = weights;
  return Plan(impl);
}

}  // namespace rondo
