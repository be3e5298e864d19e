// Geometry of pictures and matrices: AffineGrid, CenterCropPad, MaxUnpool, Det.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

// Places from -1 to 1 along an axis of n elements: their centres, or from the first element to the last.
std::vector<double> GridLine(int64_t n, bool align_corners) {
  std::vector<double> line;
  for (int64_t i = 0; i < n; ++i) {
    const double at = static_cast<double>(i), size = static_cast<double>(n);
    line.push_back(!align_corners ? (2 * at + 1) / size - 1 : n == 1 ? 0 : 2 * at / (size - 1) - 1);
  }
  return line;
}

// theta [n, d, d + 1], size [n, c, spatial...]. The result is the grid [n, spatial..., d], whose last dim
// lists the axes from the innermost outwards.
Status AffineGrid(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> size, c.ConstantInts(1));
  RONDO_ASSIGN_OR_RETURN(const Shape image, c.MakeShape(size));
  const int axes = image.rank - 2;
  const Shape& theta = c.shape(0);
  if ((axes != 2 && axes != 3) || !(theta == Shape{image[0], axes, axes + 1}) || image.elements() == 0) {
    return Status::Error(Code::kCorrupt, "theta of shape %s for a size of %s", Text(theta).c_str(),
                         Text(image).c_str());
  }
  Builder& b = c.b;
  const bool align = c.Int("align_corners", 0) != 0;
  const DType type = b.dtype(Widen(b, c.In(0)));
  Shape out = image;
  out.rank = 1 + axes;
  for (int a = 0; a < axes; ++a) out.dims[1 + a] = image[2 + a];
  std::vector<NodeId> rows;
  for (int r = 0; r < axes; ++r) {
    const auto factor = [&](int column) {
      const NodeId one = b.Slice(b.Slice(Widen(b, c.In(0)), 1, r, 1, 1), 2, column, 1, 1);
      return AlongAxis(b, b.Reshape(one, {image[0]}), 0, out.rank);
    };
    NodeId sum = factor(axes);
    for (int a = 0; a < axes; ++a) {
      const int axis = axes - 1 - a;  // x first
      const int64_t n = image[2 + axis];
      const NodeId line = b.Floats(type, {n}, GridLine(n, align));
      sum = b.Add(sum, b.Mul(factor(a), AlongAxis(b, line, 1 + axis, out.rank)));
    }
    rows.push_back(b.Unsqueeze(b.Expand(sum, out), out.rank));
  }
  return c.Give(b.Cast(b.Concat(rows, out.rank), c.dtype(0)));
}

// Crops axes that are too long to their middle, and pads axes that are too short with zeros on both sides.
Status CenterCropPad(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, c.ConstantInts(1));
  std::vector<int64_t> axes = c.Ints("axes");
  if (!c.HasAttribute("axes")) {
    for (int d = 0; d < c.rank(0); ++d) axes.push_back(d);
  }
  RONDO_RETURN_IF_ERROR(c.Axes(axes, c.rank(0)).status());
  if (axes.size() != sizes.size())
    return Status::Error(Code::kCorrupt, "%zu sizes for %zu axes", sizes.size(), axes.size());
  Builder& b = c.b;
  NodeId x = c.In(0);
  std::vector<int64_t> before(static_cast<size_t>(c.rank(0)), 0), after = before,
                                                                  dims(c.shape(0).begin(), c.shape(0).end());
  for (size_t i = 0; i < axes.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(axes[i], c.rank(0)));
    const int64_t have = c.shape(0)[axis], want = sizes[i];
    dims[static_cast<size_t>(axis)] = want;
    RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
    if (want < 1 || have < 1)
      return Status::Error(Code::kUnsupported, "axis %d of %lld elements becomes %lld", axis,
                           static_cast<long long>(have), static_cast<long long>(want));
    if (want < have) x = b.Slice(x, axis, (have - want) / 2, 1, want);
    if (want <= have) continue;
    before[static_cast<size_t>(axis)] = (want - have) / 2;
    after[static_cast<size_t>(axis)] = want - have - (want - have) / 2;
  }
  const bool pads = std::any_of(dims.begin(), dims.end(),
                                [&, d = 0](int64_t dim) mutable { return dim != b.shape(x)[d++]; });
  return c.Give(pads ? b.PadConstant(x, b.Scalar(c.dtype(0), 0), before, after) : x);
}

