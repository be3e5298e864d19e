#include "drivers/host/module.h"

#include <new>

#include "drivers/host/exec/engine.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

void PickEngine(uint32_t level, Engine* engine) {
#if defined(RONDO_HOST_X86)
  __builtin_cpu_init();
#if defined(__clang__)
  const bool f16c = true;  // Clang cannot ask; every processor with AVX2 has it
#else
  const bool f16c = __builtin_cpu_supports("f16c");
#endif
  const bool v3 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (level >= 2 && v4) return avx512::FillEngine(engine);
  if (level >= 1 && v3) return avx2::FillEngine(engine);
#endif
  (void)level;
  baseline::FillEngine(engine);
}

HostModule* HostModule::Create(const PlanData& plan, const Engine& engine, const Sharing& sharing,
                               const OpRegistry* ops, Status* status) {
  HostModule* module = new (std::nothrow) HostModule;
  if (module == nullptr) {
    *status = Status::Error(Code::kOutOfMemory, "host driver: no memory for the kernels of a plan");
    return nullptr;
  }
  *status = module->Build(plan, engine, sharing);
  if (status->ok()) *status = module->calls_.Build(plan, ops, false, module->arena_);
  if (status->ok()) return module;
  delete module;
  return nullptr;
}

Status HostModule::BuildPart(const Kernel& kernel, uint32_t index, const Part& part, const Engine& engine,
                             const Sharing& sharing, const PartProgram** out) {
  PartProgram* made = nullptr;
  PartContext context(kernel, part, engine, sharing, arena_, false);
  Status status = host::BuildPart(context, &made);
  if (!status.ok() && context.overflow) {
    PartContext linear(kernel, part, engine, sharing, arena_, true);
    status = host::BuildPart(linear, &made);
  }
  if (!status.ok()) return status;
  made->kernel_index = index;
  const Span<Condition> when = arena_.New<Condition>(part.when.size());
  if (when.size() < part.when.size()) return context.NoMemory();
  for (size_t i = 0; i < when.size(); ++i) {
    const Operand& operand = part.operands[part.when[i] & ~kUnless];
    when[i] = {operand.param, operand.offset, (part.when[i] & kUnless) == 0};
  }
  made->when = when;
  *out = made;
  return status;
}

Status HostModule::Build(const PlanData& plan, const Engine& engine, const Sharing& sharing) {
  const Status no_memory =
      Status::Error(Code::kOutOfMemory, "host driver: no memory for the kernels of a plan");
  Span<KernelProgram> kernels = arena_.New<KernelProgram>(plan.kernels.size());
  if (kernels.data() == nullptr) return no_memory;
  for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    Span<const PartProgram*> parts = arena_.New<const PartProgram*>(kernel.parts.size());
    if (parts.data() == nullptr) return no_memory;
    for (size_t p = 0; p < parts.size(); ++p) {
      RONDO_RETURN_IF_ERROR(BuildPart(kernel, k, kernel.parts[p], engine, sharing, &parts[p]));
      if (parts[p]->scratch_bytes > kernels[k].scratch_bytes) {
        kernels[k].scratch_bytes = parts[p]->scratch_bytes;
      }
    }
    kernels[k].plan = &plan;
    kernels[k].num_params = kernel.num_params;
    kernels[k].parts = parts;
  }
  kernels_ = kernels;
  return Status::Ok();
}

}  // namespace rondo::host
