// GridSample: reads a picture at computed fractional places, as weighted sums of its elements.
#include <cmath>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/sampled.h"

namespace rondo::importer {
namespace {

enum class Padding { kZeros, kBorder, kReflection };

struct SampleAttrs {
  std::string mode;  // "nearest", "linear" or "cubic"
  Padding padding = Padding::kZeros;
  bool align_corners = false;
};

Result<SampleAttrs> ReadSample(OpContext& c) {
  SampleAttrs attrs;
  std::string mode = c.String("mode", c.opset >= 20 ? "linear" : "bilinear");
  std::string padding = c.String("padding_mode", "zeros");
  attrs.align_corners = c.Int("align_corners", 0) != 0;
  if (mode == "nearest") attrs.mode = mode;
  if (mode == "linear" || mode == "bilinear") attrs.mode = "linear";
  if (mode == "cubic" || mode == "bicubic") attrs.mode = "cubic";
  if (padding == "border") attrs.padding = Padding::kBorder;
  if (padding == "reflection") attrs.padding = Padding::kReflection;
  if (attrs.mode.empty() || (attrs.padding == Padding::kZeros && padding != "zeros")) {
    return Status::Error(Code::kUnsupported, "mode \"%.30s\", padding_mode \"%.30s\"", mode.c_str(),
                         padding.c_str());
  }
  return attrs;
}

// Samples along one axis. All places have one shape and are f32.
class AxisSampler {
 public:
  AxisSampler(Builder& b, const SampleAttrs& attrs, int64_t extent, DType index)
      : b_(b), attrs_(attrs), extent_(extent), last_(static_cast<double>(extent - 1)), index_(index) {}

  // The taps for grid values in [-1, 1] along an axis.
  std::vector<AxisTap> Taps(NodeId grid) {
    NodeId x = Unnormalise(grid);
    if (attrs_.mode != "cubic") x = Within(x);
    if (attrs_.mode == "nearest") return {TapAt(b_, b_.Unary(TapeOp::kRound, x), extent_, index_, kNoNode)};
    if (attrs_.mode == "linear") return LinearTaps(b_, x, extent_, index_);
    const NodeId floor = b_.Unary(TapeOp::kFloor, x), t = b_.Sub(x, floor);
    std::vector<AxisTap> taps;
    for (int k = -1; k <= 2; ++k)
      taps.push_back(TapAt(b_, Within(Plus(floor, k)), extent_, index_, CubicWeight(t, k)));
    return taps;
  }

 private:
  NodeId Plus(NodeId x, double v) { return v == 0 ? x : b_.BinaryScalar(TapeOp::kAdd, x, v); }

  NodeId Unnormalise(NodeId grid) {
    NodeId up = Plus(grid, 1);
    if (attrs_.align_corners) return b_.BinaryScalar(TapeOp::kMul, up, last_ / 2);
    return b_.BinaryScalar(TapeOp::kMul, Plus(b_.BinaryScalar(TapeOp::kMul, up, last_ + 1), -1), 0.5);
  }

  // Maps places outside the axis into it, for padding other than zeros.
  NodeId Within(NodeId x) {
    if (attrs_.padding == Padding::kZeros) return x;
    if (attrs_.padding == Padding::kReflection) x = Reflect(x);
    return Clamp(b_, x, 0, last_);
  }

  // Mirrors places at the centres of the outer elements if corners are aligned, otherwise at their outer
  // edges.
  NodeId Reflect(NodeId x) {
    double low = attrs_.align_corners ? 0 : -0.5, span = attrs_.align_corners ? last_ : last_ + 1;
    if (span <= 0) return b_.BinaryScalar(TapeOp::kMul, x, 0);
    NodeId way = b_.Unary(TapeOp::kAbs, Plus(x, -low));
    NodeId turn = b_.Binary(TapeOp::kFmod, way, b_.Scalar(DType::kF32, 2 * span));
    NodeId back = b_.Sub(b_.Scalar(DType::kF32, 2 * span), turn);
    return Plus(b_.Binary(TapeOp::kMin, turn, back), low);
  }

  // Keys' convolution kernel with a = -0.75 at distance |t - k|.
  NodeId CubicWeight(NodeId t, int k) {
    constexpr double kA = -0.75;
    NodeId d = b_.Unary(TapeOp::kAbs, Plus(t, -k));
    auto times_plus = [&](NodeId x, double v) { return Plus(b_.Mul(x, d), v); };
    if (k == 0 || k == 1) {
      NodeId p = Plus(b_.BinaryScalar(TapeOp::kMul, d, kA + 2), -(kA + 3));
      return times_plus(b_.Mul(p, d), 1);
    }
    NodeId p = Plus(b_.BinaryScalar(TapeOp::kMul, d, kA), -5 * kA);
    return times_plus(times_plus(p, 8 * kA), -4 * kA);
  }

  Builder& b_;
  const SampleAttrs& attrs_;
  int64_t extent_;
  double last_;
  DType index_;  // of taps
};

// x [n, c, spatial...], grid [n, out..., axes]. The grid's last dim lists the axes from the innermost
// outwards.
Status GridSample(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 5));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
  RONDO_ASSIGN_OR_RETURN(SampleAttrs attrs, ReadSample(c));
  const Shape x = c.shape(0), grid = c.shape(1);
  int axes = x.rank - 2;
  if (grid.rank != x.rank || grid[0] != x[0] || grid[grid.rank - 1] != axes) {
    return Status::Error(Code::kCorrupt, "a grid of shape %s for an input of shape %s", Text(grid).c_str(),
                         Text(x).c_str());
  }
  if (x.elements() == 0 || grid.elements() == 0) return Status::Error(Code::kUnsupported, "an empty tensor");
  Builder& b = c.b;
  std::vector<int64_t> dims = {x[0], x[1]};
  dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
  RONDO_ASSIGN_OR_RETURN(Shape out, c.MakeShape(dims));
  const NodeId places = b.Cast(c.In(1), DType::kF32), data = Widen(b, c.In(0));
  std::vector<std::vector<AxisTap>> taps;
  for (int a = 0; a < axes; ++a) {
    NodeId one = b.Squeeze(b.Slice(places, grid.rank - 1, axes - 1 - a, 1, 1), grid.rank - 1);
    taps.push_back(AxisSampler(b, attrs, x[a + 2], IndexType(x)).Taps(b.Unsqueeze(one, 1)));
  }

  // All channels read the same elements of their pictures.
  const ir::View dense = ir::DenseView(x);
  ir::ViewStep step;
  step.shape = out;
  step.strides[0] = dense.steps[0].strides[0];
  step.strides[1] = dense.steps[0].strides[1];
  const NodeId sum = SampledSum(b, data, ir::View{{step}}, out, taps, {x.begin() + 2, x.end()});
  return c.Give(b.Cast(sum, c.dtype(0)));
}

constexpr OpRow kOps[] = {{"GridSample", 2, GridSample, 16}};

}  // namespace

Span<const OpRow> SamplingOps() { return kOps; }

}  // namespace rondo::importer
