// Regions of pictures that data decide: RoiAlign and DeformConv, which interpolate bilinearly, and
// MaxRoiPool.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/sampled.h"
#include "compiler/import/window.h"

namespace rondo::importer {
namespace {

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

// One axis of RoiAlign: the elements that each bin reads, and what they count.
struct RoiAxis {
  int64_t taps = 1;          // a bin
  NodeId index = kNoNode;    // [rois, bins * taps], in range
  NodeId weight = kNoNode;   // f32 [rois, bins * taps]
  NodeId present = kNoNode;  // bool [rois, bins * taps]: whether the bin has the sample; only of maxima
  NodeId count = kNoNode;    // f32 [rois]: samples per bin
};

// What sample places `at` take of elements `index` (f32): a triangle over the two elements around a place.
NodeId Triangle(Builder& b, NodeId at, NodeId index) {
  const NodeId away = b.Unary(TapeOp::kAbs, b.Sub(at, index));
  return b.BinaryScalar(TapeOp::kMax, b.Sub(b.Scalar(DType::kF32, 1), away), 0);
}

// With room for `samples` in a bin along this axis. Without a sampling ratio, a bin has a sample for each
// element that it covers.
//
// An average is a weighted sum of elements. Such samples lie at most one element apart, so that those of a
// bin read neighbours, each of which is read once, whatever the number of samples around it.
RoiAxis SampleAxis(Builder& b, const RoiAttrs& a, NodeId boxes, int begin, int64_t extent, int64_t bins,
                   int64_t samples, DType index_type) {
  const int64_t rois = b.shape(boxes)[0];
  const auto scalar = [&](double v) { return b.Scalar(DType::kF32, v); };
  const auto edge = [&](int i) {
    const NodeId at =
        b.BinaryScalar(TapeOp::kMul, b.Reshape(b.Slice(boxes, 1, i, 1, 1), {rois, 1, 1}), a.scale);
    return a.half_pixel ? b.BinaryScalar(TapeOp::kAdd, at, -0.5) : at;
  };
  const NodeId start = edge(begin);
  NodeId size = b.Sub(edge(begin + 2), start);
  if (!a.half_pixel) size = b.Binary(TapeOp::kMax, size, scalar(1));
  const NodeId bin = b.BinaryScalar(TapeOp::kDiv, size, static_cast<double>(bins));
  NodeId grid = b.Expand(scalar(static_cast<double>(samples)), {rois, 1, 1});
  if (a.samples == 0) grid = b.Binary(TapeOp::kMax, b.Unary(TapeOp::kCeil, bin), scalar(0));
  // All samples of all bins: [rois, bins, samples].
  const Shape each{rois, bins, samples};
  const NodeId of = b.Cast(b.Iota(each, 1), DType::kF32), number = b.Cast(b.Iota(each, 2), DType::kF32);
  const NodeId safe = b.Binary(TapeOp::kMax, grid, scalar(1));
  NodeId at = b.Mul(b.Div(b.BinaryScalar(TapeOp::kAdd, number, 0.5), safe), bin);
  at = b.Add(b.Add(start, b.Mul(of, bin)), at);
  const double last = static_cast<double>(extent - 1);
  const NodeId outside = b.Binary(TapeOp::kBitOr, b.Binary(TapeOp::kLess, at, scalar(-1)),
                                  b.Binary(TapeOp::kLess, scalar(last + 1), at));
  const NodeId present = b.Binary(TapeOp::kLess, number, grid);
  at = Clamp(b, at, 0, last);

  RoiAxis axis;
  const bool merged = a.average && a.samples == 0;
  axis.taps = merged ? samples + 1 : 2 * samples;
  axis.count = b.Reshape(grid, {rois});
  const Shape around{rois, bins, samples, merged ? axis.taps : 2}, flat{rois, bins * axis.taps};
  const NodeId first = b.Unary(TapeOp::kFloor, merged ? b.Slice(at, 2, 0, 1, 1) : at),
               index = b.Add(b.Unsqueeze(first, 3), b.Cast(b.Iota(around, 3), DType::kF32));
  const NodeId counts = b.Select(outside, scalar(0), b.Cast(present, DType::kF32));
  NodeId weight = b.Mul(Triangle(b, b.Unsqueeze(at, 3), index), b.Unsqueeze(counts, 3));
  NodeId read = index;
  if (merged) {
    weight = b.Reduce(ir::ReduceKind::kSum, weight, {2}, false);
    read = b.Slice(index, 2, 0, 1, 1);
  }
  axis.weight = b.Reshape(weight, flat);
  axis.index = b.Reshape(b.Cast(Clamp(b, read, 0, last), index_type), flat);
  axis.present = b.Reshape(b.Expand(b.Unsqueeze(present, 3), around), {rois, bins * samples * around[3]});
  return axis;
}

// The pictures of RoiAlign, and its regions in them.
struct Regions {
  NodeId data = kNoNode;   // [n, c, h, w]
  NodeId boxes = kNoNode;  // f32 [rois, 4]: x, y, x, y
  NodeId first = kNoNode;  // [rois, 1]: where the first channel of the region's picture begins
  Shape x;                 // of the data
};

// Samples in a bin along an axis, at most.
using Samples = std::array<int64_t, 2>;  // rows, columns

// The result, [rois, c, height, width], in the type of the data, if no bin has more than `most` samples.
// `fits`, if not null, becomes whether that is so.
Result<NodeId> Pooled(OpContext& c, const RoiAttrs& a, const Regions& of, Samples most, NodeId* fits) {
  Builder& b = c.b;
  const Shape& x = of.x;
  const int64_t rois = b.shape(of.boxes)[0];
  const RoiAxis rows = SampleAxis(b, a, of.boxes, 1, x[2], a.height, most[0], IndexType(x)),
                columns = SampleAxis(b, a, of.boxes, 0, x[3], a.width, most[1], IndexType(x));
  RONDO_ASSIGN_OR_RETURN(const Shape out,
                         c.MakeShape({rois, x[1], a.height * rows.taps, a.width * columns.taps}));
  if (fits) {
    const auto all = [&](NodeId count, int64_t samples) {
      const NodeId greatest = b.Reduce(ir::ReduceKind::kMax, count, {0}, false);
      return b.Binary(TapeOp::kLessEqual, greatest, b.Scalar(DType::kF32, static_cast<double>(samples)));
    };
    *fits = b.Binary(TapeOp::kBitAnd, all(rows.count, most[0]), all(columns.count, most[1]));
  }
  const auto of_rows = [&](NodeId v) { return b.Reshape(v, {rois, 1, out[2], 1}); };
  const auto of_columns = [&](NodeId v) { return b.Reshape(v, {rois, 1, 1, out[3]}); };
  const NodeId row = b.Add(b.BinaryScalar(TapeOp::kMul, rows.index, static_cast<double>(x[3])), of.first);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(out);
  int64_t* strides = attrs.map.steps[0].strides;
  strides[0] = strides[2] = strides[3] = 0;
  strides[1] = x[2] * x[3];
  const int64_t last_picture = (x[0] - 1) * x[1] * x[2] * x[3];
  attrs.dims = {{1, last_picture + (x[2] - 1) * x[3] + 1, false}, {1, x[3], false}};
  const NodeId read = b.IndexedRead(
      of.data, {b.Expand(of_rows(row), out), b.Expand(of_columns(columns.index), out)}, attrs, out);
  const DType type = b.dtype(of.data);
  const NodeId weight = b.Mul(of_rows(rows.weight), of_columns(columns.weight));
  NodeId value = b.Mul(read, b.Cast(weight, type));
  if (!a.average) {
    const NodeId present = b.Binary(TapeOp::kBitAnd, of_rows(rows.present), of_columns(columns.present));
    value = b.Select(present, value, b.Scalar(type, -INFINITY));
  }
  const Shape parts{rois, x[1], a.height, rows.taps, a.width, columns.taps};
  value = b.Reduce(a.average ? ir::ReduceKind::kSum : ir::ReduceKind::kMax, b.Reshape(value, parts), {3, 5},
                   false);
  const NodeId counts = b.Cast(b.Reshape(b.Mul(rows.count, columns.count), {rois, 1, 1, 1}), type);
  const NodeId samples = b.Binary(TapeOp::kMax, counts, b.Scalar(type, 1));
  const NodeId none = b.Binary(TapeOp::kEqual, counts, b.Scalar(type, 0));
  return a.average ? b.Div(value, samples) : b.Select(none, b.Scalar(type, 0), value);
}

// Without a sampling ratio. There is room for as many samples as a box of the whole picture needs, or for
// kLeastSamples; a larger box fails the run. Most boxes need few: a run in which all do takes another way.
Result<NodeId> PooledBySize(OpContext& c, const RoiAttrs& a, const Regions& of) {
  constexpr int64_t kLeastSamples = 8, kFew[] = {12, 4};
  constexpr int64_t kMany = 1 << 22;  // samples that take longer than to choose a way
  Builder& b = c.b;
  Samples most = {std::max((of.x[2] + a.height - 1) / a.height, kLeastSamples),
                  std::max((of.x[3] + a.width - 1) / a.width, kLeastSamples)};
  NodeId fits = kNoNode;
  RONDO_ASSIGN_OR_RETURN(NodeId value, Pooled(c, a, of, most, &fits));
  const int64_t bins = b.shape(value).elements();
  // If there are too many samples, the index 1 into a table of one element fails the run.
  const NodeId more = b.Cast(b.Unary(TapeOp::kNot, fits), DType::kI64);
  value = b.Add(value, b.Gather(b.Floats(b.dtype(value), {1}, {0}), more, 0, false));
  for (const int64_t few : kFew) {
    const Samples room = {std::min(few, most[0]), std::min(few, most[1])};
    const int64_t all = most[0] * most[1];
    if (4 * room[0] * room[1] > all || bins * all < kMany) continue;
    RONDO_ASSIGN_OR_RETURN(const NodeId quick, Pooled(c, a, of, room, &fits));
    value = b.Select(fits, quick, value);
    most = room;
  }
  return value;
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
  std::vector<int64_t> pictures;
  for (int64_t i = 0; i < x[0]; ++i) pictures.push_back(i * x[1] * x[2] * x[3]);
  const NodeId first = b.Gather(b.Ints(IndexType(x), {x[0]}, pictures), c.In(2), 0, false);
  const Regions of = {Widen(b, c.In(0)), b.Cast(c.In(1), DType::kF32), b.Reshape(first, {rois, 1}), x};
  RONDO_ASSIGN_OR_RETURN(const NodeId value, a.samples == 0
                                                 ? PooledBySize(c, a, of)
                                                 : Pooled(c, a, of, {a.samples, a.samples}, nullptr));
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
    return LinearTaps(b, at, x[axis + 2], IndexType(x));
  };
  ir::View first = ir::DenseView(out);
  int64_t* strides = first.steps[0].strides;
  std::fill(strides, strides + out.rank, 0);
  strides[2] = x[2] * x[3];
  strides[1] = strides[2] * out[2];
  strides[0] = strides[2] * x[1];
  NodeId value = SampledSum(b, data, first, out, {axis_taps(0), axis_taps(1)}, {x[2], x[3]});
  if (c.Has(4)) value = b.Mul(value, b.Reshape(b.Cast(c.In(4), type), places));
  const NodeId columns = b.Reshape(b.Cast(value, c.dtype(0)), {x[0], groups, w[1] * taps, oh * ow});
  const NodeId weights = b.Reshape(c.In(1), {groups, w[0] / groups, w[1] * taps});
  NodeId y = b.Reshape(b.MatMul(weights, columns), {x[0], w[0], oh, ow});
  if (c.Has(3)) y = b.Add(y, AlongAxis(b, b.Cast(c.In(3), c.dtype(0)), 1, 4));
  return c.Give(y);
}

constexpr OpRow kOps[] = {
    {"RoiAlign", 3, RoiAlign, 10},
    {"MaxRoiPool", 2, MaxRoiPool},
    {"DeformConv", 3, DeformConv, 19},
};

}  // namespace

Span<const OpRow> RegionOps() { return kOps; }

}  // namespace rondo::importer
