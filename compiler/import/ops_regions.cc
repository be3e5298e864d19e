// Regions of pictures that data decide: RoiAlign and DeformConv, which interpolate bilinearly, and
// MaxRoiPool.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/window.h"

namespace rondo::importer {
namespace {

// The two elements of an axis of `extent` between which x (f32) lies, and their weights.
struct AxisTaps {
  std::array<NodeId, 2> index, weight;
};

// Elements outside the axis have weight 0.
AxisTaps TapsOf(Builder& b, NodeId x, int64_t extent) {
  const NodeId floor = b.Unary(TapeOp::kFloor, x), part = b.Sub(x, floor);
  AxisTaps taps;
  for (size_t k = 0; k < 2; ++k) {
    const NodeId at = k == 0 ? floor : b.BinaryScalar(TapeOp::kAdd, floor, 1);
    const NodeId inside = Clamp(b, at, 0, static_cast<double>(extent - 1));
    const NodeId weight = k == 0 ? b.Sub(b.Scalar(DType::kF32, 1), part) : part;
    taps.index[k] = b.Cast(inside, DType::kI64);
    taps.weight[k] = b.Select(b.Binary(TapeOp::kEqual, inside, at), weight, b.Scalar(DType::kF32, 0));
  }
  return taps;
}

// The four elements around each place, each times its weight. y and x index the last two dims of `data`;
// `index` holds the indices before those.
std::vector<NodeId> FourReads(Builder& b, NodeId data, const ir::IndexedAttrs& attrs, const Shape& out,
                              const std::vector<NodeId>& index, const AxisTaps& y, const AxisTaps& x) {
  std::vector<NodeId> reads;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<NodeId> all = index;
    all.push_back(b.Expand(y.index[i / 2], out));
    all.push_back(b.Expand(x.index[i % 2], out));
    const NodeId weight = b.Mul(y.weight[i / 2], x.weight[i % 2]);
    reads.push_back(b.Mul(b.IndexedRead(data, all, attrs, out), b.Cast(weight, b.dtype(data))));
  }
  return reads;
}

struct RoiAttrs {
  bool average = true, half_pixel = true;
  int64_t height = 1, width = 1, samples = 0;
  float scale = 1;
};

Result<RoiAttrs> ReadRoi(OpContext& c) {
  RoiAttrs a;
  const std::string mode = c.String("mode", "avg");
  const std::string coordinates =
      c.String("coordinate_transformation_mode", c.opset >= 16 ? "half_pixel" : "output_half_pixel");
  a.average = mode != "max";
  a.half_pixel = coordinates == "half_pixel";
  a.height = c.Int("output_height", 1);
  a.width = c.Int("output_width", 1);
  a.samples = c.Int("sampling_ratio", 0);
  a.scale = c.Float("spatial_scale", 1);
  constexpr int64_t kMost = 1 << 12;
  if ((mode != "avg" && mode != "max") || (!a.half_pixel && coordinates != "output_half_pixel") ||
      a.height < 1 || a.width < 1 || a.height > kMost || a.width > kMost || a.samples < 0 ||
      a.samples > kMost)
    return Status::Error(Code::kCorrupt, "mode \"%.20s\", coordinates \"%.30s\", %lld x %lld of %lld samples",
                         mode.c_str(), coordinates.c_str(), static_cast<long long>(a.height),
                         static_cast<long long>(a.width), static_cast<long long>(a.samples));
  return a;
}

// One axis: the places of all samples of all bins, and their weights.
struct RoiAxis {
  int64_t bins = 1, samples = 1;
  AxisTaps taps;             // [rois, bins * samples]
  NodeId present = kNoNode;  // bool [rois, bins * samples]: whether the bin has the sample
  NodeId count = kNoNode;    // f32 [rois]: samples per bin
};

// Without a sampling ratio, a bin has a sample for each element that it covers. There is room for as many as
// a box of the whole picture needs, or for kLeastSamples. A box that needs more fails the run.
constexpr int64_t kLeastSamples = 8;
RoiAxis SampleAxis(Builder& b, const RoiAttrs& a, NodeId boxes, int begin, int64_t extent, int64_t bins) {
  RoiAxis axis;
  axis.bins = bins;
  axis.samples = a.samples > 0 ? a.samples : std::max((extent + bins - 1) / bins, kLeastSamples);
  const int64_t rois = b.shape(boxes)[0], all = bins * axis.samples;
  const auto edge = [&](int i) {
    const NodeId at = b.BinaryScalar(TapeOp::kMul, b.Reshape(b.Slice(boxes, 1, i, 1, 1), {rois, 1}), a.scale);
    return a.half_pixel ? b.BinaryScalar(TapeOp::kAdd, at, -0.5) : at;
  };
  const NodeId start = edge(begin);
  NodeId size = b.Sub(edge(begin + 2), start);
  if (!a.half_pixel) size = b.Binary(TapeOp::kMax, size, b.Scalar(DType::kF32, 1));
  const NodeId bin = b.BinaryScalar(TapeOp::kDiv, size, static_cast<double>(bins));
  NodeId grid = b.Expand(b.Scalar(DType::kF32, static_cast<double>(axis.samples)), {rois, 1});
  const NodeId place = b.Iota({rois, all}, 1);
  const NodeId number =
      b.Cast(b.BinaryScalar(TapeOp::kMod, place, static_cast<double>(axis.samples)), DType::kF32);
  const NodeId of =
      b.Cast(b.BinaryScalar(TapeOp::kDiv, place, static_cast<double>(axis.samples)), DType::kF32);
  if (a.samples == 0) {
    grid = b.Binary(TapeOp::kMax, b.Unary(TapeOp::kCeil, bin), b.Scalar(DType::kF32, 0));
    // If there are too many samples, the index 1 into a table of one element fails the run.
    const NodeId more = b.Cast(
        b.Binary(TapeOp::kLess, b.Scalar(DType::kF32, static_cast<double>(axis.samples)), grid), DType::kI64);
    grid = b.Add(grid, b.Gather(b.Floats(DType::kF32, {1}, {0}), more, 0, false));
  }
  axis.count = b.Reshape(grid, {rois});
  const NodeId safe = b.Binary(TapeOp::kMax, grid, b.Scalar(DType::kF32, 1));
  NodeId at = b.Mul(b.Div(b.BinaryScalar(TapeOp::kAdd, number, 0.5), safe), bin);
  at = b.Add(b.Add(start, b.Mul(of, bin)), at);
  const double last = static_cast<double>(extent - 1);
  const NodeId outside = b.Binary(TapeOp::kBitOr, b.Binary(TapeOp::kLess, at, b.Scalar(DType::kF32, -1)),
                                  b.Binary(TapeOp::kLess, b.Scalar(DType::kF32, last + 1), at));
  axis.taps = TapsOf(b, Clamp(b, at, 0, last), extent);
  for (NodeId& weight : axis.taps.weight) weight = b.Select(outside, b.Scalar(DType::kF32, 0), weight);
  axis.present = b.Binary(TapeOp::kLess, number, grid);
  return axis;
}

// x [n, c, h, w], boxes [rois, 4] (x, y, x, y), picture of each box [rois]; result [rois, c, height, width].
Status RoiAlign(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  RONDO_ASSIGN_OR_RETURN(const RoiAttrs a, ReadRoi(c));
  const Shape x = c.shape(0);
  if (c.rank(1) != 2 || c.shape(1)[1] != 4 || !(c.shape(2) == Shape{c.shape(1)[0]}) || x.elements() == 0 ||
      !IsFloat(c.dtype(1)) || c.dtype(2) != DType::kI64)
    return Status::Error(Code::kCorrupt, "boxes of shape %s and batch indices of shape %s for %s",
                         Text(c.shape(1)).c_str(), Text(c.shape(2)).c_str(), Text(x).c_str());
  Builder& b = c.b;
  const int64_t rois = c.shape(1)[0];
  RONDO_ASSIGN_OR_RETURN(const Shape y, c.MakeShape({rois, x[1], a.height, a.width}));
  if (rois == 0) {
    return c.Give(b.Constant(ir::ConstantData::Own(c.dtype(0), y, {})));
  }
  const NodeId boxes = b.Cast(c.In(1), DType::kF32), data = Widen(b, c.In(0));
  RoiAxis rows = SampleAxis(b, a, boxes, 1, x[2], a.height),
          columns = SampleAxis(b, a, boxes, 0, x[3], a.width);
  RONDO_ASSIGN_OR_RETURN(const Shape out,
                         c.MakeShape({rois, x[1], rows.bins * rows.samples, columns.bins * columns.samples}));
  const auto along = [&](NodeId v, bool of_rows) {
    return b.Reshape(v, of_rows ? Shape{rois, 1, out[2], 1} : Shape{rois, 1, 1, out[3]});
  };
  for (size_t k = 0; k < 2; ++k) {
    for (auto* part : {&rows.taps.index, &rows.taps.weight}) (*part)[k] = along((*part)[k], true);
    for (auto* part : {&columns.taps.index, &columns.taps.weight}) (*part)[k] = along((*part)[k], false);
  }
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(out);
  int64_t* strides = attrs.map.steps[0].strides;
  strides[0] = strides[2] = strides[3] = 0;
  strides[1] = x[2] * x[3];
  attrs.dims = {{x[1] * x[2] * x[3], x[0], false}, {x[3], x[2], false}, {1, x[3], false}};
  const NodeId batch = b.Expand(b.Reshape(c.In(2), {rois, 1, 1, 1}), out);
  const std::vector<NodeId> reads = FourReads(b, data, attrs, out, {batch}, rows.taps, columns.taps);
  NodeId value = reads[0];
  for (size_t i = 1; i < 4; ++i) value = b.Binary(a.average ? TapeOp::kAdd : TapeOp::kMax, value, reads[i]);
  const NodeId present = b.Binary(TapeOp::kBitAnd, along(rows.present, true), along(columns.present, false));
  const DType type = b.dtype(data);
  const Shape parts{rois, x[1], rows.bins, rows.samples, columns.bins, columns.samples};
  value = b.Select(present, value, b.Scalar(type, a.average ? 0 : -INFINITY));
  value = b.Reduce(a.average ? ir::ReduceKind::kSum : ir::ReduceKind::kMax, b.Reshape(value, parts), {3, 5},
                   false);
  const NodeId counts = b.Cast(b.Reshape(b.Mul(rows.count, columns.count), {rois, 1, 1, 1}), type);
  const NodeId samples = b.Binary(TapeOp::kMax, counts, b.Scalar(type, 1));
  const NodeId none = b.Binary(TapeOp::kEqual, counts, b.Scalar(type, 0));
  value = a.average ? b.Div(value, samples) : b.Select(none, b.Scalar(type, 0), value);
  return c.Give(b.Cast(value, c.dtype(0)));
}

// By bin along one axis, the elements that it covers: bool [rois, bins, extent]. The bins divide the whole
// elements from `start` to `end`, f32 [rois], and overlap if an element lies in two.
NodeId Covered(Builder& b, NodeId start, NodeId end, int64_t bins, int64_t extent) {
  const int64_t rois = b.shape(start).elements();
  const Shape each{rois, bins, 1}, all{rois, bins, extent};
  const auto rounded = [&](NodeId x) {  // halves away from 0
    const NodeId up = b.Unary(TapeOp::kFloor, b.BinaryScalar(TapeOp::kAdd, x, 0.5)),
                 down = b.Unary(TapeOp::kCeil, b.BinaryScalar(TapeOp::kAdd, x, -0.5));
    return b.Reshape(b.Select(b.Binary(TapeOp::kLess, x, b.Scalar(DType::kF32, 0)), down, up), {rois, 1, 1});
  };
  const NodeId first = rounded(start);
  const NodeId length =
      b.BinaryScalar(TapeOp::kMax, b.BinaryScalar(TapeOp::kAdd, b.Sub(rounded(end), first), 1), 1);
  const NodeId size = b.BinaryScalar(TapeOp::kDiv, length, static_cast<double>(bins));
  const NodeId number = b.Cast(b.Iota(each, 1), DType::kF32);
  const auto edge = [&](TapeOp round, NodeId of) {
    return b.Expand(b.Add(b.Unary(round, b.Mul(b.Expand(size, each), of)), b.Expand(first, each)), all);
  };
  const NodeId at = b.Cast(b.Iota(all, 2), DType::kF32);
  return b.Binary(TapeOp::kBitAnd, b.Binary(TapeOp::kLessEqual, edge(TapeOp::kFloor, number), at),
                  b.Binary(TapeOp::kLess, at, edge(TapeOp::kCeil, b.BinaryScalar(TapeOp::kAdd, number, 1))));
}

// x [n, c, h, w], regions [rois, 5] (picture, then x, y, x, y). The result is the maximum of each bin, [rois,
// c, height, width]; 0 for an empty bin.
Status MaxRoiPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  const Shape x = c.shape(0);
  const std::vector<int64_t> pooled = c.Ints("pooled_shape");
  const auto fits = [](int64_t bins) { return bins >= 1 && bins <= 1 << 12; };
  if (c.rank(1) != 2 || c.shape(1)[1] != 5 || !IsFloat(c.dtype(1)) || x.elements() == 0 ||
      c.shape(1)[0] == 0 || pooled.size() != 2 || !fits(pooled[0]) || !fits(pooled[1]))
    return Status::Error(Code::kCorrupt,
                         "regions of shape %s for %s, or a pooled_shape that is not two sizes",
                         Text(c.shape(1)).c_str(), Text(x).c_str());
  Builder& b = c.b;
  const int64_t rois = c.shape(1)[0];
  const NodeId regions = b.Cast(c.In(1), DType::kF32), lowest = b.Scalar(c.dtype(0), -INFINITY);
  const auto column = [&](int64_t k) { return b.Slice(regions, 1, k, 1, 1); };
  const auto edge = [&](int64_t k) {
    return b.BinaryScalar(TapeOp::kMul, column(k), c.Float("spatial_scale", 1));
  };
  const NodeId in_rows = Covered(b, edge(2), edge(4), pooled[0], x[2]),
               in_columns = Covered(b, edge(1), edge(3), pooled[1], x[3]);
  const NodeId own = b.Gather(c.In(0), b.Reshape(b.Cast(column(0), DType::kI64), {rois}), 0, false);
  RONDO_ASSIGN_OR_RETURN(const Shape tall, c.MakeShape({rois, x[1], pooled[0], x[2], x[3]}));
  RONDO_ASSIGN_OR_RETURN(const Shape wide, c.MakeShape({rois, x[1], pooled[0], pooled[1], x[3]}));
  NodeId y = b.Select(b.Expand(b.Reshape(in_rows, {rois, 1, pooled[0], x[2], 1}), tall),
                      b.Expand(b.Unsqueeze(own, 2), tall), lowest);
  y = b.Reduce(ir::ReduceKind::kMax, y, {3}, false);
  y = b.Select(b.Expand(b.Reshape(in_columns, {rois, 1, 1, pooled[1], x[3]}), wide),
               b.Expand(b.Unsqueeze(y, 3), wide), lowest);
  y = b.Reduce(ir::ReduceKind::kMax, y, {4}, false);
  const auto any = [&](NodeId covered) { return b.Reduce(ir::ReduceKind::kMax, covered, {2}, false); };
  const NodeId some = b.Binary(TapeOp::kBitAnd, b.Reshape(any(in_rows), {rois, 1, pooled[0], 1}),
                               b.Reshape(any(in_columns), {rois, 1, 1, pooled[1]}));
  return c.Give(b.Select(some, y, b.Scalar(c.dtype(0), 0)));
}

