// SumInIntegers: on GPUs, sums of floats at places that data chooses, by atomic operations on integers. A
// float sum by atomics would depend on the order of its updates, and so on the run. Integers are added
// exactly, so the bits are the same in any order, and no kernel has to sort updates by place.
//
// Made of operations that exist anyway (kernels: compiler/codegen/cuda/map/order_free_map.cc).
//
// f16 has one unit for all, 2^-24, of which 65504 is less than 2^40: sums of up to 2^23 updates are exact.
//   sums  of each element two i64: its updates in that unit, and beside it how many are infinite or NaN.
//         Updates by 0 touch no memory, so that nearly all updates are one atomic operation.
//   y     data + sum in that unit, in f64, rounded once; data as it is if the updates sum to 0
//
// Other types:
//   scale  of each element: the greatest of the powers of two at or below its updates, by atomic maximum
//   sum    of each element: its updates divided by the scale, times 2^k, rounded to i64, by atomic sum
//   y      data + sum * scale / 2^k, in f64, rounded once
// If at most n updates can meet, k = 62 - ceil(log2 n): no sum overflows even if they do. What rounds is at
// most 2^-(k+1) of the scale for each update: less than sums in f32 lose if n is below 2^30. Where an update
// is infinite or NaN the scale is NaN, and the sum counts those instead. The scale of an element without
// updates is -0: -0 + data is data.
//
// +inf counts in the low half of an i64, -inf in its high half, and NaN in both.
#include <algorithm>
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

// How many updates can meet in an element: those that differ in dims which choose the element by themselves
// do not.
int64_t MostThatMeet(const Graph& g, const Node& write) {
  const Shape& shape = g.node(write.inputs[1]).shape;
  const ir::IndexedAttrs& attrs = write.As<ir::IndexedAttrs>();
  if (!attrs.map.affine() || shape.elements() == 0) return shape.elements();
  std::vector<std::pair<int64_t, int64_t>> digits;  // stride and extent of each part of a place
  for (const ir::IndexedDim& dim : attrs.dims) digits.emplace_back(dim.stride, dim.extent);
  int64_t apart = 1;
  for (int d = 0; d < shape.rank; ++d) {
    const int64_t stride = attrs.map.steps[0].strides[d];
    if (stride == 0) continue;
    digits.emplace_back(stride, shape[d]);
    apart *= shape[d];
  }
  std::sort(digits.begin(), digits.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : digits) {
    if (extent == 1) continue;
    if (stride <= reach) return shape.elements();
    reach += stride * (extent - 1);
  }
  return shape.elements() / apart;
}

// Whether one unit serves all updates, and there is room for another dim.
bool HasUnit(const Graph& g, const Node& write) {
  constexpr int64_t kMost = int64_t{1} << 23;
  return write.dtype == DType::kF16 && write.As<ir::IndexedAttrs>().map.affine() &&
         std::max(write.shape.rank, g.node(write.inputs[1]).shape.rank) < kMaxRank &&
         MostThatMeet(g, write) <= kMost;
}

