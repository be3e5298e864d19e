// Resize: each axis separately, as a weighted sum of a few elements at constant places.
#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/resize_by_sizes.h"

namespace rondo::importer {
namespace {

constexpr double kMostElements = 1 << 24;  // of one axis of the result

// One element of the result is sum(weight * input[index]) over its taps.
struct Tap {
  int64_t index = 0;
  double weight = 1;
};
using Taps = std::vector<Tap>;

struct ResizeAttrs {
  std::string mode, coordinates, nearest, policy;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

struct AxisResize {
  int64_t from = 1, to = 1;
  double scale = 1;           // to / from, or as given
  double start = 0, end = 1;  // of the region, for tf_crop_and_resize
};

// The coordinate of the result's element i among the elements of the input.
double Coordinate(const ResizeAttrs& attrs, const AxisResize& a, int64_t i) {
  double n = static_cast<double>(a.from), m = static_cast<double>(a.to), x = static_cast<double>(i);
  // Multiplying by the exact ratio keeps integer coordinates exact.
  bool exact = std::abs(a.scale * n - m) < 1e-6 * m;
  auto unscaled = [&](double v) { return exact ? v * n / m : v / a.scale; };
  if (attrs.coordinates == "asymmetric") return unscaled(x);
  if (attrs.coordinates == "align_corners") return a.to == 1 ? 0 : x * (n - 1) / (m - 1);
  if (attrs.coordinates == "pytorch_half_pixel" && a.to == 1) return 0;
  if (attrs.coordinates == "tf_crop_and_resize") {
    if (a.to == 1) return 0.5 * (a.start + a.end) * (n - 1);
    return a.start * (n - 1) + x * (a.end - a.start) * (n - 1) / (m - 1);
  }
  double offset = 0;
  if (attrs.coordinates == "half_pixel_symmetric") {
    double adjustment = m / (a.scale * n);
    offset = n / 2 * (1 - adjustment);
  }
  return offset + unscaled(x + 0.5) - 0.5;
}

int64_t NearestIndex(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));  // round_prefer_floor
}

double Kernel(const ResizeAttrs& attrs, double x) {
  x = std::abs(x);
  if (attrs.mode == "linear") return std::max(0.0, 1 - x);
  double a = attrs.cubic_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The taps of one element. Antialiasing widens the kernel by the shrink factor.
Taps TapsAt(const ResizeAttrs& attrs, const AxisResize& a, double x) {
  if (attrs.mode == "nearest") {
    return {{std::clamp<int64_t>(NearestIndex(attrs.nearest, x), 0, a.from - 1), 1}};
  }
  double shrink = attrs.antialias ? std::min(a.scale, 1.0) : 1;
  double radius = (attrs.mode == "linear" ? 1 : 2) / shrink;
  int64_t base = static_cast<int64_t>(std::floor(x));
  int64_t first = static_cast<int64_t>(std::floor(-radius)) + 1, last = 1 - first;
  Taps taps;
  double sum = 0;
  for (int64_t i = first; i <= last; ++i) {
    double weight = Kernel(attrs, (static_cast<double>(base + i) - x) * shrink);
    bool outside = base + i < 0 || base + i >= a.from;
    if (attrs.exclude_outside && outside) weight = 0;
    sum += weight;
    if (weight != 0) taps.push_back({std::clamp<int64_t>(base + i, 0, a.from - 1), weight});
  }
  for (Tap& tap : taps) tap.weight /= sum;
  if (taps.empty()) taps.push_back({std::clamp<int64_t>(base, 0, a.from - 1), 1});
  return taps;
}

// Few taps become a sum of gathered elements; many become a matmul with a constant matrix. Floats of 16 bits
// are widened where they are multiplied, so that no wider copy of the input is gathered from.
NodeId ApplyTaps(Builder& b, NodeId x, int axis, const std::vector<Taps>& taps) {
  size_t most = 0;
  bool plain = true;
  for (const Taps& t : taps) {
    most = std::max(most, t.size());
    plain &= t.size() == 1 && t[0].weight == 1;
  }
  Shape shape = b.shape(x);
  int64_t to = static_cast<int64_t>(taps.size());
  constexpr size_t kFewTaps = 4;
  if (plain || most <= kFewTaps) {
    NodeId sum = kNoNode;
    for (size_t k = 0; k < most; ++k) {
      std::vector<int64_t> index;
      std::vector<double> weight;
      for (const Taps& t : taps) {
        index.push_back(t[std::min(k, t.size() - 1)].index);
        weight.push_back(k < t.size() ? t[k].weight : 0);
      }
      NodeId taken = Take(b, x, axis, index);
      if (plain) return taken;
      taken = Widen(b, taken);
      NodeId part = b.Mul(taken, AlongAxis(b, b.Floats(b.dtype(taken), {to}, weight), axis, shape.rank));
      sum = sum == kNoNode ? part : b.Add(sum, part);
    }
    return sum;
  }
  x = Widen(b, x);
  std::vector<double> matrix(static_cast<size_t>(shape[axis] * to), 0);
  for (int64_t i = 0; i < to; ++i) {
    for (const Tap& t : taps[static_cast<size_t>(i)])
      matrix[static_cast<size_t>(t.index * to + i)] += t.weight;
  }
  std::vector<int> swap = AxisRange(0, shape.rank);
  std::swap(swap[static_cast<size_t>(axis)], swap.back());
  NodeId rows = b.Transpose(x, swap);
  return b.Transpose(b.MatMul(rows, b.Floats(b.dtype(x), {shape[axis], to}, matrix)), swap);
}

Result<ResizeAttrs> ReadResize(OpContext& c) {
  ResizeAttrs attrs;
  attrs.mode = c.String("mode", "nearest");
  if (attrs.mode == "bilinear") attrs.mode = "linear";  // of Upsample in opsets that have no "linear"
  // Resize of opset 10, and Upsample, have only these modes.
  const bool older = c.opset < 11;
  attrs.coordinates = c.String("coordinate_transformation_mode", older ? "asymmetric" : "half_pixel");
  attrs.nearest = c.String("nearest_mode", older ? "floor" : "round_prefer_floor");
  attrs.policy = c.String("keep_aspect_ratio_policy", "stretch");
  attrs.cubic_a = c.Float("cubic_coeff_a", -0.75f);
  attrs.extrapolation = c.Float("extrapolation_value", 0);
  attrs.exclude_outside = c.Int("exclude_outside", 0) != 0;
  attrs.antialias = c.Int("antialias", 0) != 0;
  auto one_of = [](const std::string& s, std::initializer_list<const char*> list) {
    return std::any_of(list.begin(), list.end(), [&](const char* l) { return s == l; });
  };
  if (!one_of(attrs.mode, {"nearest", "linear", "cubic"}) ||
      !one_of(attrs.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                  "asymmetric", "tf_crop_and_resize"}) ||
      !one_of(attrs.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})) {
    return Status::Error(Code::kUnsupported, "mode \"%.30s\", coordinates \"%.30s\", nearest_mode \"%.30s\"",
                         attrs.mode.c_str(), attrs.coordinates.c_str(), attrs.nearest.c_str());
  }
  return attrs;
}

