// Pad in its four modes.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// The element of an axis of n that is shown at position i, which may lie outside.
int64_t Reflect(int64_t i, int64_t n) {
  if (n == 1) return 0;
  int64_t period = 2 * (n - 1);
  int64_t r = ((i % period) + period) % period;
  return r < n ? r : period - r;
}
int64_t Wrap(int64_t i, int64_t n) { return ((i % n) + n) % n; }
int64_t Edge(int64_t i, int64_t n) { return std::min(std::max<int64_t>(i, 0), n - 1); }

// Elements added before and after each axis; negative: removed.
struct Pads {
  ir::Dims before, after;
};

Result<Pads> ReadPads(OpContext& c) {
  const int rank = c.rank(0);
  RONDO_ASSIGN_OR_RETURN(const ir::Dims given, c.Sizes(1));
  std::vector<int64_t> axes;
  for (int d = 0; d < rank; ++d) axes.push_back(d);
  if (c.Has(3)) {
    RONDO_ASSIGN_OR_RETURN(axes, c.ConstantInts(3));
  }
  RONDO_RETURN_IF_ERROR(c.Axes(axes, rank).status());
  if (given.size() != 2 * axes.size()) {
    return Status::Error(Code::kCorrupt, "%zu pads for %zu axes", given.size(), axes.size());
  }
  Pads pads{ir::Dims(static_cast<size_t>(rank), 0), ir::Dims(static_cast<size_t>(rank), 0)};
  constexpr int64_t kMost = int64_t{1} << 40;
  ir::Dims dims = c.SizesOf(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    const ir::Size &before = given[i], &after = given[i + axes.size()];
    const int64_t first = before.extent(), last = after.extent(), n = dims[axis].extent();
    // A symbolic pad must not be negative, and an axis of symbolic size must not lose elements.
    const bool follows = [&] {
      const auto added = [](const ir::Size& pad) { return pad.known() || pad.least() >= 0; };
      const bool takes = first < 0 || last < 0;
      return added(before) && added(after) && !(takes && !dims[axis].known());
    }();
    if (!follows || std::abs(first) > kMost || std::abs(last) > kMost ||
        std::max<int64_t>(-first, 0) + std::max<int64_t>(-last, 0) >= std::max<int64_t>(n, 1)) {
      return Status::Error(Code::kUnsupported, "axis %zu of %s elements is padded by %s and %s", axis,
                           dims[axis].Text().c_str(), before.Text().c_str(), after.Text().c_str());
    }
    pads.before[axis] = before;
    pads.after[axis] = after;
    dims[axis] = dims[axis] + before + after;
  }
  RONDO_RETURN_IF_ERROR(c.ExtentsOf(dims).status());
  return pads;
}

// Applies the negative pads and sets them to 0.
NodeId Crop(OpContext& c, NodeId x, Pads* pads) {
  for (int d = 0; d < c.b.shape(x).rank; ++d) {
    const auto i = static_cast<size_t>(d);
    const int64_t first = std::max<int64_t>(-pads->before[i].extent(), 0),
                  last = std::max<int64_t>(-pads->after[i].extent(), 0);
    if (first + last != 0) x = c.b.Slice(x, d, first, 1, c.b.shape(x)[d] - first - last);
    pads->before[i] = Max(pads->before[i], 0);
    pads->after[i] = Max(pads->after[i], 0);
  }
  return x;
}

// Pads x with `value` along axes whose sizes may be symbolic. Elements beyond the symbolic ends are `value`
// too, and the place at which x begins may be known only at run time.
NodeId Surround(Builder& b, NodeId x, NodeId value, const Pads& pads) {
  ir::Dims dims = b.SizesOf(x);
  ir::IndexedAttrs attrs;
  attrs.may_collide = false;
  std::vector<NodeId> index;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].known() && !(pads.after[d] == 0)) {
      ir::Dims line(dims.size(), 1);
      line[d] = dims[d];
      const NodeId place = b.IotaOver(line, static_cast<int>(d));
      x = b.Select(b.Binary(TapeOp::kLess, place, b.Number(dims[d])), x, value);
    }
    dims[d] = pads.before[d] + dims[d] + pads.after[d];
  }
  const Shape shape = ir::ExtentsOf(dims), inner = b.shape(x);
  attrs.map = ir::DenseView(shape);
  const ir::View dense = attrs.map;
  for (int d = 0; d < shape.rank; ++d) {
    const ir::Size& before = pads.before[static_cast<size_t>(d)];
    attrs.map = ir::Slice(attrs.map, d, before.value().value_or(0), 1, inner[d]);
    if (before.known()) continue;
    attrs.dims.push_back({dense.steps[0].strides[d], shape[d] - inner[d] + 1, false});
    index.push_back(b.Number(before));
  }
  return b.IndexedWrite(b.WithSizes(b.Expand(value, shape), dims), x, index, attrs);
}

