#include "compiler/import/decompose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "compiler/import/op_context.h"
#include "core/element.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

using ir::ReduceKind;

constexpr int64_t kMaxTakeRuns = 16;  // more runs become a gather

// Evenly spaced indices: first, first + step, ... (step 0 repeats one element).
struct Run {
  int64_t first = 0, step = 0, count = 0;
};

std::vector<Run> SplitRuns(const std::vector<int64_t>& index) {
  std::vector<Run> runs;
  for (size_t i = 0; i < index.size();) {
    Run run{index[i], 1, 1};
    if (i + 1 < index.size()) run.step = index[i + 1] - index[i];
    while (i + static_cast<size_t>(run.count) < index.size() &&
           index[i + static_cast<size_t>(run.count)] == run.first + run.step * run.count) {
      ++run.count;
    }
    i += static_cast<size_t>(run.count);
    runs.push_back(run);
  }
  return runs;
}

NodeId TakeRun(Builder& b, NodeId x, int axis, const Run& run) {
  if (run.count > 1 && run.step == 0) {
    NodeId one = b.Slice(x, axis, run.first, 1, 1);
    return b.Expand(one, WithDim(b.shape(one), axis, run.count));
  }
  return b.Slice(x, axis, run.first, run.step == 0 ? 1 : run.step, run.count);
}

}  // namespace

NodeId Widen(Builder& b, NodeId x) {
  DType t = b.dtype(x);
  return Is16BitFloat(t) ? b.Cast(x, DType::kF32) : x;
}

NodeId ExtremeOf(Builder& b, DType type, bool greatest) {
  if (type == DType::kBool) return b.Scalar(type, greatest);
  if (IsFloat(type)) return b.Scalar(type, (greatest ? 1 : -1) * std::numeric_limits<double>::infinity());
  const bool is_signed =
      type == DType::kI8 || type == DType::kI16 || type == DType::kI32 || type == DType::kI64;
  if (!is_signed && !greatest) return b.Scalar(type, 0);
  const int bits = static_cast<int>(8 * ByteSize(type)) - (is_signed ? 1 : 0);
  const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return b.Ints(type, Shape{}, {static_cast<int64_t>(greatest ? most : ~most)});
}

NodeId AlongAxis(Builder& b, NodeId vector, int axis, int rank) {
  Shape shape;
  shape.rank = rank;
  for (int d = 0; d < rank; ++d) shape.dims[d] = 1;
  shape.dims[axis] = b.shape(vector).elements();
  return b.Reshape(vector, shape);
}

NodeId Take(Builder& b, NodeId x, int axis, const std::vector<int64_t>& index) {
  if (index.empty()) {
    return b.Constant(ir::ConstantData::Own(b.dtype(x), WithDim(b.shape(x), axis, 0), {}));
  }
  int64_t each = 1;  // how often a list repeats each element, if always equally often
  while (each < static_cast<int64_t>(index.size()) && index[static_cast<size_t>(each)] == index[0]) ++each;
  if (each > 1 && static_cast<int64_t>(index.size()) % each == 0) {
    std::vector<int64_t> distinct;
    bool regular = true;
    for (size_t i = 0; i < index.size() && regular; ++i) {
      if (static_cast<int64_t>(i) % each == 0) distinct.push_back(index[i]);
      regular = index[i] == distinct.back();
    }
    if (regular) {
      NodeId taken = Take(b, x, axis, distinct);
      return b.shape(x).rank < kMaxRank ? RepeatEach(b, taken, axis, each) : b.Gather(x, b.I64(index), axis);
    }
  }
  std::vector<Run> runs = SplitRuns(index);
  if (static_cast<int64_t>(runs.size()) > kMaxTakeRuns) return b.Gather(x, b.I64(index), axis);
  if (runs.size() == 1) return TakeRun(b, x, axis, runs[0]);
  std::vector<NodeId> parts;
  for (const Run& run : runs) parts.push_back(TakeRun(b, x, axis, run));
  return b.Concat(parts, axis);
}