// Sizes may have to keep the aspect ratio: one scale for all axes, so that the result fits inside or around
// them.
void KeepAspect(const std::string& policy, const std::vector<int>& axes, std::vector<AxisResize>* all) {
  if (policy == "stretch") return;
  double scale = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const AxisResize& a = (*all)[static_cast<size_t>(axes[i])];
    double own = static_cast<double>(a.to) / static_cast<double>(a.from);
    scale = i == 0 ? own : policy == "not_larger" ? std::min(scale, own) : std::max(scale, own);
  }
  for (int axis : axes) {
    AxisResize& a = (*all)[static_cast<size_t>(axis)];
    a.scale = scale;
    a.to = static_cast<int64_t>(std::floor(scale * static_cast<double>(a.from) + 0.5));
  }
}

// The axes that scales or sizes refer to, in order.
Result<std::vector<int>> AxesOf(OpContext& c) {
  std::vector<int> axes = AxisRange(0, c.rank(0));
  if (c.HasAttribute("axes")) {
    axes.clear();
    RONDO_RETURN_IF_ERROR(c.Axes(c.Ints("axes"), c.rank(0)).status());
    for (int64_t a : c.Ints("axes")) axes.push_back(static_cast<int>(a < 0 ? a + c.rank(0) : a));
  }
  return axes;
}