// x [n, c, h, w], w [m, c / group, kh, kw], offsets [n, og * kh * kw * 2, oh, ow], bias [m], mask [n, og * kh
// * kw, oh, ow]. A convolution in which every tap is read at its own offset.
Status DeformConv(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 4, 4));
  const Shape x = c.shape(0), w = c.shape(1);
  const int64_t groups = c.Int("group", 1), sets = c.Int("offset_group", 1), taps = w[2] * w[3];
  RONDO_ASSIGN_OR_RETURN(const WindowAttrs window, ReadWindow(c, {w[2], w[3]}, false));
  const int64_t oh = window.output[0], ow = window.output[1];
  if (groups < 1 || sets < 1 || x[1] % groups != 0 || w[0] % groups != 0 || w[1] * groups != x[1] ||
      x[1] % sets != 0 || x.elements() == 0 || w.elements() == 0 ||
      !(c.shape(2) == Shape{x[0], sets * taps * 2, oh, ow}) || (c.Has(3) && !(c.shape(3) == Shape{w[0]})) ||
      (c.Has(4) && !(c.shape(4) == Shape{x[0], sets * taps, oh, ow})))
    return Status::Error(Code::kCorrupt,
                         "x %s, w %s, offset %s, bias or mask do not fit for a result of %lld x %lld",
                         Text(x).c_str(), Text(w).c_str(), Text(c.shape(2)).c_str(),
                         static_cast<long long>(oh), static_cast<long long>(ow));
  Builder& b = c.b;
  const NodeId data = Widen(b, c.In(0));
  const DType type = b.dtype(data);
  // Dims: batch, set of offsets, channel of the set, row and column of the kernel, row and column of the
  // result.
  const Shape out{x[0], sets, x[1] / sets, w[2], w[3], oh, ow}, places{x[0], sets, 1, w[2], w[3], oh, ow};
  const NodeId offsets = b.Reshape(b.Cast(c.In(2), DType::kF32), {x[0], sets, w[2], w[3], 2, oh, ow});
  const auto axis_taps = [&](int axis) {
    const size_t a = static_cast<size_t>(axis);
    const auto steps = [&](int dim, int64_t by) {
      return b.BinaryScalar(TapeOp::kMul, b.Cast(b.Iota(places, dim), DType::kF32), static_cast<double>(by));
    };
    NodeId at = b.Add(steps(3 + axis, window.dilations[a]), steps(5 + axis, window.strides[a]));
    at = b.BinaryScalar(TapeOp::kAdd, at, -static_cast<double>(window.pads_begin[a]));
    at = b.Add(at, b.Reshape(b.Slice(offsets, 4, axis, 1, 1), places));
    return TapsOf(b, at, x[axis + 2]);
  };
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(out);
  int64_t* strides = attrs.map.steps[0].strides;
  std::fill(strides, strides + out.rank, 0);
  strides[2] = x[2] * x[3];
  strides[1] = strides[2] * out[2];
  strides[0] = strides[2] * x[1];
  attrs.dims = {{x[3], x[2], false}, {1, x[3], false}};
  const std::vector<NodeId> reads = FourReads(b, data, attrs, out, {}, axis_taps(0), axis_taps(1));
  NodeId value = b.Add(b.Add(reads[0], reads[1]), b.Add(reads[2], reads[3]));
  if (c.Has(4)) value = b.Mul(value, b.Reshape(b.Cast(c.In(4), type), places));
  const NodeId columns = b.Reshape(value, {x[0], groups, w[1] * taps, oh * ow});
  const NodeId weights = b.Reshape(b.Cast(c.In(1), type), {groups, w[0] / groups, w[1] * taps});
  NodeId y = b.Reshape(b.MatMul(weights, columns), {x[0], w[0], oh, ow});
  if (c.Has(3)) y = b.Add(y, AlongAxis(b, b.Cast(c.In(3), type), 1, 4));
  return c.Give(b.Cast(y, c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"RoiAlign", 3, RoiAlign, 10},
    {"MaxRoiPool", 2, MaxRoiPool},
    {"DeformConv", 3, DeformConv, 19},
};

}  // namespace

Span<const OpRow> RegionOps() { return kOps; }

}  // namespace rondo::importer
