#include "compiler/schedule/cost_model.h"

#include <algorithm>

#include "formats/plan/traffic.h"

namespace rondo {
namespace {

constexpr AllReduceTime kThreads[] = {{0, 15, 40}, {1 << 20, 400, 1600}};

constexpr CostModel kH200 = {2.5, 4.3e6, 6.6e8, 3.2e7, {}, 1};
constexpr CostModel kCore = {0.3, 1.0e4, 4.0e4, 8.0e4, {}, 1};

bool Narrow(const Kernel& kernel) {
  return std::any_of(kernel.parts.begin(), kernel.parts.end(), [](const Part& part) {
    return std::any_of(part.operands.begin(), part.operands.end(), [](const Operand& operand) {
      return operand.dtype == DType::kF16 || operand.dtype == DType::kBF16;
    });
  });
}

}  // namespace

double CostModel::OpTime(const LoweredProgram& program, const LoweredOp& op) const {
  if (op.kind == LoweredKind::kCollectiveWait) return 0;
  if (op.kind == LoweredKind::kCollectiveStart) {
    return CollectiveTime(program.collectives[static_cast<size_t>(op.collective)]);
  }
  Traffic traffic;
  if (op.kind == LoweredKind::kCall) {
    traffic = CallTraffic(op.call->op);
  } else if (op.kind == LoweredKind::kKernel) {
    std::vector<uint64_t> bound;
    for (const LoweredBinding& param : op.params)
      bound.push_back(static_cast<uint64_t>(program.values[static_cast<size_t>(param.value)].bytes));
    traffic = KernelTraffic(op.kernel, Span<const uint64_t>(bound));
  }
  const double moved = static_cast<double>(traffic.read + traffic.written) / memory;
  const double computed = static_cast<double>(traffic.operations) / (Narrow(op.kernel) ? narrow : wide);
  return start + std::max(moved, computed);
}

double CostModel::CollectiveTime(const LoweredCollective& collective) const {
  const CollectiveOp op = collective.op;
  const double ranks = static_cast<double>(collective.group.empty() ? devices : collective.group.size());
  const bool pieces = op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter;
  double size = static_cast<double>(collective.bytes) * (pieces ? ranks : 1);
  if (op != CollectiveOp::kAllReduce) size /= 2;
  return AllReduceMicroseconds(all_reduces, size, ranks);
}

CostModel CostModelOf(const Target& target, uint32_t devices) {
  CostModel model = target.is_host() ? kCore : kH200;
  model.all_reduces =
      target.is_host() ? Span<const AllReduceTime>(kThreads) : Span<const AllReduceTime>(kNcclTimes);
  model.devices = std::max(devices, 1u);
  return model;
}

std::vector<double> OpTimes(const CostModel& model, const LoweredProgram& program) {
  std::vector<double> times;
  for (const LoweredOp& op : program.ops) {
    const double rounds = op.loop < 0 ? 1 : static_cast<double>(program.loops[static_cast<size_t>(op.loop)]);
    times.push_back(model.OpTime(program, op) * rounds);
  }
  return times;
}

}  // namespace rondo
