#include "drivers/host/nest.h"

#include <algorithm>
#include <limits>

#include "core/walk_order.h"

namespace rondo::host {
namespace {

// Calls f(strides) for every linear function of the loops that the part evaluates.
template <typename F>
void ForEachLinear(const Part& part, F f) {
  for (const Operand& operand : part.operands) {
    f(operand.strides);
    for (const Guard& guard : operand.guards) f(guard.strides);
  }
}

bool UsesIndex(const Part& part, int loop) {
  bool found = false;
  ForEachTape(part, [&](Tape tape) {
    for (const TapeInst& inst : tape) found |= inst.op == TapeOp::kIndex && inst.arg == loop;
  });
  return found;
}

// Orders a map's loops so that its first written operand is walked from large strides to small ones.
void OrderForWrites(const Part& part, int* order, int count) {
  const Operand* written = nullptr;
  for (const Operand& operand : part.operands) {
    if (operand.mode != Mode::kRead && written == nullptr) written = &operand;
  }
  if (written == nullptr) return;
  for (int i = 0; i < count; ++i) {
    if (FullStride(*written, order[i]) == 0) return;  // the place depends on data: leave it
  }
  OrderForOperand(*written, order, count);
}

}  // namespace

void FullStrides(const Operand& operand, int loops, int64_t* strides) {
  for (int d = 0; d < loops; ++d) strides[d] = FullStride(operand, d);
}

bool ChannelsLast(const Part& part) {
  if (part.skeleton != Skeleton::kConvolution || part.outer != 1 || part.m != 2) return false;
  constexpr size_t kGroup = 1, kOut = 2;
  const bool pool = part.combine != Combine::kProduct;
  if (part.lhs >= part.operands.size() || (!pool && part.rhs.empty())) return false;
  const Operand& input = part.operands[part.lhs];
  if (pool) return part.loops[kGroup] > 1 && input.strides[kGroup] == 1;
  if (part.rhs[0] >= part.operands.size()) return false;
  if (part.rhs.size() > 1) return true;  // several B
  const Operand& weight = part.operands[part.rhs[0]];
  const bool bytes = weight.dtype == DType::kI8 || weight.dtype == DType::kU8;  // dot products along k
  if (bytes && (part.loops[kOut] > 1 || part.loops[kGroup] == 1)) return true;
  if (part.loops[kOut] > 1) return weight.strides[kOut] == 1;
  return part.loops[kGroup] > 1 && weight.strides[kGroup] == 1 && input.strides[kGroup] == 1;
}

namespace {

// The part's loops, by the groups of its nest.
struct LoopGroups {
  int count = 1;
  int sizes[kMaxGroups] = {};
  int loops[kMaxGroups][kMaxLoops] = {};

