// Movement operators. Each becomes a view and never a copy (concatenation is kConcat).
#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/import/data_sizes.h"
#include "compiler/import/decompose.h"
#include "compiler/import/random.h"
#include "compiler/import/registry.h"
#include "compiler/import/sizes_of_data.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

ir::Size ElementsOf(const ir::Dims& dims) {
  ir::Size elements = 1;
  for (const ir::Size& dim : dims) elements = elements * dim;
  return elements;
}

Status Reshape(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(ir::Dims dims, c.Sizes(1));
  bool allow_zero = c.Int("allowzero", 0) != 0;
  const ir::Dims from = c.SizesOf(0);
  ir::Size known = 1;
  int open = -1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && !allow_zero) {
      if (d >= from.size()) {
        return Status::Error(Code::kCorrupt, "dim %zu is to be copied from shape %s", d,
                             Text(c.shape(0)).c_str());
      }
      dims[d] = from[d];
    }
    if (dims[d] == -1) {
      if (open >= 0) return Status::Error(Code::kCorrupt, "two dims of the target shape are -1");
      open = static_cast<int>(d);
    } else {
      known = known * dims[d];
    }
  }
  const ir::Size elements = ElementsOf(from);
  if (open >= 0) {
    const std::optional<ir::Size> rest =
        elements.unknown() ? std::nullopt : ir::Size::Divide(elements, known);
    if (known.extent() == 0 || elements.extent() % known.extent() != 0 || (!rest && !elements.unknown())) {
      return Status::Error(Code::kCorrupt, "shape %s does not divide by the target's known dims (%s)",
                           Text(c.shape(0)).c_str(), known.Text().c_str());
    }
    dims[static_cast<size_t>(open)] = rest.value_or(ir::Size::Unknown(elements.extent() / known.extent()));
  }
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.ExtentsOf(dims));
  const ir::Size made = ElementsOf(dims);
  if (!(made == elements || (elements.unknown() && made.extent() == elements.extent()))) {
    return Status::Error(Code::kCorrupt, "shape %s cannot become %s", Text(c.shape(0)).c_str(),
                         Text(shape).c_str());
  }
  return c.Give(c.b.WithSizes(c.b.Reshape(c.In(0), shape), dims));
}

Status Flatten(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 1), c.rank(0) + (c.Int("axis", 1) >= 0 ? 1 : 0)));
  const ir::Dims dims = c.SizesOf(0);
  return c.Give(c.b.ReshapeTo(c.In(0), {ElementsOf({dims.begin(), dims.begin() + axis}),
                                        ElementsOf({dims.begin() + axis, dims.end()})}));
}

Status Squeeze(OpContext& c) {
  bool given = false;
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> list, c.IntsFrom(1, "axes", &given));
  const Shape& from = c.shape(0);
  RONDO_ASSIGN_OR_RETURN(std::vector<int> axes, c.Axes(list, from.rank));
  ir::Dims to;
  for (int d = 0; d < from.rank; ++d) {
    bool named = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (named && from[d] != 1) {
      return Status::Error(Code::kCorrupt, "axis %d of shape %s is not 1", d, Text(from).c_str());
    }
    if (!(given ? named : from[d] == 1)) to.push_back(c.SizeOf(0, d));
  }
  return c.Give(c.b.ReshapeTo(c.In(0), to));
}

Status Unsqueeze(OpContext& c) {
  bool given = false;
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> list, c.IntsFrom(1, "axes", &given));
  int rank = c.rank(0) + static_cast<int>(std::min<size_t>(list.size(), 1000));
  RONDO_ASSIGN_OR_RETURN(std::vector<int> axes, c.Axes(list, rank));
  ir::Dims dims(static_cast<size_t>(rank), 0);
  for (int axis : axes) dims[static_cast<size_t>(axis)] = 1;
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end())
      dims[static_cast<size_t>(d)] = c.SizeOf(0, next++);
  }
  RONDO_RETURN_IF_ERROR(c.ExtentsOf(dims).status());
  return c.Give(c.b.ReshapeTo(c.In(0), dims));
}

Status Transpose(OpContext& c) {
  std::vector<int> perm(static_cast<size_t>(c.rank(0)));
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (c.HasAttribute("perm")) {
    std::vector<int64_t> given = c.Ints("perm");
    RONDO_RETURN_IF_ERROR(c.Axes(given, c.rank(0)).status());
    if (given.size() != perm.size()) {
      return Status::Error(Code::kCorrupt, "perm has %zu entries for %d dimensions", given.size(), c.rank(0));
    }
    for (size_t d = 0; d < perm.size(); ++d) {
      perm[d] = static_cast<int>(given[d] < 0 ? given[d] + c.rank(0) : given[d]);
    }
  }
  return c.Give(c.b.Transpose(c.In(0), perm));
}