// Puts each element of x at its place in a tensor of zeros with the shape before pooling.
Status MaxUnpool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  const Shape x = c.shape(0);
  const size_t axes = static_cast<size_t>(x.rank - 2);
  const std::vector<int64_t> kernel = c.Ints("kernel_shape");
  std::vector<int64_t> strides = c.Ints("strides", 1), pads = c.Ints("pads");
  if (strides.empty()) strides.assign(axes, 1);
  if (pads.empty()) pads.assign(2 * axes, 0);
  if (!(c.shape(1) == x) || c.dtype(1) != DType::kI64 || kernel.size() != axes || strides.size() != axes ||
      pads.size() != 2 * axes || x.elements() == 0)
    return Status::Error(Code::kCorrupt, "indices, kernel_shape, strides or pads do not fit %s",
                         Text(x).c_str());
  const auto sane = [](const std::vector<int64_t>& list, int64_t least) {
    return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v >= least && v <= 1 << 20; });
  };
  if (!sane(kernel, 1) || !sane(strides, 1) || !sane(pads, 0))
    return Status::Error(Code::kCorrupt, "kernel_shape, strides or pads out of range");
  std::vector<int64_t> dims = {x[0], x[1]};
  for (size_t a = 0; a < axes; ++a)
    dims.push_back((x[static_cast<int>(a) + 2] - 1) * strides[a] - pads[a] - pads[axes + a] + kernel[a]);
  RONDO_ASSIGN_OR_RETURN(const Shape pooled, c.MakeShape(dims));
  if (pooled.elements() == 0)
    return Status::Error(Code::kCorrupt, "a result of shape %s", Text(pooled).c_str());
  Builder& b = c.b;
  const int64_t count = x.elements();
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView({count});
  attrs.map.steps[0].strides[0] = 0;
  attrs.dims = {{1, pooled.elements(), false}};
  const NodeId zeros = b.Expand(b.Scalar(c.dtype(0), 0), {pooled.elements()});
  NodeId y = b.IndexedWrite(zeros, b.Reshape(c.In(0), {count}), {b.Reshape(c.In(1), {count})}, attrs);
  y = b.Reshape(y, pooled);
  if (c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> given, c.ConstantInts(2));
    RONDO_ASSIGN_OR_RETURN(const Shape wanted, c.MakeShape(given));
    std::vector<int64_t> before(static_cast<size_t>(x.rank), 0), after;
    for (int d = 0; d < x.rank; ++d) after.push_back(wanted.rank == x.rank ? wanted[d] - pooled[d] : -1);
    if (std::any_of(after.begin(), after.end(), [](int64_t n) { return n < 0; }))
      return Status::Error(Code::kCorrupt, "output_shape %s for %s", Text(wanted).c_str(),
                           Text(pooled).c_str());
    if (!(wanted == pooled)) y = b.PadConstant(y, b.Scalar(c.dtype(0), 0), before, after);
  }
  return c.Give(y);
}

// The determinant of x [..., n, n], by elimination with the greatest pivot of each column.
Status Det(OpContext& c) {
  constexpr int64_t kMostRows = 64;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  const Shape x = c.shape(0);
  const int64_t n = x[x.rank - 1];
  if (x[x.rank - 2] != n || x.elements() == 0 || n > kMostRows)
    return Status::Error(n > kMostRows ? Code::kUnsupported : Code::kCorrupt,
                         "matrices of shape %s; square ones of up to %lld rows are needed", Text(x).c_str(),
                         static_cast<long long>(kMostRows));
  Builder& b = c.b;
  const int64_t count = x.elements() / (n * n);
  NodeId m = b.Reshape(Widen(b, c.In(0)), {count, n, n});
  const DType type = b.dtype(m);
  NodeId product = b.Expand(b.Scalar(type, 1), {count});
  for (int64_t left = n; left > 0; --left) {
    const NodeId column = b.Squeeze(b.Slice(m, 2, 0, 1, 1), 2);
    const NodeId pivot =
        b.Reduce(ir::ReduceKind::kArgMax, b.Unary(TapeOp::kAbs, column), {1}, true);  // [count, 1]
    const NodeId here = b.Expand(b.Unsqueeze(b.Binary(TapeOp::kEqual, b.Iota({count, left}, 1), pivot), 2),
                                 {count, left, left});
    const NodeId row =
        b.Reduce(ir::ReduceKind::kSum, b.Select(here, m, b.Scalar(type, 0)), {1}, true);  // [count, 1, left]
    const NodeId value = b.Reshape(b.Slice(row, 2, 0, 1, 1), {count});
    // The pivot's row moves up past the rows before it.
    const NodeId odd = b.Binary(TapeOp::kEqual, b.BinaryScalar(TapeOp::kMod, b.Reshape(pivot, {count}), 2),
                                b.Scalar(DType::kI64, 1));
    product = b.Mul(product, b.Select(odd, b.Unary(TapeOp::kNeg, value), value));
    if (left == 1) break;
    const Shape rest{count, left - 1, left};
    const NodeId earlier = b.Binary(TapeOp::kLess, b.Iota(rest, 1), b.Expand(b.Unsqueeze(pivot, 2), rest));
    const NodeId others = b.Select(earlier, b.Slice(m, 1, 0, 1, left - 1), b.Slice(m, 1, 1, 1, left - 1));
    // A column of zeros has already made the product 0.
    const NodeId none = b.Binary(TapeOp::kEqual, value, b.Scalar(type, 0));
    const NodeId safe = b.Reshape(b.Select(none, b.Scalar(type, 1), value), {count, 1, 1});
    const NodeId factor = b.Div(b.Slice(others, 2, 0, 1, 1), safe);
    m = b.Sub(b.Slice(others, 2, 1, 1, left - 1), b.Mul(factor, b.Slice(row, 2, 1, 1, left - 1)));
  }
  Shape out = x;
  out.rank -= 2;
  return c.Give(b.Cast(b.Reshape(product, out), c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"AffineGrid", 2, AffineGrid, 20},
    {"CenterCropPad", 2, CenterCropPad, 18},
    {"MaxUnpool", 2, MaxUnpool, 9},
    {"Det", 1, Det, 11},
};

}  // namespace

Span<const OpRow> GeometryOps() { return kOps; }

}  // namespace rondo::importer
