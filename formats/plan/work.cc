#include "formats/plan/work.h"

namespace rondo {
namespace {

constexpr uint64_t kAnyPlan = uint64_t{1} << 26;
constexpr uint64_t kEachByte = 32;

template <typename T>
uint64_t BytesOf(Span<T> span) {
  return span.size() * sizeof(T);
}

}  // namespace

Work::Work(const PlanData& plan) {
  uint64_t bytes = BytesOf(plan.buffers) + BytesOf(plan.kernels);
  for (const Kernel& kernel : plan.kernels) {
    for (const Part& part : kernel.parts) {
      bytes += sizeof(Part) + BytesOf(part.prologue) + BytesOf(part.body) + BytesOf(part.epilogue);
      for (const Stage& stage : part.stages) bytes += sizeof(Stage) + BytesOf(stage.tape);
      for (const Operand& operand : part.operands)
        bytes += sizeof(Operand) + BytesOf(operand.indirects) + BytesOf(operand.guards);
    }
  }
  for (const Program& program : plan.programs) {
    bytes += sizeof(Program) + BytesOf(program.sync_points) + BytesOf(program.partitions);
    for (const Step& step : program.steps)
      bytes += sizeof(Step) + BytesOf(step.bindings) + BytesOf(step.waits) + BytesOf(step.after);
  }
  for (const CodeModule& module : plan.modules)
    bytes += BytesOf(module.binaries) + BytesOf(module.alternatives);
  left_ = kAnyPlan + kEachByte * bytes;
}

}  // namespace rondo
