#include "compiler/schedule/op_times.h"

#include "formats/plan/traffic.h"

namespace rondo {
namespace {

// The time of one round.
double TimeOf(const CostModel& model, const LoweredProgram& program, const LoweredOp& op) {
  switch (op.kind) {
    case LoweredKind::kCollectiveWait: return 0;
    case LoweredKind::kCollectiveStart: {
      const LoweredCollective& c = program.collectives[static_cast<size_t>(op.collective)];
      return model.CollectiveTime(c.op, c.bytes, c.group.size());
    }
    case LoweredKind::kCall: return model.KernelTime(nullptr, CallTraffic(op.call->op));
    case LoweredKind::kLoop: return model.KernelTime(nullptr, {});
    case LoweredKind::kKernel: break;
  }
  std::vector<uint64_t> bound;
  for (const LoweredBinding& param : op.params)
    bound.push_back(static_cast<uint64_t>(program.values[static_cast<size_t>(param.value)].bytes));
  return model.KernelTime(&op.kernel, KernelTraffic(op.kernel, Span<const uint64_t>(bound)), op.microseconds);
}

}  // namespace

std::vector<double> OpTimes(const CostModel& model, const LoweredProgram& program) {
  std::vector<double> times;
  for (const LoweredOp& op : program.ops) {
    const double rounds = op.loop < 0 ? 1 : static_cast<double>(program.loops[static_cast<size_t>(op.loop)]);
    times.push_back(TimeOf(model, program, op) * rounds);
  }
  return times;
}

TimedSteps TimedStepsOf(const CostModel& model, const LoweredProgram& program) {
  const std::vector<double> times = OpTimes(model, program);
  TimedSteps timed;
  timed.collectives = program.collectives.size();
  timed.taken = model.TakenFromCompute();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    const TimedKind kind = op.kind == LoweredKind::kCollectiveStart  ? TimedKind::kStart
                           : op.kind == LoweredKind::kCollectiveWait ? TimedKind::kWait
                                                                     : TimedKind::kCompute;
    timed.steps.push_back({kind, op.stream, op.collective, times[i], op.deps});
  }
  return timed;
}

}  // namespace rondo
