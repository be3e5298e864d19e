#include "tools/rondo/plan_texts.h"

#include <string_view>

#include "core/custom_op.h"
#include "formats/plan/part_name.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

std::vector<OverlapNote> OverlapsOf(const PlanData& plan, const Program& program) {
  std::vector<OverlapNote> notes;
  for (std::string_view source : plan.sources) {
    const std::optional<OverlapNote> note = ParseOverlapNote(source);
    if (note && note->program == program.name) notes.push_back(*note);
  }
  return notes;
}

bool LivesInArena(BufferKind kind) { return kind != BufferKind::kConstant && kind != BufferKind::kState; }

std::string TypeText(const Buffer& buffer) {
  char shape[256];
  return std::string(Name(buffer.dtype)) + Format(buffer.shape, shape, sizeof(shape));
}

std::string SourceText(const PlanData& plan, uint32_t source) {
  return source < plan.sources.size() ? std::string(plan.sources[source]) : std::string();
}

std::string MatmulText(const LibraryMatmul& p) {
  std::string text = "cuBLASLt ";
  if (p.batches > 1) text += Printf("%lld of ", static_cast<long long>(p.batches));
  text += Printf("%lld x %lld x %lld %s", static_cast<long long>(p.m), static_cast<long long>(p.n),
                 static_cast<long long>(p.k), Name(p.lhs.dtype));
  if (p.tf32) text += " (tf32)";
  if (p.out.dtype != p.lhs.dtype) text += Printf(" to %s", Name(p.out.dtype));
  if (p.bias.param != kNoParam) text += ", bias";
  if (p.addend.param != kNoParam) text += ", addend";
  if (p.epilogue == MatmulEpilogue::kRelu) text += ", ReLU";
  if (p.epilogue == MatmulEpilogue::kGeluTanh) text += ", GELU by tanh";
  if (p.algorithm != kNone) text += Printf(", algorithm %u", p.algorithm + 1);
  return text + ", workspace " + BytesText(p.workspace_bytes);
}

std::string CustomOpText(const CustomOp& op) { return std::string(op.domain) + "." + std::string(op.name); }

std::string StepText(const PlanData& plan, const Step& step) {
  if (step.kind == StepKind::kLaunch) return std::string(plan.kernels[step.kernel].name);
  return step.kind == StepKind::kCustom ? CustomOpText(plan.custom_ops[step.custom]) : Name(step.kind);
}

std::string ConditionsText(const PlanData& plan, const Step& step) {
  if (step.kind != StepKind::kLaunch) return "";
  std::string text;
  bool any = false;
  for (const Part& part : plan.kernels[step.kernel].parts) {
    std::string own;
    for (const uint16_t when : part.when) {
      const uint32_t buffer = step.bindings[part.operands[when & ~kUnless].param].buffer;
      own += Printf("%s%s#%u", own.empty() ? " if " : " and ", (when & kUnless) != 0 ? "not " : "", buffer);
    }
    any |= !own.empty();
    text += (text.empty() ? "" : " /") + (own.empty() ? " always" : own);
  }
  return any ? text : "";
}

std::string SkeletonText(const Kernel& kernel) {
  std::string text;
  for (size_t p = 0; p < kernel.parts.size();) {
    size_t end = p;
    while (end < kernel.parts.size() &&
           PartName(kernel.parts[end]) == std::string_view(PartName(kernel.parts[p])) &&
           kernel.parts[end].tf32 == kernel.parts[p].tf32)
      ++end;
    if (!text.empty()) text += " + ";
    text += PartName(kernel.parts[p]);
    if (kernel.parts[p].tf32) text += " (tf32)";
    if (end - p > 1) text += Printf(" x%zu", end - p);
    p = end;
  }
  return text;
}

double PercentOfBound(uint64_t bytes, uint64_t lower_bound) {
  if (lower_bound == 0) return 100;
  return 100.0 * static_cast<double>(bytes) / static_cast<double>(lower_bound);
}

std::string ArenaText(uint64_t bytes, uint64_t lower_bound) {
  return Printf("%llu bytes, lower bound %llu: %.1f %%%s", static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(lower_bound), PercentOfBound(bytes, lower_bound),
                bytes <= lower_bound ? ", the bound is met" : "");
}

std::vector<const Step*> FirstUses(const PlanData& plan, std::vector<uint32_t>* counts) {
  std::vector<const Step*> uses(plan.kernels.size(), nullptr);
  counts->assign(plan.kernels.size(), 0);
  for (const Program& program : plan.programs) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      if (step.kind != StepKind::kLaunch) continue;
      (*counts)[step.kernel] += RoundsOf(program, s);
      if (uses[step.kernel] == nullptr) uses[step.kernel] = &step;
    }
  }
  return uses;
}

}  // namespace rondo::tools
