#include "formats/plan/need.h"

namespace rondo {
namespace {

constexpr double kRegister = 2064;  // bytes: 256 lanes of 8, and their addresses
constexpr double kAnyPart = 2 << 20;
constexpr double kPacked = 12 << 20;  // blocks or planes of a matmul of any size

// Bytes for each round of the reduced loops, and of the features' loops.
constexpr double EachRound(const Part& part) {
  constexpr double kEach[] = {0, 8, 256, 256, 80, 16};
  return kEach[static_cast<int>(part.skeleton)] * (part.skeleton == Skeleton::kReduction ? part.kept : 1);
}

}  // namespace

Need NeedOf(const Kernel& kernel) {
  Need need;
  for (const Part& part : kernel.parts) {
    double points = 1, rounds[3] = {1, 1, 1};  // of the epilogue's, reduced and features' loops
    for (size_t d = 0; d < part.loops.size(); ++d) {
      const size_t first = static_cast<size_t>(EpilogueLoops(part));
      const double extent = static_cast<double>(part.loops[d]);
      points *= extent;
      rounds[d < first ? 0 : d < first + part.reduced ? 1 : 2] *= extent;
    }
    size_t tapes = part.prologue.size() + part.body.size() + part.epilogue.size() + 4 * part.rhs.size();
    for (const Stage& stage : part.stages) tapes += stage.tape.size() + 2;
    size_t accesses = 1;
    for (const Operand& o : part.operands) accesses += 1 + o.indirects.size() + o.guards.size();
    const double packed = part.skeleton > Skeleton::kReduction ? kPacked : 0;
    const double scratch = kAnyPart + packed + kRegister * static_cast<double>(tapes) +
                           EachRound(part) * (rounds[1] + rounds[2] + 512);
    if (scratch > need.scratch) need.scratch = scratch;
    need.work += points * static_cast<double>(tapes + accesses);
  }
  return need;
}

double WorkOf(const Program& program, Span<const Need> kernels) {
  double work = 0;
  for (const Step& step : program.steps) {
    work += step.kind == StepKind::kLaunch ? kernels[step.kernel].work : static_cast<double>(step.bytes) / 16;
  }
  return work;
}

}  // namespace rondo