Status Expand(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(ir::Dims dims, c.Sizes(1));
  RONDO_ASSIGN_OR_RETURN(const Shape target, c.ExtentsOf(dims));
  RONDO_ASSIGN_OR_RETURN(const Shape shape, c.Broadcast(c.shape(0), target));
  dims.insert(dims.begin(), static_cast<size_t>(shape.rank - target.rank), 1);
  for (int d = 0; d < c.rank(0); ++d) {
    ir::Size& dim = dims[static_cast<size_t>(d + shape.rank - c.rank(0))];
    const ir::Size own = c.SizeOf(0, d);
    if (!(own == 1)) dim = dim == 1 || dim.known() || own == dim ? own : ir::Size::Unknown(own.extent());
  }
  return c.Give(c.b.WithSizes(c.b.Expand(c.In(0), shape), dims));
}

Status Tile(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const ir::Dims repeats, c.Sizes(1));
  if (repeats.size() != static_cast<size_t>(c.rank(0))) {
    return Status::Error(Code::kCorrupt, "%zu repeats for %d dimensions", repeats.size(), c.rank(0));
  }
  ir::Dims dims = c.SizesOf(0);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (repeats[d].extent() < 0) {
      return Status::Error(Code::kCorrupt, "axis %zu is repeated %lld times", d,
                           static_cast<long long>(repeats[d].extent()));
    }
    dims[d] = dims[d] * repeats[d];
  }
  RONDO_RETURN_IF_ERROR(c.ExtentsOf(dims).status());
  NodeId x = c.In(0);
  for (int d = 0; d < c.rank(0); ++d) {
    const ir::Size& times = repeats[static_cast<size_t>(d)];
    if (times == 1) continue;
    if (!times.known() && c.shape(0)[d] != 1)
      return Status::Error(Code::kUnsupported, "axis %d is repeated %s times", d, times.Text().c_str());
    ir::Dims tiled = c.b.SizesOf(x);
    tiled[static_cast<size_t>(d)] = dims[static_cast<size_t>(d)];
    x = c.b.WithSizes(TileAxis(c.b, x, d, times.extent()), tiled);
  }
  return c.Give(x);
}

// The elements of a dim of `n` that numpy's start:end:step selects: the first one's index, and their number.
struct Shown {
  ir::Size first, count;
};
std::optional<Shown> ResolveSlice(const ir::Size& n, ir::Size start, ir::Size end, int64_t step) {
  for (ir::Size* place : {&start, &end}) {
    if (place->most() < 0) {
      *place = Max(*place + n, -1);
    } else if (place->least() < 0) {
      return std::nullopt;
    }
  }
  if (step < 0) {
    start = Min(start, n - 1);
    return Shown{start, FloorDiv(Max(start - Min(end, n - 1), 0) + (-step - 1), -step)};
  }
  start = Max(start, 0);
  return Shown{start, FloorDiv(Max(Min(Max(end, 0), n) - Min(start, n), 0) + (step - 1), step)};
}

// A slice along one axis of known length whose ends are decided by data.
Status SliceByData(OpContext& c) {
  int64_t axis = 0, step = 1;
  for (int i : {3, 4}) {
    if (!c.Has(i)) continue;
    RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> given, c.ConstantInts(i));
    if (given.size() != 1 || (i == 4 && given[0] == 0))
      return Status::Error(Code::kCorrupt, "one start, and %zu axes or steps, or a step of 0", given.size());
    (i == 3 ? axis : step) = given[0];
  }
  RONDO_ASSIGN_OR_RETURN(const int own, c.Axis(axis, c.rank(0)));
  if (!c.SizeOf(0, own).known() || c.shape(0).elements() == 0) return c.ConstantInts(1).status();
  return DataSizedSlice(c, own, step);
}

