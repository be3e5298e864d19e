#include "tools/rondo/buffer_use.h"

#include <algorithm>

namespace rondo::tools {
namespace {

// Whether `uses(part, operand)` holds for any operand of the kernel's parameter `param`.
template <typename Uses>
bool AnyOperand(const Kernel& kernel, size_t param, const Uses& uses) {
  return std::any_of(kernel.parts.begin(), kernel.parts.end(), [&](const Part& part) {
    return std::any_of(part.operands.begin(), part.operands.end(),
                       [&](const Operand& operand) { return operand.param == param && uses(part, operand); });
  });
}

// Whether `does(step, i)` holds for any binding of one of `buffers`.
template <typename Does>
bool AnyBinding(const Program& program, const std::set<uint32_t>& buffers, const Does& does) {
  for (const Step& step : program.steps) {
    for (size_t i = 0; i < step.bindings.size(); ++i) {
      if (buffers.count(step.bindings[i].buffer) != 0 && does(step, i)) return true;
    }
  }
  return false;
}

int64_t Written(const Part& part, const Operand& operand) {
  int64_t elements = 1;
  for (size_t d = 0; d < operand.strides.size(); ++d) {
    if (operand.strides[d] != 0) elements *= part.loops[d];
  }
  return elements;
}

}  // namespace

bool ReadsAny(const PlanData& plan, const Program& program, const std::set<uint32_t>& buffers) {
  return AnyBinding(program, buffers, [&](const Step& step, size_t i) {
    if (step.kind == StepKind::kCopy) return i == 0;
    if (step.kind != StepKind::kLaunch) return true;
    return AnyOperand(plan.kernels[step.kernel], i,
                      [](const Part&, const Operand& operand) { return operand.mode != Mode::kWrite; });
  });
}

bool RewritesAny(const PlanData& plan, const Program& program, const std::set<uint32_t>& buffers) {
  return AnyBinding(program, buffers, [&](const Step& step, size_t i) {
    const Buffer& buffer = plan.buffers[step.bindings[i].buffer];
    if (step.kind == StepKind::kCopy) return i == 1 && step.bytes >= buffer.bytes;
    if (step.kind != StepKind::kLaunch) return true;
    return AnyOperand(plan.kernels[step.kernel], i, [&](const Part& part, const Operand& operand) {
      return operand.mode != Mode::kRead && Written(part, operand) >= buffer.shape.elements();
    });
  });
}

}  // namespace rondo::tools