NodeId SliceOf(Builder& b, NodeId x, int axis, const ir::Size& start, int64_t step, const ir::Size& count) {
  const int64_t extent = b.shape(x)[axis], taken = count.extent();
  ir::Dims dims = b.SizesOf(x);
  dims[static_cast<size_t>(axis)] = count;
  if (const auto first = start.value()) {
    const int64_t last = *first + step * (taken - 1);
    if (*first < extent && last < extent && last >= 0)
      return b.WithSizes(b.Slice(x, axis, *first, step, taken), dims);
  }
  if (step == 1 && start.least() >= 0 && start.most() <= extent - taken) {
    ir::IndexedAttrs attrs;
    attrs.map = ir::Slice(ir::DenseView(b.shape(x)), axis, 0, 1, taken);
    attrs.dims = {{ir::DenseView(b.shape(x)).steps[0].strides[axis], extent - taken + 1, false}};
    return b.IndexedRead(x, {b.Number(start)}, attrs, attrs.map.shape(), dims);
  }
  const NodeId steps = b.BinaryScalar(TapeOp::kMul, b.IotaOver({count}, 0), static_cast<double>(step));
  const NodeId place = b.BinaryScalar(TapeOp::kMax, b.Add(steps, b.Number(start)), 0);
  return b.Gather(x, b.BinaryScalar(TapeOp::kMin, place, static_cast<double>(extent - 1)), axis, false);
}

NodeId JoinAt(Builder& b, const std::vector<NodeId>& parts, const std::vector<ir::Size>& begins, int axis) {
  int64_t room = 0;
  for (const NodeId part : parts) room += b.shape(part)[axis];
  std::vector<int64_t> before(static_cast<size_t>(b.shape(parts[0]).rank)), after = before;
  after[static_cast<size_t>(axis)] = room - b.shape(parts[0])[axis];
  NodeId joined = b.PadConstant(parts[0], b.Scalar(b.dtype(parts[0]), 0), before, after);
  for (size_t i = 1; i < parts.size(); ++i) {
    const int64_t n = b.shape(parts[i])[axis];
    ir::IndexedAttrs attrs;
    attrs.map = ir::Slice(ir::DenseView(b.shape(joined)), axis, 0, 1, n);
    attrs.dims = {{attrs.map.steps[0].strides[axis], room - n + 1, false}};
    attrs.may_collide = false;
    joined = b.IndexedWrite(joined, parts[i], {b.Number(begins[i])}, attrs);
  }
  return joined;
}

NodeId RepeatEach(Builder& b, NodeId x, int axis, int64_t times) {
  ir::Dims dims = b.SizesOf(x);
  dims[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)] * times;
  NodeId wide = b.Unsqueeze(x, axis + 1);
  wide = b.Expand(wide, WithDim(b.shape(wide), axis + 1, times));
  return b.ReshapeTo(wide, dims);
}

NodeId TileAxis(Builder& b, NodeId x, int axis, int64_t times) {
  Shape shape = b.shape(x);
  ir::Dims dims = b.SizesOf(x);
  dims[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)] * times;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= shape[d];
  for (int d = axis; d < shape.rank; ++d) inner *= shape[d];
  NodeId flat = b.Reshape(x, {outer, 1, inner});
  flat = b.Expand(flat, {outer, times, inner});
  return b.ReshapeTo(flat, dims);
}

NodeId Softmax(Builder& b, NodeId x, int axis) {
  DType type = b.dtype(x);
  NodeId wide = Widen(b, x);
  NodeId e = b.Unary(TapeOp::kExp, b.Sub(wide, b.Reduce(ReduceKind::kMax, wide, {axis}, true)));
  return b.Cast(b.Div(e, b.Reduce(ReduceKind::kSum, e, {axis}, true)), type);
}