// A slice along any axis: the number of elements and the first of them are computed at run time.
NodeId SliceAxis(OpContext& c, NodeId x, int axis, NodeId start, NodeId end, int64_t step) {
  Builder& b = c.b;
  const ir::Size n = b.SizeOf(x, axis);
  const NodeId length = b.Number(n), zero = b.Scalar(DType::kI64, 0), one = b.Scalar(DType::kI64, 1);
  // A negative end counts from the end of the axis. Ends are clamped to the axis (-1 is before its first
  // element).
  const auto place = [&](NodeId given, NodeId least, NodeId most) {
    const NodeId wrapped = b.Select(b.Binary(TapeOp::kLess, given, zero), b.Add(given, length), given);
    return b.Binary(TapeOp::kMin, b.Binary(TapeOp::kMax, wrapped, least), most);
  };
  const bool forward = step > 0;
  const NodeId least = forward ? zero : b.Sub(zero, one), most = forward ? length : b.Sub(length, one);
  const NodeId first = place(start, least, most), behind = place(end, least, most);
  const NodeId span = b.Binary(TapeOp::kMax, forward ? b.Sub(behind, first) : b.Sub(first, behind), zero);
  const int64_t stride = std::min(forward ? step : -(step + 1) + 1, n.most());
  NodeId number = b.BinaryScalar(TapeOp::kAdd, span, static_cast<double>(stride - 1));
  number = b.BinaryScalar(TapeOp::kDiv, number, static_cast<double>(stride));
  const ir::Size count =
      c.host.NameSizes()->Name(b, number, 0, (n.most() + stride - 1) / stride,
                               c.proto.name().empty() ? c.proto.output(0) : c.proto.name());
  const auto by = static_cast<double>(forward ? stride : -stride);
  const NodeId at = b.Add(b.BinaryScalar(TapeOp::kMul, b.IotaOver({count}, 0), by), first);
  const NodeId last = b.Sub(length, one);
  return b.Gather(x, b.Binary(TapeOp::kMax, b.Binary(TapeOp::kMin, at, last), zero), axis, false);
}

Status SliceAxes(OpContext& c) {
  const int64_t count = c.shape(1).elements();
  std::vector<int64_t> axes(static_cast<size_t>(count)), steps(axes.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.Has(3)) {
    RONDO_ASSIGN_OR_RETURN(axes, c.ConstantInts(3));
  }
  if (c.Has(4)) {
    RONDO_ASSIGN_OR_RETURN(steps, c.ConstantInts(4));
  }
  const bool fit = c.shape(2).elements() == count && std::ssize(axes) == count && std::ssize(steps) == count;
  if (!fit || std::find(steps.begin(), steps.end(), 0) != steps.end())
    return Status::Error(Code::kCorrupt, "starts, ends, axes and steps of different lengths, or a step of 0");
  RONDO_RETURN_IF_ERROR(c.Axes(axes, c.rank(0)).status());
  NodeId x = c.In(0);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(axes[at], c.rank(0)));
    if (c.shape(0)[axis] == 0) return c.ConstantInts(1).status();
    const NodeId start = ElementOf(c.b, c.In(1), i), end = ElementOf(c.b, c.In(2), i);
    const auto size = [&](NodeId number) {
      return c.b.Numbers(number).value_or(ir::Dims{ir::Size::Unknown(0)})[0];
    };
    std::optional<Shown> shown;
    if (!size(start).unknown() && !size(end).unknown())
      shown = ResolveSlice(c.b.SizeOf(x, axis), size(start), size(end), steps[at]);
    x = shown && shown->count.extent() > 0
            ? SliceOf(c.b, x, axis, shown->first, shown->count == 1 ? 1 : steps[at], shown->count)
            : SliceAxis(c, x, axis, start, end, steps[at]);
  }
  return c.Give(x);
}

Status Slice(OpContext& c) {
  if (c.DataDecide(1) || c.DataDecide(2)) {
    if (c.host.NameSizes() != nullptr) return SliceAxes(c);
    if (c.shape(1) == Shape{1} && c.shape(2) == Shape{1}) return SliceByData(c);
  }
  RONDO_ASSIGN_OR_RETURN(const ir::Dims starts, c.Sizes(1));
  RONDO_ASSIGN_OR_RETURN(const ir::Dims ends, c.Sizes(2));
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.Has(3)) {
    RONDO_ASSIGN_OR_RETURN(axes, c.ConstantInts(3));
  }
  if (c.Has(4)) {
    RONDO_ASSIGN_OR_RETURN(steps, c.ConstantInts(4));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return Status::Error(Code::kCorrupt, "starts, ends, axes and steps have different lengths");
  }
  RONDO_RETURN_IF_ERROR(c.Axes(axes, c.rank(0)).status());
  NodeId x = c.In(0);
  Shape shape = c.shape(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(axes[i], c.rank(0)));
    const int64_t n = c.shape(0)[axis];
    if (steps[i] == 0) return Status::Error(Code::kCorrupt, "a step of 0 on axis %d", axis);
    // A step beyond the axis selects at most one element; it is clamped so that nothing overflows.
    const int64_t step = std::min(std::max(steps[i], -n - 1), n + 1);
    const std::optional<Shown> shown = ResolveSlice(c.SizeOf(0, axis), starts[i], ends[i], step);
    if (!shown || shown->count.unknown())
      return Status::Error(Code::kUnsupported, "elements %s to %s of axis %d", starts[i].Text().c_str(),
                           ends[i].Text().c_str(), axis);
    shape.dims[axis] = shown->count.extent();
    if (shape[axis] != 0) x = SliceOf(c.b, x, axis, shown->first, shown->count == 1 ? 1 : step, shown->count);
  }
  const bool empty = shape.elements() == 0;
  return c.Give(empty ? c.b.Constant(ir::ConstantData::Own(c.dtype(0), shape, {})) : x);
}

