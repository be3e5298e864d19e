#include "compiler/schedule/cost_model.h"

#include <algorithm>
#include <cmath>

#include "formats/plan/traffic.h"

namespace rondo {
namespace {

constexpr AllReduceTime kNccl[] = {{4 << 10, 7.1, 22.6},
                                   {64 << 10, 8.0, 25.5},
                                   {1 << 20, 14.5, 31.6},
                                   {16 << 20, 73, 121},
                                   {256 << 20, 886, 1356}};
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
  const double doublings = std::clamp(std::log2(std::max(ranks, 2.0)), 1.0, 3.0) - 1;  // 2 devices: 0, 8: 2
  const auto at = [&](const AllReduceTime& row) { return row.us2 + (row.us8 - row.us2) * doublings / 2; };
  const AllReduceTime *low = &all_reduces[0], *high = low;
  for (const AllReduceTime& row : all_reduces) {
    low = high;
    high = &row;
    if (row.bytes >= size) break;
  }
  if (low == high) return at(*low);
  const double slope = (at(*high) - at(*low)) / (high->bytes - low->bytes);
  return std::max(at(*low) + (size - low->bytes) * slope, at(all_reduces[0]));
}

CostModel CostModelOf(const Target& target, uint32_t devices) {
  CostModel model = target.is_host() ? kCore : kH200;
  model.all_reduces =
      target.is_host() ? Span<const AllReduceTime>(kThreads) : Span<const AllReduceTime>(kNccl);
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
