#include "compiler/import/sampled.h"

#include "compiler/import/decompose.h"

namespace rondo::importer {

using ir::Builder, ir::kNoNode, ir::NodeId;

AxisTap TapAt(Builder& b, NodeId at, int64_t extent, DType index, NodeId weight) {
  const NodeId nearest = Clamp(b, at, 0, static_cast<double>(extent - 1));
  return {b.Cast(at, index), b.Binary(TapeOp::kEqual, nearest, at), weight};
}

std::vector<AxisTap> LinearTaps(Builder& b, NodeId x, int64_t extent, DType index) {
  const NodeId floor = b.Unary(TapeOp::kFloor, x), part = b.Sub(x, floor);
  const NodeId rest = b.Sub(b.Scalar(DType::kF32, 1), part);
  return {TapAt(b, floor, extent, index, rest),
          TapAt(b, b.BinaryScalar(TapeOp::kAdd, floor, 1), extent, index, part)};
}

namespace {

// One tap of several axes, as one of their picture. Its index is -1 where it is not inside.
AxisTap Combined(Builder& b, const std::vector<AxisTap>& taps, const std::vector<int64_t>& extents) {
  AxisTap all = taps[0];
  for (size_t a = 1; a < taps.size(); ++a) {
    const AxisTap& tap = taps[a];
    all.index = b.Add(b.BinaryScalar(TapeOp::kMul, all.index, static_cast<double>(extents[a])), tap.index);
    const auto join = [&](NodeId x, NodeId y, auto both) {
      return x == kNoNode ? y : y == kNoNode ? x : both(x, y);
    };
    all.inside =
        join(all.inside, tap.inside, [&](NodeId x, NodeId y) { return b.Binary(TapeOp::kBitAnd, x, y); });
    all.weight = join(all.weight, tap.weight, [&](NodeId x, NodeId y) { return b.Mul(x, y); });
  }
  if (all.inside != kNoNode) all.index = b.Select(all.inside, all.index, b.Scalar(b.dtype(all.index), -1));
  return all;
}

}  // namespace

NodeId SampledSum(Builder& b, NodeId data, const ir::View& first, const Shape& out,
                  const std::vector<std::vector<AxisTap>>& axes, const std::vector<int64_t>& extents) {
  ir::IndexedAttrs attrs;
  attrs.map = first;
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  attrs.dims = {{1, elements, /*wrap=*/false, /*fault=*/false}};
  NodeId sum = kNoNode;
  std::vector<size_t> at(axes.size(), 0);
  for (bool more = true; more;) {
    std::vector<AxisTap> chosen;
    for (size_t a = 0; a < axes.size(); ++a) chosen.push_back(axes[a][at[a]]);
    const AxisTap tap = Combined(b, chosen, extents);
    NodeId value = b.IndexedRead(data, {b.Expand(tap.index, out)}, attrs, out);
    if (tap.weight != kNoNode) value = b.Mul(value, b.Cast(tap.weight, b.dtype(value)));
    sum = sum == kNoNode ? value : b.Add(sum, value);
    more = false;
    for (size_t a = at.size(); a-- > 0 && !more;) {
      more = ++at[a] < axes[a].size();
      if (!more) at[a] = 0;
    }
  }
  return sum;
}

}  // namespace rondo::importer