Result<std::vector<AxisResize>> ReadAxes(OpContext& c, const ResizeAttrs& attrs) {
  int rank = c.rank(0);
  std::vector<AxisResize> all(static_cast<size_t>(rank));
  for (int d = 0; d < rank; ++d)
    all[static_cast<size_t>(d)].from = all[static_cast<size_t>(d)].to = c.shape(0)[d];
  RONDO_ASSIGN_OR_RETURN(const std::vector<int> axes, AxesOf(c));
  const int scales = c.opset < 11 ? 1 : 2;  // older forms have no roi input
  bool sized = c.Has(3) && c.shape(3).elements() != 0;
  bool scaled = !sized && c.Has(scales) && c.shape(scales).elements() != 0;
  std::vector<double> given;
  if (sized || scaled) {
    RONDO_ASSIGN_OR_RETURN(given, c.ConstantFloats(sized ? 3 : scales));
  } else if (c.opset < 9 && c.HasAttribute("scales")) {
    const std::vector<float> listed = c.Floats("scales");
    given.assign(listed.begin(), listed.end());
  } else {
    return Status::Error(Code::kCorrupt, "neither scales nor sizes are given");
  }
  if (given.size() != axes.size()) {
    return Status::Error(Code::kCorrupt, "%zu scales or sizes for %zu axes", given.size(), axes.size());
  }
  std::vector<double> roi;
  if (attrs.coordinates == "tf_crop_and_resize") {
    RONDO_ASSIGN_OR_RETURN(roi, c.ConstantFloats(1));
    if (roi.size() != 2 * axes.size())
      return Status::Error(Code::kCorrupt, "roi has %zu entries", roi.size());
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisResize& a = all[static_cast<size_t>(axes[i])];
    double to = sized ? given[i] : std::floor(given[i] * static_cast<double>(a.from));
    if (!(to >= 1 && to <= kMostElements) || a.from < 1) {
      return Status::Error(Code::kCorrupt, "axis %d of %lld elements becomes %g", axes[i],
                           static_cast<long long>(a.from), to);
    }
    a.to = static_cast<int64_t>(to);
    a.scale = sized ? to / static_cast<double>(a.from) : given[i];
    if (!roi.empty()) {
      a.start = roi[i];
      a.end = roi[i + axes.size()];
    }
  }
  if (sized) KeepAspect(attrs.policy, axes, &all);
  for (const AxisResize& a : all) {
    if (a.to < 0 || static_cast<double>(a.to) > std::max(kMostElements, static_cast<double>(a.from))) {
      return Status::Error(Code::kUnsupported, "an axis of %lld elements", static_cast<long long>(a.to));
    }
  }
  std::vector<int64_t> dims;
  for (const AxisResize& a : all) dims.push_back(a.to);
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  return all;
}

// floor(scale * from) for a scale with a small denominator.
std::optional<ir::Size> Scaled(const ir::Size& from, double scale) {
  for (int64_t over = 1; over <= 64; ++over) {
    const double by = scale * static_cast<double>(over);
    if (std::abs(by - std::round(by)) > 1e-6 || by < 0.5) continue;
    return FloorDiv(from * static_cast<int64_t>(std::round(by)), over);
  }
  return std::nullopt;
}

// The axes that change size, if sizes are symbolic; none if all sizes are known.
Result<std::vector<ResizedAxis>> AxesBySizes(OpContext& c) {
  std::vector<ResizedAxis> out;
  const int scales = c.opset < 11 ? 1 : 2;
  const ir::Dims own = c.SizesOf(0);
  const bool sized = c.Has(3) && c.shape(3).elements() != 0;
  const auto known = [](const ir::Size& size) { return size.known(); };
  if (std::all_of(own.begin(), own.end(), known) && (!sized || !c.DataDecide(3))) return out;
  if (!sized && !c.Has(scales)) return out;
  RONDO_ASSIGN_OR_RETURN(const std::vector<int> axes, AxesOf(c));
  ir::Dims to;
  std::vector<double> by;
  if (sized) {
    RONDO_ASSIGN_OR_RETURN(to, c.Sizes(3));
  } else {
    RONDO_ASSIGN_OR_RETURN(by, c.ConstantFloats(scales));
  }
  if (std::max(to.size(), by.size()) != axes.size())
    return Status::Error(Code::kCorrupt, "%zu scales or sizes for %zu axes", std::max(to.size(), by.size()),
                         axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis a{axes[i], own[static_cast<size_t>(axes[i])], 1, {}};
    if (sized) {
      a.to = to[i];
    } else {
      const std::optional<ir::Size> scaled = Scaled(a.from, by[i]);
      if (!scaled)
        return Status::Error(Code::kUnsupported, "a length of %s times %g", a.from.Text().c_str(), by[i]);
      a.to = *scaled;
      a.scale = by[i];
    }
    if (!(a.from == a.to)) out.push_back(std::move(a));
  }
  return out;
}