// The lengths of the pieces: given, or as equal as possible, with the last one smaller.
Result<ir::Dims> SplitLengths(OpContext& c, const ir::Size& n) {
  ir::Dims lengths;
  if (c.Has(1)) {
    RONDO_ASSIGN_OR_RETURN(lengths, c.Sizes(1));
  } else if (const std::vector<int64_t> given = c.Ints("split"); !given.empty()) {
    lengths = {given.begin(), given.end()};
  } else {
    int64_t pieces = c.Int("num_outputs", c.num_outputs());
    if (pieces < 1 || pieces != c.num_outputs()) {
      return Status::Error(Code::kCorrupt, "%lld pieces for %d outputs", static_cast<long long>(pieces),
                           c.num_outputs());
    }
    const ir::Size length = FloorDiv(n + pieces - 1, pieces);
    for (ir::Size left = n; pieces > 0; --pieces, left = left - lengths.back())
      lengths.push_back(Min(length, left));
  }
  ir::Size sum = 0;
  for (const ir::Size& length : lengths) {
    if (length.extent() < 0 || length.extent() > n.extent())
      return Status::Error(Code::kCorrupt, "a piece of length %s", length.Text().c_str());
    sum = sum + length;
  }
  if (!(sum == n) || lengths.size() != static_cast<size_t>(c.num_outputs())) {
    return Status::Error(Code::kCorrupt, "%zu pieces with a sum of %s for %d outputs of an axis of %s",
                         lengths.size(), sum.Text().c_str(), c.num_outputs(), n.Text().c_str());
  }
  return lengths;
}

Status Split(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  RONDO_ASSIGN_OR_RETURN(const ir::Dims lengths, SplitLengths(c, c.SizeOf(0, axis)));
  ir::Size start = 0;
  for (int i = 0; i < c.num_outputs(); ++i) {
    const ir::Size& length = lengths[static_cast<size_t>(i)];
    if (length == 0) {
      c.Set(i, c.b.Constant(ir::ConstantData::Own(c.dtype(0), WithDim(c.shape(0), axis, 0), {})));
    } else if (length == c.SizeOf(0, axis)) {
      c.Set(i, c.In(0));
    } else if (c.Wants(i)) {
      c.Set(i, SliceOf(c.b, c.In(0), axis, start, 1, length));
    }
    start = start + length;
  }
  return Status::Ok();
}

Status Concat(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  std::vector<NodeId> parts;
  int64_t total = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
    const Shape& shape = c.shape(i);
    // Older exporters concatenate caches that start empty as [0], whatever the rank.
    if (shape.rank == 1 && shape[0] == 0 && c.rank(0) != 1) continue;
    if (shape.rank != c.rank(0) || !(WithDim(shape, axis, 0) == WithDim(c.shape(0), axis, 0))) {
      return Status::Error(Code::kCorrupt, "shapes %s and %s cannot be joined along axis %d",
                           Text(c.shape(0)).c_str(), Text(shape).c_str(), axis);
    }
    total += shape[axis];
    if (shape[axis] != 0) parts.push_back(c.In(i));
  }
  RONDO_RETURN_IF_ERROR(c.MakeShape({total}).status());
  if (parts.empty()) {
    c.Set(0, c.In(0));
  } else {
    c.Set(0, parts.size() == 1 ? parts[0] : c.b.Concat(parts, axis));
  }
  return Status::Ok();
}

