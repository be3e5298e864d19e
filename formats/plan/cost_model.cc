#include "formats/plan/cost_model.h"

#include <algorithm>

#include "core/collective.h"
#include "core/element.h"

namespace rondo {
namespace {

constexpr AllReduceTime kThreads[] = {{0, 15, 40}, {1 << 20, 400, 1600}};

// A collective slows matmuls that fill all multiprocessors by this share of its own time:
// tools/bench/results/overlap.md.
constexpr double kTakenByNccl = 0.8;
// The start times are for map, reduction, matmul, convolution, attention and top k. A stream is read at 4.67
// TB/s, and a copy runs at 4.28 TB/s.
constexpr MachineRates kH200 = {3.4, {0.6, 0.6, 2, 2, 2.3, 2}, 4.55e6, 3.7e6, 6.6e8, 3.2e7};
constexpr MachineRates kCore = {0, {0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, 1.0e4, 1.0e4, 4.0e4, 8.0e4};

bool Narrow(const Kernel& kernel) {
  return std::any_of(kernel.parts.begin(), kernel.parts.end(), [](const Part& part) {
    return std::any_of(part.operands.begin(), part.operands.end(), [](const Operand& operand) {
      return Is16BitFloat(operand.dtype) || IsFp8(operand.dtype);
    });
  });
}

double MemoryTime(const MachineRates& machine, const Traffic& traffic) {
  return static_cast<double>(traffic.read) / machine.read +
         static_cast<double>(traffic.written) / machine.written;
}

}  // namespace

double CostModel::KernelTime(const Kernel* kernel, const Traffic& traffic, double estimate) const {
  if (measured != nullptr && kernel != nullptr) {
    if (const std::optional<double> time = measured->OfKernel(*kernel)) return *time;
  }
  double start = machine.starts[0];
  for (size_t p = 0; kernel != nullptr && p < kernel->parts.size(); ++p)
    start = std::max(start, machine.starts[static_cast<size_t>(kernel->parts[p].skeleton)]);
  if (estimate == 0 && estimated != nullptr && kernel != nullptr) estimate = TimeOf(*estimated, *kernel);
  if (estimate > 0) return std::max(estimate, start + MemoryTime(machine, traffic));
  return start + LeastTime(kernel, traffic);
}

double CostModel::LeastTime(const Kernel* kernel, const Traffic& traffic) const {
  const double rate = kernel != nullptr && Narrow(*kernel) ? machine.narrow : machine.wide;
  return std::max(MemoryTime(machine, traffic), static_cast<double>(traffic.operations) / rate);
}

double CostModel::CollectiveTime(CollectiveOp op, int64_t bytes, size_t group) const {
  const size_t among = group == 0 ? devices : group;
  const auto ranks = static_cast<double>(among);
  const bool pieces = !KeepsShape(op);
  double size = static_cast<double>(bytes) * (pieces ? ranks : 1);
  if (op != CollectiveOp::kAllReduce) size /= 2;
  const auto known = [&](bool by_small) {
    return measured != nullptr ? measured->OfCollective(op, static_cast<uint64_t>(bytes), among, by_small)
                               : std::nullopt;
  };
  const std::optional<double> nccl = known(false);
  const double time = nccl ? *nccl : AllReduceMicroseconds(all_reduces, size, ranks);
  const bool has_kernel =
      op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather;
  if (!has_kernel || small.empty() || size > small[small.size() - 1].bytes) return time;
  const std::optional<double> kernels = known(true);
  return std::min(time, kernels ? *kernels : AllReduceMicroseconds(small, size, ranks));
}

double CostModel::TakenFromCompute() const {
  return measured != nullptr && measured->taken ? *measured->taken : taken;
}

bool CostModel::IsMeasured(const Kernel& kernel) const {
  return measured != nullptr && measured->OfKernel(kernel).has_value();
}

bool CostModel::IsMeasured(CollectiveOp op, int64_t bytes, size_t group) const {
  const size_t ranks = group == 0 ? devices : group;
  return measured != nullptr &&
         measured->OfCollective(op, static_cast<uint64_t>(bytes), ranks, false).has_value();
}

CostModel CostModelOf(bool gpu, uint32_t devices, CollectivesBy by) {
  CostModel model;
  model.machine = gpu ? kH200 : kCore;
  model.all_reduces = gpu ? Span<const AllReduceTime>(kNcclTimes) : Span<const AllReduceTime>(kThreads);
  model.taken = gpu ? kTakenByNccl : 0;
  if (gpu && by == CollectivesBy::kFaster) model.small = Span<const AllReduceTime>(kSmallTimes);
  model.devices = std::max(devices, 1u);
  return model;
}

}  // namespace rondo