  void Add(int group, int first, int number) {
    for (int i = 0; i < number; ++i) loops[group][sizes[group]++] = first + i;
  }
};

// Whether all groups of a convolution read the same input: they count panels of its output channels.
bool SharesInput(const Part& part) {
  int64_t strides[kMaxLoops];
  FullStrides(part.operands[part.lhs], static_cast<int>(part.loops.size()), strides);
  return strides[1] == 0;
}

LoopGroups GroupsOf(const Part& part, bool channels) {
  LoopGroups groups;
  const int all = static_cast<int>(part.loops.size());
  if (part.skeleton == Skeleton::kMap) {
    groups.Add(0, 0, all);
  } else if (part.skeleton == Skeleton::kReduction) {
    groups.count = 2;
    groups.Add(0, 0, part.outer);
    groups.Add(1, part.outer, part.reduced);
  } else if (channels) {
    groups.count = 4;
    const int lanes = part.loops[2] > 1 ? 2 : 1;
    if (lanes == 2) groups.Add(SharesInput(part) ? 2 : 0, 1, 1);
    groups.Add(1, 0, 1);
    groups.Add(1, 3, part.n);
    groups.Add(2, lanes, 1);
    groups.Add(3, 3 + part.n, part.reduced);
  } else {
    groups.count = part.skeleton == Skeleton::kAttention ? 5 : 4;
    int sizes[kMaxGroups] = {part.outer, part.m, part.n, part.reduced, part.features};
    if (part.skeleton == Skeleton::kConvolution && part.m > 0) {  // each group is a matmul of its own
      sizes[0] += part.m - 1;
      sizes[1] = 1;
    }
    for (int g = 0, from = 0; g < groups.count; from += sizes[g++]) groups.Add(g, from, sizes[g]);
  }
  return groups;
}

// Whether an index of some address of the part differs along the loop.
bool IsIndexed(const Part& part, int loop) {
  bool found = false;
  for (const Operand& operand : part.operands) {
    for (const Indirect& indirect : operand.indirects) {
      if (indirect.operand >= part.operands.size()) continue;
      int64_t strides[kMaxLoops];
      FullStrides(part.operands[indirect.operand], static_cast<int>(part.loops.size()), strides);
      found |= strides[loop] != 0;
    }
  }
  return found;
}

// Puts loops along which indices differ first: lanes along the other loops share an index.
void IndexedFirst(const Part& part, int* order, int count) {
  std::stable_partition(order, order + count, [&](int loop) { return IsIndexed(part, loop); });
}

// Whether a reduction gives the same result in any order of its elements: only maxima and minima.
bool AnyOrder(const Part& part) {
  for (const Stage& stage : part.stages) {
    for (const TapeInst& inst : stage.tape) {
      const bool extreme = inst.op == TapeOp::kReduceMax || inst.op == TapeOp::kReduceMin;
      if (!extreme && (Reduces(inst.op) || inst.op == TapeOp::kKeep || inst.op == TapeOp::kKept))
        return false;
    }
  }
  return true;
}

// The operand whose order the rows of a reduction follow; null if there is none, if the reduction writes
// through an index, or if it writes along reduced loops whose order matters. It is the operand, read without
// an index and along reduced loops, that moves with most loops; or, if their order is free, the written
// operand if that one moves with more.
const Operand* MostRead(const Part& part) {
  const Operand *most = nullptr, *written = nullptr;
  int most_loops = 0, written_loops = 0;
  const size_t rows = part.outer;
  const bool any_order = AnyOrder(part);
  for (const Operand& operand : part.operands) {
    int64_t strides[kMaxLoops];
    FullStrides(operand, static_cast<int>(part.loops.size()), strides);
    int loops = 0;
    bool reduced = false;
    for (size_t d = 0; d < part.loops.size(); ++d) {
      if (part.loops[d] == 1 || strides[d] == 0) continue;
      ++loops;
      reduced |= d >= rows;
    }
    if (operand.mode != Mode::kRead) {
      if ((reduced && !any_order) || !operand.indirects.empty()) return nullptr;
      if (loops > written_loops) {
        written = &operand;
        written_loops = loops;
      }
    } else if (reduced && loops > most_loops && operand.indirects.empty()) {
      most = &operand;
      most_loops = loops;
    }
  }
  return any_order && written_loops > most_loops ? written : most;
}

}  // namespace

Nest MakeNest(const Part& part, bool channels) {
  Nest nest;
  const LoopGroups groups = GroupsOf(part, channels);
  nest.groups = groups.count;
  for (int d = 0; d < kMaxLoops; ++d) nest.nest_loop[d] = -1;

  const Operand* const most_read = part.skeleton == Skeleton::kReduction ? MostRead(part) : nullptr;
  for (int g = 0; g < nest.groups; ++g) {
    int order[kMaxLoops];
    int count = 0;
    for (int i = 0; i < groups.sizes[g]; ++i) {
      const int d = groups.loops[g][i];
      if (part.loops[d] > 1) order[count++] = d;
    }
    if (part.skeleton == Skeleton::kMap && !part.sequential) OrderForWrites(part, order, count);
    if (most_read != nullptr && (g == 0 || AnyOrder(part))) OrderForOperand(*most_read, order, count);
    if (most_read != nullptr && most_read->mode != Mode::kRead) IndexedFirst(part, order, count);
    if (channels && g == 3) OrderForOperand(part.operands[part.lhs], order, count);
    nest.first[g] = nest.loops;
    nest.points[g] = 1;
    for (int i = 0; i < count; ++i) {
      const int d = order[i];
      nest.points[g] *= part.loops[d];
      bool merge = nest.loops > nest.first[g];
      if (merge) {
        const int before = nest.source[nest.loops - 1];
        merge = !UsesIndex(part, d) && !UsesIndex(part, before);
        ForEachLinear(part, [&](Span<const int64_t> s) { merge &= s[before] == s[d] * part.loops[d]; });
      }
      if (merge) {
        nest.extent[nest.loops - 1] *= part.loops[d];
      } else {
        nest.extent[nest.loops++] = part.loops[d];
      }
      nest.source[nest.loops - 1] = static_cast<int8_t>(d);
      nest.nest_loop[d] = static_cast<int8_t>(nest.loops - 1);
    }
    if (nest.loops == nest.first[g]) {
      nest.extent[nest.loops] = 1;
      nest.source[nest.loops++] = -1;
    }
  }
  for (int g = nest.groups; g <= kMaxGroups; ++g) nest.first[g] = nest.loops;
  for (int g = nest.groups; g < kMaxGroups; ++g) nest.points[g] = 1;
  return nest;
}

Tiling MakeTiling(const Nest& nest, int first, int end, int lanes, bool linear) {
  Tiling t;
  t.first = first;
  t.end = end;
  t.split = end - 1;
  while (!linear && t.split > first && t.inner * nest.extent[t.split] * 2 <= lanes) {
    t.inner *= nest.extent[t.split--];
  }
  const int64_t extent = nest.extent[t.split];
  const int64_t most = lanes / t.inner < 1 ? 1 : lanes / t.inner;
  t.chunk = extent < most ? extent : most;
  t.chunks = (extent + t.chunk - 1) / t.chunk;
  t.tiles = t.chunks;
  for (int d = first; d < t.split; ++d) t.tiles *= nest.extent[d];
  return t;
}

bool MakeLane(const Nest& nest, const Tiling& tiling, const int64_t* coefficients, Arena& arena,
              LanePattern* lane, int64_t* least, int64_t* greatest, bool* overflow) {
  const int last = tiling.end - 1;
  bool linear = true;
  int64_t walk = coefficients[last];
  *least = *greatest = 0;
  for (int d = last; d >= tiling.split; --d) {
    const int64_t extent = d == tiling.split ? tiling.chunk : nest.extent[d];
    const int64_t reach = coefficients[d] * (extent - 1);
    (reach < 0 ? *least : *greatest) += reach;
    if (extent > 1) {
      linear &= coefficients[d] == walk;
      walk = coefficients[d] * extent;
    } else if (d == last) {
      walk = d > tiling.split ? coefficients[d - 1] : 0;
    }
  }
  if (linear) {
    int64_t stride = coefficients[last];
    for (int d = last; d >= tiling.split; --d) {  // the innermost loop with more than one round
      const int64_t extent = d == tiling.split ? tiling.chunk : nest.extent[d];
      stride = extent > 1 ? coefficients[d] : 0;
      if (extent > 1) break;
    }
    const int64_t lanes = tiling.chunk * tiling.inner;
    lane->stride = lanes > 1 ? stride : 0;
    lane->kind = lane->stride == 0   ? LaneKind::kSame
                 : lane->stride == 1 ? LaneKind::kUnit
                                     : LaneKind::kStride;
    return true;
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (*greatest > kMost || *least < -kMost) {
    *overflow = true;
    return false;
  }
  Span<int32_t> table = arena.New<int32_t>(kLanes);
  if (table.data() == nullptr) return false;
  for (int64_t i = 0; i < tiling.chunk * tiling.inner; ++i) {
    int64_t rest = i, at = 0;
    for (int d = last; d > tiling.split; --d) {
      at += coefficients[d] * (rest % nest.extent[d]);
      rest /= nest.extent[d];
    }
    table[i] = static_cast<int32_t>(at + coefficients[tiling.split] * rest);
  }
  lane->kind = LaneKind::kTable;
  lane->table = table.data();
  return true;
}

}  // namespace rondo::host