NodeId LogSoftmax(Builder& b, NodeId x, int axis) {
  DType type = b.dtype(x);
  NodeId wide = Widen(b, x);
  NodeId shifted = b.Sub(wide, b.Reduce(ReduceKind::kMax, wide, {axis}, true));
  NodeId sum = b.Reduce(ReduceKind::kSum, b.Unary(TapeOp::kExp, shifted), {axis}, true);
  return b.Cast(b.Sub(shifted, b.Unary(TapeOp::kLog, sum)), type);
}

NodeId Standardise(Builder& b, NodeId x, const std::vector<int>& axes, double epsilon, NodeId* mean,
                   NodeId* inverse) {
  NodeId m = b.Mean(x, axes, true);
  NodeId d = b.Sub(x, m);
  NodeId variance = b.Mean(b.Mul(d, d), axes, true);
  NodeId r = b.Unary(TapeOp::kRsqrt, b.BinaryScalar(TapeOp::kAdd, variance, epsilon));
  if (mean != nullptr) *mean = m;
  if (inverse != nullptr) *inverse = r;
  return b.Mul(d, r);
}

NodeId RmsNormalise(Builder& b, NodeId x, const std::vector<int>& axes, double epsilon, NodeId* inverse) {
  NodeId square = b.Mean(b.Mul(x, x), axes, true);
  NodeId r = b.Unary(TapeOp::kRsqrt, b.BinaryScalar(TapeOp::kAdd, square, epsilon));
  if (inverse != nullptr) *inverse = r;
  return b.Mul(x, r);
}

NodeId Sigmoid(Builder& b, NodeId x) { return b.Unary(TapeOp::kSigmoid, x); }
NodeId Silu(Builder& b, NodeId x) { return b.Mul(x, Sigmoid(b, x)); }
NodeId Relu(Builder& b, NodeId x) { return b.BinaryScalar(TapeOp::kMax, x, 0); }

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which overflows nowhere.
NodeId Softplus(Builder& b, NodeId x) {
  NodeId tail = b.Unary(TapeOp::kExp, b.Unary(TapeOp::kNeg, b.Unary(TapeOp::kAbs, x)));
  return b.Add(Relu(b, x), b.Unary(TapeOp::kLog1p, tail));
}

NodeId GeluErf(Builder& b, NodeId x) {
  NodeId erf = b.Unary(TapeOp::kErf, b.BinaryScalar(TapeOp::kMul, x, std::sqrt(0.5)));
  NodeId half = b.BinaryScalar(TapeOp::kMul, x, 0.5);
  return b.Mul(half, b.BinaryScalar(TapeOp::kAdd, erf, 1));
}

NodeId GeluTanh(Builder& b, NodeId x) {
  NodeId cube = b.Mul(b.Mul(x, x), x);
  NodeId inner = b.Add(x, b.BinaryScalar(TapeOp::kMul, cube, 0.044715));
  NodeId t = b.Unary(TapeOp::kTanh, b.BinaryScalar(TapeOp::kMul, inner, std::sqrt(2.0 / std::acos(-1.0))));
  return b.Mul(b.BinaryScalar(TapeOp::kMul, x, 0.5), b.BinaryScalar(TapeOp::kAdd, t, 1));
}

NodeId Clamp(Builder& b, NodeId x, double low, double high) {
  return b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, x, low), high);
}

NodeId AmongLargest(ir::Builder& b, NodeId x, int64_t k) {
  const Shape s = b.shape(x);
  NodeId mine = b.Unsqueeze(x, 2), theirs = b.Unsqueeze(x, 1);
  NodeId tie = b.Binary(
      TapeOp::kBitAnd, b.Cast(b.Binary(TapeOp::kEqual, theirs, mine), DType::kI32),
      b.Cast(b.Binary(TapeOp::kLess, b.Iota({1, s[1], s[1]}, 2), b.Iota({1, s[1], s[1]}, 1)), DType::kI32));
  NodeId before = b.Binary(TapeOp::kMax, b.Cast(b.Binary(TapeOp::kLess, mine, theirs), DType::kI32), tie);
  NodeId rank = b.Reduce(ir::ReduceKind::kSum, before, {2}, false);
  return b.Binary(TapeOp::kLess, rank, b.Scalar(DType::kI32, static_cast<double>(k)));
}

