#include "compiler/import/resize_by_sizes.h"

#include <cmath>

namespace rondo::importer {
namespace {

NodeId F64(Builder& b, const ir::Size& size) { return b.Cast(b.Number(size), DType::kF64); }

// By element of the result: its coordinate among the input's elements, f64 [to].
NodeId Coordinates(Builder& b, const ResizedAxis& a, const std::string& mode) {
  const NodeId i = b.Cast(b.IotaOver({a.to}, 0), DType::kF64), n = F64(b, a.from), m = F64(b, a.to);
  const NodeId half = b.Scalar(DType::kF64, 0.5), one = b.Scalar(DType::kF64, 1),
               none = b.Scalar(DType::kF64, 0);
  const auto unscaled = [&](NodeId v) {
    return a.scale ? b.Div(v, b.Scalar(DType::kF64, *a.scale)) : b.Div(b.Mul(v, n), m);
  };
  if (mode == "asymmetric") return unscaled(i);
  // A single element would divide by 0: it reads the first.
  const NodeId single = b.Binary(TapeOp::kEqual, m, one);
  if (mode == "align_corners") {
    const NodeId steps = b.Select(single, one, b.Sub(m, one));
    return b.Select(single, none, b.Div(b.Mul(i, b.Sub(n, one)), steps));
  }
  const NodeId centre = b.Sub(unscaled(b.Add(i, half)), half);
  if (mode == "half_pixel_symmetric" && a.scale) {
    const NodeId adjustment = b.Div(m, b.BinaryScalar(TapeOp::kMul, n, *a.scale));
    return b.Add(centre, b.Mul(b.Mul(n, half), b.Sub(one, adjustment)));
  }
  return mode == "pytorch_half_pixel" ? b.Select(single, none, centre) : centre;
}

NodeId Nearest(Builder& b, NodeId x, const std::string& mode) {
  if (mode == "floor") return b.Unary(TapeOp::kFloor, x);
  if (mode == "ceil") return b.Unary(TapeOp::kCeil, x);
  const double half = mode == "round_prefer_ceil" ? 0.5 : -0.5;
  return b.Unary(half > 0 ? TapeOp::kFloor : TapeOp::kCeil, b.BinaryScalar(TapeOp::kAdd, x, half));
}

}  // namespace

NodeId ResizeBySizes(Builder& b, NodeId x, const ResizedAxis& axis, const ResizeRule& rule) {
  const bool repeats = !rule.linear && rule.coordinates == "asymmetric" && rule.nearest == "floor" &&
                       axis.scale && *axis.scale == std::floor(*axis.scale);
  if (repeats) return RepeatEach(b, x, axis.axis, static_cast<int64_t>(*axis.scale));
  const NodeId at = Coordinates(b, axis, rule.coordinates);
  const NodeId last = b.Sub(b.Number(axis.from), b.Scalar(DType::kI64, 1)), first = b.Scalar(DType::kI64, 0);
  const auto taken = [&](NodeId place) {
    const NodeId within = b.Binary(TapeOp::kMin, b.Cast(place, DType::kI64), last);
    return b.Gather(x, b.Binary(TapeOp::kMax, within, first), axis.axis, false);
  };
  if (!rule.linear) return taken(Nearest(b, at, rule.nearest));
  const NodeId low = b.Unary(TapeOp::kFloor, at);
  const NodeId part = AlongAxis(b, b.Cast(b.Sub(at, low), b.dtype(x)), axis.axis, b.shape(x).rank);
  const NodeId rest = b.Sub(b.Scalar(b.dtype(x), 1), part);
  return b.Add(b.Mul(taken(low), rest), b.Mul(taken(b.BinaryScalar(TapeOp::kAdd, low, 1)), part));
}

}  // namespace rondo::importer
