#include "formats/plan/cost_model.h"

#include <algorithm>
#include <cmath>

namespace rondo {
namespace {

constexpr AllReduceTime kNccl[] = {{4 << 10, 7.1, 22.6},
                                   {64 << 10, 8.0, 25.5},
                                   {1 << 20, 14.5, 31.6},
                                   {16 << 20, 73, 121},
                                   {256 << 20, 886, 1356}};
constexpr AllReduceTime kSmall[] = {
    {4 << 10, 4.1, 6.7}, {16 << 10, 4.6, 6.9}, {64 << 10, 5.3, 8.0}, {256 << 10, 6.1, 13.7}};
constexpr AllReduceTime kThreads[] = {{0, 15, 40}, {1 << 20, 400, 1600}};

constexpr CostModel kH200 = {2.5, 4.3e6, 6.6e8, 3.2e7, {}, 1, {}};
constexpr CostModel kCore = {0.3, 1.0e4, 4.0e4, 8.0e4, {}, 1, {}};

bool Narrow(const Kernel& kernel) {
  return std::any_of(kernel.parts.begin(), kernel.parts.end(), [](const Part& part) {
    return std::any_of(part.operands.begin(), part.operands.end(), [](const Operand& operand) {
      return operand.dtype == DType::kF16 || operand.dtype == DType::kBF16;
    });
  });
}

// Of an all-reduce of `size` bytes among 2^(doublings + 1) devices; beyond the last row as between the last
// two.
double TimeIn(Span<const AllReduceTime> rows, double size, double doublings) {
  const auto at = [&](const AllReduceTime& row) { return row.us2 + (row.us8 - row.us2) * doublings / 2; };
  const AllReduceTime *low = &rows[0], *high = low;
  for (const AllReduceTime& row : rows) {
    low = high;
    high = &row;
    if (row.bytes >= size) break;
  }
  if (low == high) return at(*low);
  const double slope = (at(*high) - at(*low)) / (high->bytes - low->bytes);
  return std::max(at(*low) + (size - low->bytes) * slope, at(rows[0]));
}

}  // namespace

double CostModel::KernelTime(const Kernel* kernel, const Traffic& traffic) const {
  const double moved = static_cast<double>(traffic.read + traffic.written) / memory;
  const double rate = kernel != nullptr && Narrow(*kernel) ? narrow : wide;
  return start + std::max(moved, static_cast<double>(traffic.operations) / rate);
}

double CostModel::CollectiveTime(CollectiveOp op, int64_t bytes, size_t group) const {
  const double ranks = static_cast<double>(group == 0 ? devices : group);
  const bool pieces = op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter;
  double size = static_cast<double>(bytes) * (pieces ? ranks : 1);
  if (op != CollectiveOp::kAllReduce) size /= 2;
  const double doublings = std::clamp(std::log2(std::max(ranks, 2.0)), 1.0, 3.0) - 1;  // 2 devices: 0, 8: 2
  const double time = TimeIn(all_reduces, size, doublings);
  if (small.empty() || size > small[small.size() - 1].bytes) return time;
  return std::min(time, TimeIn(small, size, doublings));
}

CostModel CostModelOf(bool gpu, uint32_t devices, CollectivesBy by) {
  CostModel model = gpu ? kH200 : kCore;
  model.all_reduces = gpu ? Span<const AllReduceTime>(kNccl) : Span<const AllReduceTime>(kThreads);
  if (gpu && by == CollectivesBy::kSmallKernels) model.small = Span<const AllReduceTime>(kSmall);
  model.devices = std::max(devices, 1u);
  return model;
}

}  // namespace rondo