Status ResizeByRun(OpContext& c, const ResizeAttrs& attrs, const std::vector<ResizedAxis>& axes) {
  if (attrs.mode == "cubic" || attrs.antialias || attrs.exclude_outside ||
      attrs.coordinates == "tf_crop_and_resize" || attrs.policy != "stretch")
    return Status::Error(Code::kUnsupported,
                         "a run decides its sizes: rondo knows that of modes nearest and linear, without "
                         "antialias, exclude_outside, a region or an aspect ratio to keep");
  Builder& b = c.b;
  const bool linear = attrs.mode == "linear";
  if (linear && !IsFloat(c.dtype(0)))
    return Status::Error(Code::kUnsupported, "a run decides its sizes, and it interpolates integers");
  NodeId x = linear ? Widen(b, c.In(0)) : c.In(0);
  for (const ResizedAxis& axis : axes)
    x = ResizeBySizes(b, x, axis, {linear, attrs.coordinates, attrs.nearest});
  return c.Give(b.Cast(x, c.dtype(0)));
}

Status Resize(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(ResizeAttrs attrs, ReadResize(c));
  RONDO_ASSIGN_OR_RETURN(const std::vector<ResizedAxis> by_run, AxesBySizes(c));
  if (!by_run.empty()) return ResizeByRun(c, attrs, by_run);
  RONDO_ASSIGN_OR_RETURN(std::vector<AxisResize> axes, ReadAxes(c, attrs));
  if (c.dtype(0) == DType::kBool && attrs.mode != "nearest")
    return Status::Error(Code::kCorrupt, "input 0 has type bool");
  bool crop = attrs.coordinates == "tf_crop_and_resize";
  Builder& b = c.b;
  // Weighted sums of integers are truncated, as in ONNX Runtime; a sum that is an integer up to rounding
  // stays that integer.
  const bool whole = attrs.mode != "nearest" && !IsFloat(c.dtype(0));
  NodeId x = whole ? b.Cast(c.In(0), DType::kF64) : c.In(0);
  int rank = c.rank(0);
  for (int d = 0; d < rank; ++d) {
    const AxisResize& a = axes[static_cast<size_t>(d)];
    if (a.from == a.to && a.scale == 1 && !(crop && (a.start != 0 || a.end != 1))) continue;
    std::vector<Taps> taps;
    std::vector<int64_t> outside;
    bool any_outside = false;
    for (int64_t i = 0; i < a.to; ++i) {
      double at = Coordinate(attrs, a, i);
      if (!(std::abs(at) < 1e15)) return Status::Error(Code::kCorrupt, "a coordinate of %g", at);
      outside.push_back(crop && (at < 0 || at > static_cast<double>(a.from - 1)) ? 1 : 0);
      any_outside |= outside.back() != 0;
      taps.push_back(TapsAt(attrs, a, at));
    }
    x = ApplyTaps(b, x, d, taps);
    if (any_outside) {
      NodeId absent = AlongAxis(b, b.Ints(DType::kBool, {a.to}, outside), d, rank);
      x = b.Select(absent, b.Scalar(b.dtype(x), attrs.extrapolation), x);
    }
  }
  if (whole) x = b.Add(x, b.BinaryScalar(TapeOp::kMul, b.Unary(TapeOp::kSign, x), 0x1p-20));
  return c.Give(b.Cast(x, c.dtype(0)));
}

constexpr OpRow kOps[] = {{"Resize", 1, Resize, 10}, {"Upsample", 1, Resize, 7, 9}};

}  // namespace

Span<const OpRow> ResizeOps() { return kOps; }

}  // namespace rondo::importer