// An axis, and the elements that its places show: some before its own, its own, and some after them.
struct PaddedAxis {
  int axis;
  std::vector<int64_t> before, own, after;
};

// x padded along `axes` from the one at `first` on. Each part of the first axis is padded along the others by
// itself, so that x itself is copied once, or made in its place.
NodeId PadFrom(Builder& b, NodeId x, const std::vector<PaddedAxis>& axes, size_t first) {
  if (first == axes.size()) return x;
  const PaddedAxis& a = axes[first];
  std::vector<NodeId> parts;
  for (const auto* shown : {&a.before, &a.own, &a.after})
    if (!shown->empty()) parts.push_back(PadFrom(b, Take(b, x, a.axis, *shown), axes, first + 1));
  return parts.size() == 1 ? parts[0] : b.Concat(parts, a.axis);
}

Status Pad(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(Pads pads, ReadPads(c));
  const auto none = [](const ir::Size& pad) { return pad == 0; };
  std::string mode = c.String("mode", "constant");
  if (mode == "constant") {
    NodeId value = c.b.Scalar(c.dtype(0), 0);
    if (c.Has(2)) {
      RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
      if (c.shape(2).elements() != 1)
        return Status::Error(Code::kCorrupt, "the value to pad with is not a scalar");
      RONDO_ASSIGN_OR_RETURN(std::vector<double> constant, c.ConstantFloats(2));
      value = c.b.Scalar(c.dtype(0), constant[0]);
    }
    const NodeId x = Crop(c, c.In(0), &pads);
    const bool any = !std::all_of(pads.before.begin(), pads.before.end(), none) ||
                     !std::all_of(pads.after.begin(), pads.after.end(), none);
    return c.Give(any ? Surround(c.b, x, value, pads) : x);
  }
  int64_t (*source)(int64_t, int64_t) = mode == "reflect" ? Reflect : mode == "wrap" ? Wrap : Edge;
  if (mode != "reflect" && mode != "wrap" && mode != "edge") {
    return Status::Error(Code::kUnsupported, "mode \"%.30s\"", mode.c_str());
  }
  std::vector<PaddedAxis> axes;
  for (int d = 0; d < c.rank(0); ++d) {
    const ir::Size &before = pads.before[static_cast<size_t>(d)], &after = pads.after[static_cast<size_t>(d)];
    if (none(before) && none(after)) continue;
    const int64_t n = c.shape(0)[d], first = before.extent(), last = after.extent();
    if (!before.known() || !after.known() || !c.SizeOf(0, d).known())
      return Status::Error(Code::kUnsupported,
                           "axis %d is padded with its own elements, and a run decides how", d);
    if (n == 0) return Status::Error(Code::kCorrupt, "axis %d has no elements to pad from", d);
    constexpr int64_t kMostListed = 1 << 24;
    if (n + first + last > kMostListed) {
      return Status::Error(Code::kUnsupported, "axis %d of more than %lld elements", d,
                           static_cast<long long>(kMostListed));
    }
    PaddedAxis axis{d, {}, {}, {}};
    for (int64_t i = -first; i < n + last; ++i)
      (i < 0 ? axis.before : i < n ? axis.own : axis.after).push_back(source(i, n));
    axes.push_back(std::move(axis));
  }
  return c.Give(PadFrom(c.b, c.In(0), axes, 0));
}

constexpr OpRow kOps[] = {{"Pad", 2, Pad}};

}  // namespace

Span<const OpRow> PadOps() { return kOps; }

}  // namespace rondo::importer
