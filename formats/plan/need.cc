#include "formats/plan/need.h"

namespace rondo {
namespace {

constexpr double kRegister = 2048;  // bytes: 256 lanes of 8
constexpr double kAnyPart = 1 << 20;
constexpr double kPacked = 12 << 20;  // blocks of a product, whatever its size

Need NeedOfPart(const Part& part) {
  double points = 1, reduced = 1, features = 1;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), last = first + part.reduced;
  for (size_t d = 0; d < part.loops.size(); ++d) {
    const double extent = static_cast<double>(part.loops[d]);
    points *= extent;
    if (d >= first) (d < last ? reduced : features) *= extent;
  }
  double tapes = static_cast<double>(part.prologue.size() + part.body.size() + part.epilogue.size());
  for (const Stage& stage : part.stages) tapes += static_cast<double>(stage.tape.size() + 2);
  double accesses = 1;
  for (const Operand& o : part.operands)
    accesses += static_cast<double>(1 + o.indirects.size() + o.guards.size());
  double scratch = kAnyPart + kRegister * (tapes + 4 * static_cast<double>(part.rhs.size()));
  switch (part.skeleton) {
    case Skeleton::kMap: break;
    case Skeleton::kReduction:
      if (part.kept != 0) scratch += kAnyPart + 8 * part.kept * (reduced + 256);
      break;
    case Skeleton::kContraction:
    case Skeleton::kConvolution: scratch += kPacked + 256 * (reduced + 256); break;
    case Skeleton::kAttention: scratch += 80 * (reduced + features + 512); break;
  }
  return {scratch, points * (tapes + accesses)};
}

}  // namespace

Need NeedOf(const Kernel& kernel) {
  Need need;
  for (const Part& part : kernel.parts) {
    const Need of_part = NeedOfPart(part);
    if (of_part.scratch > need.scratch) need.scratch = of_part.scratch;
    need.work += of_part.work;
  }
  return need;
}

double WorkOf(const PlanData& plan, const Program& program, Span<const Need> kernels) {
  double work = 0;
  for (const Step& step : program.steps) {
    uint64_t bytes = step.bytes;
    if (step.kind == StepKind::kLaunch) work += kernels[step.kernel].work;
    if (step.sync_point != kNone) {
      const SyncPoint& point = program.sync_points[step.sync_point];
      bytes = point.bytes * point.participants.size();
    }
    if (step.kind == StepKind::kCustom) {
      for (const CustomArgument& argument : plan.custom_ops[step.custom].arguments) bytes += BytesOf(argument);
    }
    work += static_cast<double>(bytes) / 16;
  }
  return work;
}

}  // namespace rondo
