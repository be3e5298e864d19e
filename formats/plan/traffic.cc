#include "formats/plan/traffic.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace rondo {
namespace {

using Count = unsigned __int128;

// `count` places, `stride` apart.
struct Progression {
  int64_t stride = 0;
  int64_t count = 1;
};

// The elements an operand touches: `count` of them between `low` and `high`.
struct Region {
  __int128 low = 0, high = 0;
  uint64_t count = 0;

  bool dense() const { return static_cast<Count>(high - low) + 1 == count; }
};

uint64_t Saturated(Count value) {
  return value > Count{UINT64_MAX} ? UINT64_MAX : static_cast<uint64_t>(value);
}

// The number of different sums with one place from each progression.
uint64_t DistinctSums(std::vector<Progression> list) {
  std::erase_if(list, [](const Progression& p) { return p.stride == 0 || p.count <= 1; });
  if (list.empty()) return 1;
  for (Progression& p : list) p.stride = std::abs(p.stride);
  std::sort(list.begin(), list.end(),
            [](const Progression& a, const Progression& b) { return a.stride < b.stride; });
  // The sums so far form `copies` runs of `run` places, `step` apart; all together they span `span`.
  const Count step = static_cast<Count>(list[0].stride);
  Count run = 1, copies = 1, span = 0;
  for (const Progression& p : list) {
    const Count stride = static_cast<Count>(p.stride), more = static_cast<Count>(p.count - 1);
    if (copies == 1 && stride % step == 0 && stride / step <= run) {
      run += more * (stride / step);
    } else {
      copies *= more + 1;
    }
    span += more * stride;
  }
  return Saturated(std::min(run * copies, span / (copies == 1 ? step : 1) + 1));
}

// The number of values in [0, extent) of an affine function of the loops.
int64_t DistinctCoordinates(const Part& part, const Guard& guard) {
  __int128 low = guard.offset, high = guard.offset;
  std::vector<Progression> list;
  for (size_t d = 0; d < guard.strides.size() && d < part.loops.size(); ++d) {
    const __int128 reach = static_cast<__int128>(guard.strides[d]) * (part.loops[d] - 1);
    (reach < 0 ? low : high) += reach;
    list.push_back({guard.strides[d], part.loops[d]});
  }
  const __int128 inside = std::min<__int128>(high, guard.extent - 1) - std::max<__int128>(low, 0) + 1;
  if (inside <= 0) return 0;
  return static_cast<int64_t>(std::min<Count>(static_cast<Count>(inside), DistinctSums(list)));
}

// Loops, guards and indirects of an operand as progressions.
std::vector<Progression> ProgressionsOf(const Part& part, const Operand& operand) {
  std::vector<Progression> list;
  for (size_t d = 0; d < operand.strides.size() && d < part.loops.size(); ++d) {
    list.push_back({operand.strides[d], part.loops[d]});
  }
  for (const Guard& guard : operand.guards) {
    list.push_back({guard.stride, DistinctCoordinates(part, guard)});
  }
  for (const Indirect& indirect : operand.indirects) {
    int64_t values = indirect.extent;
    if (indirect.operand < part.operands.size()) {
      const uint64_t indices = DistinctElements(part, part.operands[indirect.operand]);
      values = static_cast<int64_t>(
          std::min<uint64_t>(indices, static_cast<uint64_t>(std::max<int64_t>(values, 0))));
    }
    list.push_back({indirect.stride, values});
  }
  return list;
}

Region RegionOf(const Part& part, const Operand& operand) {
  const std::vector<Progression> list = ProgressionsOf(part, operand);
  Region region;
  region.low = region.high = operand.offset;
  for (const Progression& p : list) {
    if (p.count <= 0) return {};
    const __int128 reach = static_cast<__int128>(p.stride) * (p.count - 1);
    (reach < 0 ? region.low : region.high) += reach;
  }
  region.count = DistinctSums(list);
  return region;
}

// The number of distinct elements in regions of one parameter. Overlaps of dense regions, and exact copies,
// count once.
uint64_t UnionOf(std::vector<Region> regions) {
  std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
    return a.low != b.low ? a.low < b.low : a.high != b.high ? a.high < b.high : a.count > b.count;
  });
  Count total = 0;
  __int128 covered = 0;
  bool any = false;
  const Region* previous = nullptr;
  for (const Region& region : regions) {
    if (region.count == 0) continue;
    const bool copy = previous != nullptr && previous->low == region.low && previous->high == region.high &&
                      previous->count == region.count;
    previous = &region;
    if (copy) continue;
    if (!region.dense()) {
      total += region.count;
      continue;
    }
    const __int128 from = any ? std::max(region.low, covered) : region.low;
    if (region.high >= from) total += static_cast<Count>(region.high - from + 1);
    covered = any ? std::max(covered, region.high + 1) : region.high + 1;
    any = true;
  }
  return Saturated(total);
}