// Compares microseconds with those of a kernel that sorts the updates (codegen/cuda/map/owned_map.cc), where
// those of a row are moved together.
bool Pays(const Graph& g, const Node& write) {
  struct Costs {
    double kernels, added, element;
  };
  constexpr Costs kByUnit = {-5, 1.4e-5, 1e-5}, kScaled = {0.5, 2.5e-5, 1e-5};  // more than a sort's kernels
  constexpr double kSorted = 1.6e-4, kFewest = 4096;  // rows; one block sorts fewer quickly
  const Costs& costs = HasUnit(g, write) ? kByUnit : kScaled;
  const double updates = static_cast<double>(g.node(write.inputs[1]).shape.elements());
  const double rows = updates / static_cast<double>(RowOf(g, write));
  return rows >= kFewest && rows * kSorted > updates * costs.added +
                                                 static_cast<double>(write.shape.elements()) * costs.element +
                                                 costs.kernels;
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

NodeId Number(Builder& b, double value) { return b.Scalar(DType::kI64, value); }

// What an f32 counts as, where only infinities and NaN count.
NodeId SpecialOf(Builder& b, NodeId x) {
  const NodeId negative = b.Select(b.Unary(TapeOp::kIsInf, x, 2), Number(b, kOfNegative), Number(b, 0));
  const NodeId infinite = b.Select(b.Unary(TapeOp::kIsInf, x, 1), Number(b, 1), negative);
  return b.Select(b.Unary(TapeOp::kIsNan, x), Number(b, kOfNegative + 1), infinite);
}

// The f64 that infinities and NaN sum to.
NodeId SumOfSpecials(Builder& b, NodeId counts) {
  const auto special = [&](NodeId count, double value) {
    const NodeId none = b.Binary(TapeOp::kEqual, count, Number(b, 0));
    return b.Select(none, b.Scalar(DType::kF64, 0), b.Scalar(DType::kF64, value));
  };
  const double infinity = std::numeric_limits<double>::infinity();
  return b.Add(special(b.Binary(TapeOp::kBitAnd, counts, Number(b, kOfNegative - 1)), infinity),
               special(b.Binary(TapeOp::kShr, counts, Number(b, 32)), -infinity));
}

NodeId SumByUnit(Builder& b, const Node& write) {
  constexpr double kUnit = 0x1p-24;
  const auto twice = [](const Shape& shape) {
    Shape wider = shape;
    wider.dims[wider.rank++] = 2;
    return wider;
  };
  const auto repeated = [&](NodeId x) {
    return b.Expand(b.Unsqueeze(x, b.shape(x).rank), twice(b.shape(x)));
  };
  ir::IndexedAttrs attrs = write.As<ir::IndexedAttrs>();
  ir::ViewStep& step = attrs.map.steps[0];
  const int rank = step.shape.rank;
  step.shape = twice(step.shape);
  step.offset *= 2;
  for (int d = 0; d < rank; ++d) step.strides[d] *= 2;
  step.strides[rank] = 1;
  for (ir::IndexedDim& dim : attrs.dims) dim.stride *= 2;

  const NodeId x = b.Cast(repeated(write.inputs[1]), DType::kF32), special = SpecialOf(b, x);
  const NodeId finite = b.Binary(TapeOp::kEqual, special, Number(b, 0));
  const NodeId number = b.Cast(
      b.BinaryScalar(TapeOp::kMul, b.Select(finite, x, b.Scalar(DType::kF32, 0)), 1 / kUnit), DType::kI64);
  const Shape both = b.shape(x);
  const NodeId first = b.Binary(TapeOp::kEqual, b.Iota(both, both.rank - 1), Number(b, 0));
  std::vector<NodeId> index;
  for (size_t k = 2; k < write.inputs.size(); ++k) index.push_back(repeated(write.inputs[k]));
  const NodeId sums = b.IndexedWrite(b.Expand(Number(b, 0), twice(write.shape)),
                                     b.Select(first, number, special), index, attrs);

  const auto part = [&](int k) {
    return b.Squeeze(b.Slice(sums, write.shape.rank, k, 1, 1), write.shape.rank);
  };
  const NodeId added =
      b.Add(b.BinaryScalar(TapeOp::kMul, b.Cast(part(0), DType::kF64), kUnit), SumOfSpecials(b, part(1)));
  const NodeId none = b.Binary(TapeOp::kEqual, added, b.Scalar(DType::kF64, 0));
  return b.Cast(
      b.Add(b.Cast(write.inputs[0], DType::kF64), b.Select(none, b.Scalar(DType::kF64, -0.0), added)),
      write.dtype);
}

NodeId SumByScale(Builder& b, const Node& write, int64_t most) {
  const int meet = std::bit_width(static_cast<uint64_t>(most - 1));
  const Shape shape = b.shape(write.inputs[1]);
  ir::IndexedAttrs attrs = write.As<ir::IndexedAttrs>();
  const std::vector<NodeId> index(write.inputs.begin() + 2, write.inputs.end());
  const auto written = [&](NodeId data, NodeId values, ir::ScatterCombine combine) {
    attrs.combine = combine;
    return b.IndexedWrite(b.Expand(data, write.shape), values, index, attrs);
  };

  const NodeId x = b.Cast(write.inputs[1], DType::kF32);
  const NodeId scale = written(b.Scalar(DType::kF32, -0.0), PowerOfTwo(b, x), ir::ScatterCombine::kMax);

  attrs.combine = ir::ScatterCombine::kNone;
  const NodeId divisor = b.IndexedRead(scale, index, attrs, shape);
  const NodeId fixed = b.BinaryScalar(TapeOp::kMul, b.Div(x, divisor), std::ldexp(1.0, 62 - meet));
  const NodeId sum = written(Number(b, 0),
                             b.Select(b.Unary(TapeOp::kIsNan, divisor), SpecialOf(b, x),
                                      b.Cast(b.Unary(TapeOp::kRound, fixed), DType::kI64)),
                             ir::ScatterCombine::kAdd);

  const auto wide = [&](NodeId value) { return b.Cast(value, DType::kF64); };
  const NodeId finite =
      b.BinaryScalar(TapeOp::kMul, b.Mul(wide(sum), wide(scale)), std::ldexp(1.0, meet - 62));
  const NodeId added = b.Select(b.Unary(TapeOp::kIsNan, scale), SumOfSpecials(b, sum), finite);
  return b.Cast(b.Add(wide(write.inputs[0]), added), write.dtype);
}

NodeId Sum(Match& m) {
  const Graph& g = m.graph();
  const Node write = m.node();
  const ir::IndexedAttrs& attrs = write.As<ir::IndexedAttrs>();
  const bool narrow = write.dtype == DType::kF32 || Is16BitFloat(write.dtype);
  if (attrs.combine != ir::ScatterCombine::kAdd || !attrs.may_collide || !narrow) return kNoNode;
  const int64_t most = MostThatMeet(g, write);
  if (most > kMostUpdates || !Pays(g, write)) return kNoNode;
  Builder b = m.Make();
  return HasUnit(g, write) ? SumByUnit(b, write) : SumByScale(b, write, most);
}

}  // namespace

Result<PassResult> SumInIntegers(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.target.atomics) result.changes = Total(ApplyOnce(graph, {{Op::kIndexedWrite, Sum}}));
  result.text = Count(result.changes, "scatter") + " by sums of integers";
  return result;
}

}  // namespace rondo::passes