std::vector<int> AxisRange(int first, int last) {
  std::vector<int> axes(static_cast<size_t>(std::max(0, last - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

namespace {

// y[.., i] = sum over j <= i (or j < i) of x[.., j], with the axis last in x. Computes every pair (i, j), so
// callers keep the axis short.
NodeId DirectCumulativeSum(Builder& b, NodeId x, bool exclusive) {
  Shape shape = b.shape(x);
  int last = shape.rank - 1;
  int64_t n = shape[last];
  Shape square = shape;
  square.dims[square.rank++] = n;
  const ir::Size size = b.SizeOf(x, last);
  NodeId wide = b.Expand(b.Unsqueeze(x, last), square);
  // The comparison covers all rows, so that it does not become a constant: GPUs recognise running sums by it.
  ir::Dims dims = b.SizesOf(x);
  dims.push_back(size);
  NodeId j = b.IotaOver(dims, last + 1);
  NodeId i = b.IotaOver(dims, last);
  NodeId keep = b.Binary(exclusive ? TapeOp::kLess : TapeOp::kLessEqual, j, i);
  NodeId kept = b.Select(keep, wide, b.Expand(b.Scalar(b.dtype(x), 0), square));
  return b.Reduce(ReduceKind::kSum, kept, {last + 1}, false);
}

}  // namespace

NodeId CumulativeSum(Builder& b, NodeId x, int axis, bool exclusive) {
  constexpr int64_t kDirect = 128;
  Shape shape = b.shape(x);
  int64_t n = shape[axis];
  // Reshapes to [outer * inner, n], so that the rank has room.
  std::vector<int> perm;
  for (int d = 0; d < shape.rank; ++d) {
    if (d != axis) perm.push_back(d);
  }
  perm.push_back(axis);
  NodeId rows = b.Transpose(x, perm);
  const Shape moved = b.shape(rows);
  const ir::Dims sizes = b.SizesOf(rows);
  int64_t outer = n == 0 ? 0 : moved.elements() / n;
  rows = b.Reshape(rows, {outer, n});
  NodeId sums;
  if (n <= kDirect) {
    sums = DirectCumulativeSum(b, rows, exclusive);
  } else {
    // Works in blocks: the sums inside each, plus the sum of all blocks before it.
    // Blocks that divide the axis need no padding.
    int64_t block = kDirect;
    while (block > kDirect / 2 && n % block != 0) --block;
    if (n % block != 0) block = kDirect;
    const int64_t blocks = (n + block - 1) / block;
    NodeId padded = b.PadConstant(rows, b.Scalar(b.dtype(x), 0), {0, 0}, {0, blocks * block - n});
    // A running sum does not depend on later places, so it may run over the whole extent instead of the size.
    padded = b.Reshape(b.WithSizes(padded, {outer, blocks * block}), {outer, blocks, block});
    NodeId inside = DirectCumulativeSum(b, padded, exclusive);
    NodeId totals = b.Reduce(ReduceKind::kSum, padded, {2}, false);
    NodeId before = CumulativeSum(b, totals, 1, true);
    sums = b.Add(inside, b.Reshape(before, {outer, blocks, 1}));
    sums = b.Slice(b.Reshape(sums, {outer, blocks * block}), 1, 0, 1, n);
    sums = b.WithSizes(sums, b.SizesOf(rows));
  }
  std::vector<int> back(static_cast<size_t>(shape.rank));
  for (int d = 0; d < shape.rank; ++d) back[static_cast<size_t>(perm[static_cast<size_t>(d)])] = d;
  return b.Transpose(b.ReshapeTo(sums, sizes), back);
}

NodeId CountBefore(Builder& b, NodeId x) {
  constexpr int64_t kBlock = 128;  // all integers up to it are exact in bf16
  const int64_t rows = b.shape(x)[0], n = b.shape(x)[1], blocks = (n + kBlock - 1) / kBlock;
  if (n <= kBlock / 4 || !b.SizeOf(x, 1).known()) return CumulativeSum(b, b.Cast(x, DType::kI64), 1, true);
  std::vector<double> earlier;
  for (int64_t i = 0; i < kBlock; ++i) {
    for (int64_t j = 0; j < kBlock; ++j) earlier.push_back(i < j ? 1 : 0);
  }
  const NodeId padded =
      b.PadConstant(b.Cast(x, DType::kF32), b.Scalar(DType::kF32, 0), {0, 0}, {0, blocks * kBlock - n});
  const NodeId whole = b.Reshape(padded, {rows, blocks, kBlock});
  const NodeId inside =
      b.MatMul(b.Reshape(padded, {rows * blocks, kBlock}), b.Floats(DType::kF32, {kBlock, kBlock}, earlier));
  const NodeId total = b.Cast(b.Reduce(ReduceKind::kSum, whole, {2}, false), DType::kI64);
  const NodeId before = b.Unsqueeze(CumulativeSum(b, total, 1, true), 2);
  // Rounds, in case the matmul's constant is quantised.
  const NodeId own = b.Cast(b.BinaryScalar(TapeOp::kAdd, inside, 0.5), DType::kI64);
  const NodeId all = b.Add(b.Reshape(own, {rows, blocks, kBlock}), b.Expand(before, {rows, blocks, kBlock}));
  return b.Slice(b.Reshape(all, {rows, blocks * kBlock}), 1, 0, 1, n);
}

NodeId RotatePairs(Builder& b, NodeId x, NodeId cosine, NodeId sine, bool interleaved) {
  Shape shape = b.shape(x);
  int last = shape.rank - 1;
  int64_t half = shape[last] / 2;
  NodeId first = interleaved ? b.Slice(x, last, 0, 2, half) : b.Slice(x, last, 0, 1, half);
  NodeId second = interleaved ? b.Slice(x, last, 1, 2, half) : b.Slice(x, last, half, 1, half);
  NodeId real = b.Sub(b.Mul(cosine, first), b.Mul(sine, second));
  NodeId imaginary = b.Add(b.Mul(sine, first), b.Mul(cosine, second));
  if (!interleaved) return b.Concat({real, imaginary}, last);
  Shape pair = b.shape(real);
  pair.dims[pair.rank++] = 1;
  return b.Reshape(b.Concat({b.Reshape(real, pair), b.Reshape(imaginary, pair)}, last + 1), shape);
}

bool IndicesMayCollide(const ir::Graph& graph, const std::vector<NodeId>& index,
                       const std::vector<int64_t>& extents) {
  if (index.empty()) return false;
  int64_t count = graph.node(index[0]).shape.elements();
  if (count <= 1) return false;
  constexpr int64_t kMaxChecked = 1 << 20;
  if (count > kMaxChecked) return true;
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(count));
  for (size_t k = 0; k < index.size(); ++k) {
    auto data = EvaluateConstant(graph, index[k]);
    if (!data.ok()) return true;
    for (int64_t e = 0; e < count; ++e) {
      int64_t v = scalar::Load<int64_t>((*data)->dtype, (*data)->bytes.data(), e);
      rows[static_cast<size_t>(e)].push_back(v < 0 ? v + extents[k] : v);
    }
  }
  std::sort(rows.begin(), rows.end());
  return std::adjacent_find(rows.begin(), rows.end()) != rows.end();
}

NodeId Unreadable(ir::Builder& b, DType dtype, const Shape& shape) {
  const NodeId one = b.Expand(b.Scalar(dtype, 0), {1});
  return b.Expand(b.Reshape(b.Gather(one, b.I64({1}), 0), Shape{}), shape);
}

}  // namespace rondo::importer
