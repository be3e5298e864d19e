// SumInIntegers: on GPUs, sums of floats at places that data chooses, by atomic operations on integers. A
// float sum by atomics would depend on the order of its updates, and so on the run. Integers are added
// exactly, so the bits are the same in any order, and no kernel has to sort updates by place.
//
// Three steps, all of operations that exist anyway (kernels: compiler/codegen/cuda/map/order_free_map.cc):
//   scale  of each element: the greatest of the powers of two at or below its updates, by atomic maximum
//   sum    of each element: its updates divided by the scale, times 2^k, rounded to i64, by atomic sum
//   y      data + sum * scale / 2^k, in f64, rounded once
// With n updates in all, k = 62 - ceil(log2 n): no sum overflows even if all updates meet. What rounds is at
// most 2^-(k+1) of the scale for each update: less than sums in f32 lose if n is below 2^30.
//
// Where an update is infinite or NaN the scale is NaN, and the sum counts +inf in its low half, -inf in its
// high half, and NaN in both. The scale of an element without updates is -0: -0 + data is data.
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace rondo::passes {

namespace {

constexpr int64_t kMostUpdates = int64_t{1} << 30;
constexpr int64_t kOfNegative = int64_t{1} << 32;  // what the sum counts -inf by

// Elements of a row: those that the same indices place.
int64_t RowOf(const Graph& g, const Node& write) {
  int64_t row = 1;
  for (int d = 0; d < write.shape.rank; ++d) {
    bool moves = false;
    for (size_t k = 2; k < write.inputs.size(); ++k) {
      const View view = g.ViewOf(write.inputs[k]);
      moves = moves || !view.affine() || view.steps[0].strides[d] != 0;
    }
    if (!moves) row *= g.node(write.inputs[1]).shape[d];
  }
  return row;
}

// Compares microseconds with those of a kernel that sorts the updates (codegen/cuda/map/owned_map.cc), where
// those of a row are moved together.
bool Pays(const Graph& g, const Node& write) {
  constexpr double kSorted = 2e-4, kAdded = 2.5e-5, kElement = 1e-5, kKernels = 8;
  const double updates = static_cast<double>(g.node(write.inputs[1]).shape.elements());
  const double rows = updates / static_cast<double>(RowOf(g, write));
  return rows * kSorted >
         updates * kAdded + static_cast<double>(write.shape.elements()) * kElement + kKernels;
}

// The greatest power of two that is not above |x|, of an f32: |x * 2^23 - pred(x * 2^23)| with neither
// overflow nor underflow on the way (Rump, Ogita, Oishi: Accurate floating-point summation, part I, ufp).
// Zeros stay; NaN for infinities and NaN.
NodeId PowerOfTwo(Builder& b, NodeId x) {
  const float away = 0x1p64f, more = 0x1p23f + 1, less = 1 - 0x1p-24f;
  const NodeId large = b.Binary(TapeOp::kLess, b.Scalar(DType::kF32, 1), b.Unary(TapeOp::kAbs, x));
  const auto scaled = [&](NodeId y, float up, float down) {
    return b.Mul(y, b.Select(large, b.Scalar(DType::kF32, up), b.Scalar(DType::kF32, down)));
  };
  const NodeId q = b.BinaryScalar(TapeOp::kMul, scaled(x, 1 / away, away), more);
  const NodeId step = b.Unary(TapeOp::kAbs, b.Sub(q, b.BinaryScalar(TapeOp::kMul, q, less)));
  const NodeId zero = b.Binary(TapeOp::kEqual, x, b.Scalar(DType::kF32, 0));
  return b.Select(zero, x, scaled(step, away, 1 / away));
}

NodeId Sum(Match& m) {
  const Graph& g = m.graph();
  const Node write = m.node();
  const Node& updates = g.node(write.inputs[1]);
  ir::IndexedAttrs attrs = write.As<ir::IndexedAttrs>();
  const bool narrow = write.dtype == DType::kF32 || Is16BitFloat(write.dtype);
  if (attrs.combine != ir::ScatterCombine::kAdd || !attrs.may_collide || !narrow ||
      updates.shape.elements() > kMostUpdates || !Pays(g, write))
    return kNoNode;
  const int meet = std::bit_width(static_cast<uint64_t>(updates.shape.elements() - 1));
  const Shape shape = updates.shape;
  const std::vector<NodeId> index(write.inputs.begin() + 2, write.inputs.end());
  Builder b = m.Make();
  const auto number = [&](double value) { return b.Scalar(DType::kI64, value); };
  const auto written = [&](NodeId data, NodeId values, ir::ScatterCombine combine) {
    attrs.combine = combine;
    return b.IndexedWrite(b.Expand(data, write.shape), values, index, attrs);
  };

  const NodeId x = b.Cast(write.inputs[1], DType::kF32);
  const NodeId scale = written(b.Scalar(DType::kF32, -0.0), PowerOfTwo(b, x), ir::ScatterCombine::kMax);

  attrs.combine = ir::ScatterCombine::kNone;
  const NodeId divisor = b.IndexedRead(scale, index, attrs, shape);
  const NodeId fixed = b.BinaryScalar(TapeOp::kMul, b.Div(x, divisor), std::ldexp(1.0, 62 - meet));
  const NodeId negative = b.Select(b.Unary(TapeOp::kIsInf, x, 2), number(kOfNegative), number(0));
  const NodeId infinite = b.Select(b.Unary(TapeOp::kIsInf, x, 1), number(1), negative);
  const NodeId counted = b.Select(b.Unary(TapeOp::kIsNan, x), number(kOfNegative + 1), infinite);
  const NodeId sum = written(number(0),
                             b.Select(b.Unary(TapeOp::kIsNan, divisor), counted,
                                      b.Cast(b.Unary(TapeOp::kRound, fixed), DType::kI64)),
                             ir::ScatterCombine::kAdd);

  const auto wide = [&](NodeId value) { return b.Cast(value, DType::kF64); };
  const double infinity = std::numeric_limits<double>::infinity();
  const auto special = [&](NodeId count, double value) {
    const NodeId none = b.Binary(TapeOp::kEqual, count, number(0));
    return b.Select(none, b.Scalar(DType::kF64, 0), b.Scalar(DType::kF64, value));
  };
  const NodeId specials = b.Add(special(b.Binary(TapeOp::kBitAnd, sum, number(kOfNegative - 1)), infinity),
                                special(b.Binary(TapeOp::kShr, sum, number(32)), -infinity));
  const NodeId finite =
      b.BinaryScalar(TapeOp::kMul, b.Mul(wide(sum), wide(scale)), std::ldexp(1.0, meet - 62));
  const NodeId added = b.Select(b.Unary(TapeOp::kIsNan, scale), specials, finite);
  return b.Cast(b.Add(wide(write.inputs[0]), added), write.dtype);
}

}  // namespace

Result<PassResult> SumInIntegers(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.target.atomics) result.changes = Total(ApplyOnce(graph, {{Op::kIndexedWrite, Sum}}));
  result.text = Count(result.changes, "scatter") + " by sums of integers";
  return result;
}

}  // namespace rondo::passes