// Scales and zero points of packed weights are read completely; their strides only bound their reach
// (PackedShape::ScaleStride).
bool IsScale(const Part& part, const Operand& operand) {
  const auto is = [&](uint16_t index) { return &part.operands[index] == &operand; };
  return std::any_of(part.scales.begin(), part.scales.end(), is) ||
         std::any_of(part.zeros.begin(), part.zeros.end(), is);
}

uint64_t Operations(const Part& part) {
  Count points = 2;
  for (int64_t extent : part.loops) {
    points *= static_cast<Count>(std::max<int64_t>(extent, 0));
    if (points > Count{UINT64_MAX}) return UINT64_MAX;
  }
  switch (part.skeleton) {
    case Skeleton::kMatMul: return Saturated(points * std::max<size_t>(part.rhs.size(), 1));
    case Skeleton::kConvolution: return Saturated(points * part.rhs.size());
    case Skeleton::kAttention: {
      // q.k over the features, then the probabilities times the values.
      Count rows = 2, features = 1, values = 1;
      const size_t first_n = part.outer + part.m, first_k = first_n + part.n;
      for (size_t d = 0; d < part.loops.size(); ++d) {
        const Count extent = static_cast<Count>(std::max<int64_t>(part.loops[d], 0));
        if (d < first_n || (d >= first_k && d < first_k + part.reduced)) rows *= extent;
        if (d >= first_n && d < first_k) values *= extent;
        if (d >= first_k + part.reduced) features *= extent;
      }
      return Saturated(rows * (features + values));
    }
    default: return 0;
  }
}

}  // namespace

uint64_t DistinctElements(const Part& part, const Operand& operand) { return RegionOf(part, operand).count; }

Traffic CallTraffic(const CustomOp& op) {
  Traffic traffic;
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const CustomArgument& a = op.arguments[i];
    const bool passed = a.mode == Mode::kRead && a.alias != kNone;
    if (!passed && !op.IsWorkspace(i))
      (a.mode == Mode::kWrite ? traffic.written : traffic.read) += BytesOf(a);
  }
  return traffic;
}

Traffic KernelTraffic(const Kernel& kernel, Span<const uint64_t> bound) {
  Traffic traffic;
  for (uint16_t param = 0; param < kernel.num_params && param < bound.size(); ++param) {
    std::vector<Region> reads, writes;
    uint64_t size = 1;
    for (const Part& part : kernel.parts) {
      for (const Operand& operand : part.operands) {
        if (operand.param != param) continue;
        size = static_cast<uint64_t>(ByteSize(operand.dtype));
        Region region = RegionOf(part, operand);
        if (IsScale(part, operand)) region.count = static_cast<Count>(region.high - region.low + 1);
        if (operand.mode != Mode::kWrite) reads.push_back(region);
        if (operand.mode != Mode::kRead) writes.push_back(region);
      }
    }
    const auto bytes = [&](std::vector<Region> regions) {
      return Saturated(std::min<Count>(static_cast<Count>(UnionOf(std::move(regions))) * size, bound[param]));
    };
    traffic.read += bytes(std::move(reads));
    traffic.written += bytes(std::move(writes));
  }
  for (const Part& part : kernel.parts) traffic.operations += Operations(part);
  return traffic;
}

Traffic StepTraffic(const PlanData& plan, const Step& step) {
  Traffic traffic;
  if (step.kind == StepKind::kCopy) {
    traffic.read = traffic.written = step.bytes;
    return traffic;
  }
  if (step.kind == StepKind::kCustom && step.custom < plan.custom_ops.size())
    return CallTraffic(plan.custom_ops[step.custom]);
  if (step.kind != StepKind::kLaunch || step.kernel >= plan.kernels.size()) return traffic;
  std::vector<uint64_t> bound;
  for (const Binding& binding : step.bindings)
    bound.push_back(binding.buffer < plan.buffers.size() ? plan.buffers[binding.buffer].bytes : 0);
  return KernelTraffic(plan.kernels[step.kernel], Span<const uint64_t>(bound));
}

}  // namespace rondo