// [n, c, h, w] with blocks of c moved to h and w.
Status DepthToSpace(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  const Shape s = c.shape(0);
  int64_t block = c.Int("blocksize", 0);
  if (block < 1 || block > 1 << 15 || s[1] % (block * block) != 0) {
    return Status::Error(Code::kCorrupt, "%lld channels in blocks of %lld", static_cast<long long>(s[1]),
                         static_cast<long long>(block));
  }
  int64_t depth = s[1] / (block * block);
  NodeId x = c.In(0);
  if (c.String("mode", "DCR") == "CRD") {
    x = c.b.Reshape(x, {s[0], depth, block, block, s[2], s[3]});
    x = c.b.Transpose(x, {0, 1, 4, 2, 5, 3});
  } else {
    x = c.b.Reshape(x, {s[0], block, block, depth, s[2], s[3]});
    x = c.b.Transpose(x, {0, 3, 4, 1, 5, 2});
  }
  return c.Give(c.b.Reshape(x, {s[0], depth, s[2] * block, s[3] * block}));
}

Status SpaceToDepth(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  const Shape s = c.shape(0);
  int64_t block = c.Int("blocksize", 0);
  if (block < 1 || block > 1 << 15 || s[2] % block != 0 || s[3] % block != 0 || s.elements() == 0) {
    return Status::Error(Code::kCorrupt, "shape %s in blocks of %lld", Text(s).c_str(),
                         static_cast<long long>(block));
  }
  NodeId x = c.b.Reshape(c.In(0), {s[0], s[1], s[2] / block, block, s[3] / block, block});
  const std::string mode = c.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return Status::Error(Code::kCorrupt, "mode \"%.20s\" is neither DCR nor CRD", mode.c_str());
  x = mode == "CRD" ? c.b.Transpose(x, {0, 1, 3, 5, 2, 4}) : c.b.Transpose(x, {0, 3, 5, 1, 2, 4});
  return c.Give(c.b.Reshape(x, {s[0], s[1] * block * block, s[2] / block, s[3] / block}));
}

Status Identity(OpContext& c) {
  c.SetValue(0, c.InValue(0));
  return Status::Ok();
}

// Training mode: elements are dropped at random, and the others are scaled up.
Status DropAtRandom(OpContext& c, double ratio) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  ir::Builder& b = c.b;
  if (!(ratio >= 0 && ratio < 1)) return Status::Error(Code::kCorrupt, "a ratio of %g", ratio);
  const NodeId kept = b.Binary(TapeOp::kLessEqual, b.Scalar(DType::kF32, ratio), RandomOfNode(c, c.shape(0)));
  const NodeId grown = b.BinaryScalar(TapeOp::kMul, c.In(0), 1 / (1 - ratio));
  c.Set(0, b.Select(kept, grown, b.Scalar(c.dtype(0), 0)));
  c.Set(1, kept);
  return Status::Ok();
}

// Inference mode: nothing is dropped.
Status Dropout(OpContext& c) {
  if (c.Has(2)) {
    auto training = c.ConstantInts(2);
    if (!training.ok()) return training.status();
    if (training->size() == 1 && (*training)[0] != 0) {
      double ratio = 0.5;
      if (c.Has(1)) {
        RONDO_ASSIGN_OR_RETURN(std::vector<double> ratios, c.ConstantFloats(1));
        if (ratios.size() == 1) ratio = ratios[0];
      }
      if (ratio != 0) return DropAtRandom(c, ratio);
    }
  }
  c.Set(0, c.In(0));
  if (c.Wants(1)) c.Set(1, c.b.Expand(c.b.Scalar(DType::kBool, 1), c.shape(0)));
  return Status::Ok();
}

Status ExpandDims(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> axis, c.ConstantInts(1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 0, kMaxRank - 1));
  if (axis.size() != 1) return Status::Error(Code::kCorrupt, "axis has %zu numbers", axis.size());
  RONDO_ASSIGN_OR_RETURN(const int at, c.Axis(axis[0], c.rank(0) + 1));
  return c.Give(c.b.Unsqueeze(c.In(0), at));
}

constexpr OpRow kOps[] = {
    {"Reshape", 2, Reshape},
    {"Flatten", 1, Flatten},
    {"Squeeze", 1, Squeeze},
    {"Unsqueeze", 1, Unsqueeze},
    {"Transpose", 1, Transpose},
    {"Expand", 2, Expand},
    {"Tile", 2, Tile},
    {"Slice", 3, Slice},
    {"Split", 1, Split},
    {"Concat", 1, Concat},
    {"DepthToSpace", 1, DepthToSpace},
    {"SpaceToDepth", 1, SpaceToDepth},
    {"Identity", 1, Identity, 1, kLatest, "", true},
    {"Dropout", 1, Dropout},
    {"ExpandDims", 2, ExpandDims, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> MovementOps() { return kOps; }

}  // namespace rondo::importer
