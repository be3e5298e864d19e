// Reads and writes at computed indices.
#include <algorithm>
#include <limits>

#include "compiler/import/cached_attention.h"
#include "compiler/import/data_sizes.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

Status RequireIndex(const OpContext& c, int i) {
  if (c.dtype(i) == DType::kI64 || c.dtype(i) == DType::kI32) return Status::Ok();
  return Status::Error(Code::kCorrupt, "indices of type %s", Name(c.dtype(i)));
}

// A result of `shape` whose indices refer to an axis without elements, so that no index is valid.
Status SetUnreadable(OpContext& c, const Shape& shape, int axis) {
  if (c.b.faults_where() == kNoNode)
    return Status::Error(Code::kCorrupt, "axis %d has no elements, so no index is valid", axis);
  return c.Give(Unreadable(c.b, c.dtype(0), shape));
}

Status Gather(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireIndex(c, 1));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  std::vector<int64_t> dims(c.shape(0).begin(), c.shape(0).begin() + axis);
  dims.insert(dims.end(), c.shape(1).begin(), c.shape(1).end());
  dims.insert(dims.end(), c.shape(0).begin() + axis + 1, c.shape(0).end());
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.MakeShape(dims));
  if (shape.elements() == 0) {
    return c.Give(c.b.Constant(ir::ConstantData::Own(c.dtype(0), shape, {})));
  }
  if (c.shape(0)[axis] == 0) return SetUnreadable(c, shape, axis);
  return c.Give(c.b.Gather(c.In(0), c.In(1), axis));
}

// The strides of dense storage of `shape`.
std::vector<int64_t> Strides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank));
  int64_t run = 1;
  for (int d = shape.rank; d-- > 0;) {
    strides[static_cast<size_t>(d)] = run;
    run *= shape[d];
  }
  return strides;
}

// GatherElements and ScatterElements: element i of `index` keeps its own place except along `axis`.
Result<ir::IndexedAttrs> ElementsAttrs(OpContext& c, int axis) {
  const Shape &data = c.shape(0), &index = c.shape(1);
  std::vector<int64_t> strides = Strides(data);
  if (index.rank != data.rank) {
    return Status::Error(Code::kCorrupt, "indices of shape %s into %s", Text(index).c_str(),
                         Text(data).c_str());
  }
  ir::ViewStep step;
  step.shape = index;
  for (int d = 0; d < index.rank; ++d) {
    step.strides[d] = d == axis ? 0 : strides[static_cast<size_t>(d)];
    if ((d != axis && index[d] > data[d]) || data[d] == 0) {
      return Status::Error(Code::kCorrupt, "indices of shape %s into %s", Text(index).c_str(),
                           Text(data).c_str());
    }
  }
  ir::IndexedAttrs attrs;
  attrs.map = ir::View{{step}};
  attrs.dims = {{strides[static_cast<size_t>(axis)], data[axis], true}};
  return attrs;
}

Status GatherElements(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireIndex(c, 1));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  if (c.shape(1).elements() == 0) {
    return c.Give(c.b.Constant(ir::ConstantData::Own(c.dtype(0), c.shape(1), {})));
  }
  if (c.rank(0) == c.rank(1) && c.shape(0)[axis] == 0) return SetUnreadable(c, c.shape(1), axis);
  RONDO_ASSIGN_OR_RETURN(ir::IndexedAttrs attrs, ElementsAttrs(c, axis));
  const NodeId index = c.b.FromStart(c.In(1), c.SizeOf(0, axis));
  return c.Give(c.b.IndexedRead(c.In(0), {index}, attrs, c.shape(1), c.SizesOf(1)));
}

Result<ir::ScatterCombine> ReadCombine(const OpContext& c) {
  std::string reduction = c.String("reduction", "none");
  if (reduction == "none") return ir::ScatterCombine::kNone;
  if (reduction == "add") return ir::ScatterCombine::kAdd;
  if (reduction == "mul") return ir::ScatterCombine::kMul;
  if (reduction == "max") return ir::ScatterCombine::kMax;
  if (reduction == "min") return ir::ScatterCombine::kMin;
  return Status::Error(Code::kUnsupported, "reduction \"%.30s\"", reduction.c_str());
}

Status ScatterElements(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireIndex(c, 1));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  if (!(c.shape(1) == c.shape(2))) {
    return Status::Error(Code::kCorrupt, "indices %s and updates %s differ", Text(c.shape(1)).c_str(),
                         Text(c.shape(2)).c_str());
  }
  if (c.shape(1).elements() == 0) {
    return c.Give(c.In(0));
  }
  RONDO_ASSIGN_OR_RETURN(ir::IndexedAttrs attrs, ElementsAttrs(c, axis));
  RONDO_ASSIGN_OR_RETURN(attrs.combine, ReadCombine(c));
  attrs.may_collide = c.shape(1)[axis] > 1;
  const NodeId index = c.b.FromStart(c.In(1), c.SizeOf(0, axis));
  return c.Give(c.b.IndexedWrite(c.In(0), c.In(2), {index}, attrs));
}

// GatherND and ScatterND: the last dim of `indices` is a place along the dims after the batch dims.
struct NdIndex {
  Shape shape;    // of a gather's result, or of a scatter's updates
  ir::Dims dims;  // `shape` with symbolic sizes
  std::vector<NodeId> index;
  std::vector<int64_t> extents;
  ir::IndexedAttrs attrs;
  int empty_axis = -1;  // an indexed axis without elements
};

Result<NdIndex> ReadNdIndex(OpContext& c, int batch) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  int depth = indices.rank == 0 ? 0 : static_cast<int>(std::min<int64_t>(indices[indices.rank - 1], 99));
  if (indices.rank < 1 || batch >= indices.rank || batch + depth > data.rank || depth < 1) {
    return Status::Error(Code::kCorrupt, "indices of shape %s into %s with %d batch dims",
                         Text(indices).c_str(), Text(data).c_str(), batch);
  }
  for (int d = 0; d < batch; ++d) {
    if (indices[d] != data[d]) return Status::Error(Code::kCorrupt, "batch dim %d differs", d);
  }
  std::vector<int64_t> dims(indices.begin(), indices.end() - 1);
  int places = static_cast<int>(dims.size());
  dims.insert(dims.end(), data.begin() + batch + depth, data.end());
  NdIndex nd;
  RONDO_ASSIGN_OR_RETURN(nd.shape, c.MakeShape(dims));
  if (nd.shape.elements() == 0) return nd;
  for (int d = 0; d < nd.shape.rank; ++d)
    nd.dims.push_back(d < places ? c.SizeOf(1, d) : c.SizeOf(0, d - places + batch + depth));
  std::vector<int64_t> strides = Strides(data);
  ir::ViewStep step;
  step.shape = nd.shape;
  for (int d = 0; d < nd.shape.rank; ++d) {
    step.strides[d] = d < batch    ? strides[static_cast<size_t>(d)]
                      : d < places ? 0
                                   : strides[static_cast<size_t>(d - places + batch + depth)];
  }
  nd.attrs.map = ir::View{{step}};
  Shape aligned = nd.shape;
  for (int d = places; d < aligned.rank; ++d) aligned.dims[d] = 1;
  for (int k = 0; k < depth; ++k) {
    int64_t extent = data[batch + k];
    if (extent == 0) {
      nd.empty_axis = batch + k;
      return nd;
    }
    NodeId one = c.b.Reshape(c.b.Slice(c.In(1), indices.rank - 1, k, 1, 1), aligned);
    nd.index.push_back(c.b.FromStart(one, c.SizeOf(0, batch + k)));
    nd.extents.push_back(extent);
    nd.attrs.dims.push_back({strides[static_cast<size_t>(batch + k)], extent, true});
  }
  return nd;
}

Status GatherND(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireIndex(c, 1));
  int64_t batch = c.Int("batch_dims", 0);
  if (batch < 0 || batch > kMaxRank) return Status::Error(Code::kCorrupt, "batch_dims out of range");
  RONDO_ASSIGN_OR_RETURN(NdIndex nd, ReadNdIndex(c, static_cast<int>(batch)));
  if (nd.shape.elements() == 0) {
    return c.Give(c.b.Constant(ir::ConstantData::Own(c.dtype(0), nd.shape, {})));
  }
  if (nd.empty_axis >= 0) return SetUnreadable(c, nd.shape, nd.empty_axis);
  return c.Give(c.b.IndexedRead(c.In(0), nd.index, nd.attrs, nd.shape, nd.dims));
}

Status ScatterND(OpContext& c) {
  RONDO_RETURN_IF_ERROR(RequireIndex(c, 1));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
  RONDO_ASSIGN_OR_RETURN(NdIndex nd, ReadNdIndex(c, 0));
  if (!(nd.shape == c.shape(2))) {
    return Status::Error(Code::kCorrupt, "updates of shape %s; %s is needed", Text(c.shape(2)).c_str(),
                         Text(nd.shape).c_str());
  }
  if (nd.shape.elements() == 0) {
    return c.Give(c.In(0));
  }
  if (nd.empty_axis >= 0)
    return Status::Error(Code::kCorrupt, "axis %d has no elements, so no index is valid", nd.empty_axis);
  RONDO_ASSIGN_OR_RETURN(nd.attrs.combine, ReadCombine(c));
  nd.attrs.may_collide = IndicesMayCollide(c.b.graph(), nd.index, nd.extents);
  return c.Give(c.b.IndexedWrite(c.In(0), c.In(2), nd.index, nd.attrs));
}

// past [b, ..., n, ...], update [b, ..., m, ...], places [b]: rows of `update` go to places, places + 1, ...
Status TensorScatter(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -2), c.rank(0)));
  const Shape data = c.shape(0), update = c.shape(1);
  if (axis == 0 || update.rank != data.rank || !(WithDim(update, axis, 0) == WithDim(data, axis, 0)) ||
      update[axis] > data[axis] || update.elements() == 0) {
    return Status::Error(Code::kCorrupt, "updates of shape %s into %s along axis %d", Text(update).c_str(),
                         Text(data).c_str(), axis);
  }
  Builder& b = c.b;
  NodeId row = b.Iota(update, axis);
  if (c.Has(2)) {
    RONDO_RETURN_IF_ERROR(c.RequireInteger(2));
    if (c.rank(2) != 1 || c.shape(2)[0] != data[0])
      return Status::Error(Code::kCorrupt, "write_indices do not fit");
    row = b.Add(row, AlongAxis(b, b.Cast(c.In(2), DType::kI64), 0, data.rank));
  }
  if (c.String("mode", "linear") == "circular") {
    row = b.BinaryScalar(TapeOp::kMod, row, static_cast<double>(data[axis]));
  }
  return c.Give(WriteRows(b, c.In(0), c.In(1), row, axis));
}

Status OneHot(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(std::vector<double> depths, c.ConstantFloats(1));
  if (depths.size() != 1 || !(depths[0] >= 1) || depths[0] > 1e9 || c.shape(2).elements() != 2) {
    return Status::Error(Code::kCorrupt, "depth must be one number and values two");
  }
  int64_t depth = static_cast<int64_t>(depths[0]);
  int rank = c.rank(0) + 1;
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), rank));
  std::vector<int64_t> dims(c.shape(0).begin(), c.shape(0).end());
  dims.insert(dims.begin() + axis, depth);
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.MakeShape(dims));
  Builder& b = c.b;
  NodeId index = b.Cast(c.In(0), DType::kI64);
  NodeId negative = b.Binary(TapeOp::kLess, index, b.Scalar(DType::kI64, 0));
  index = b.Select(negative, b.BinaryScalar(TapeOp::kAdd, index, static_cast<double>(depth)), index);
  NodeId here = b.Binary(TapeOp::kEqual, b.Iota(shape, axis), b.Unsqueeze(index, axis));
  NodeId values = b.Reshape(c.In(2), {2});
  NodeId off = b.Reshape(b.Slice(values, 0, 0, 1, 1), Shape{});
  NodeId on = b.Reshape(b.Slice(values, 0, 1, 1, 1), Shape{});
  return c.Give(b.Select(here, on, off));
}

// Keeps the elements whose condition, a constant, is true.
Status Compress(OpContext& c) {
  NodeId x = c.In(0);
  int axis = 0;
  if (c.HasAttribute("axis")) {
    RONDO_ASSIGN_OR_RETURN(axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  } else {
    x = c.b.Reshape(x, {c.shape(0).elements()});
  }
  const ir::Dims dims = c.b.SizesOf(x);
  const bool decided = std::all_of(dims.begin(), dims.end(), [](const ir::Size& dim) { return dim.known(); });
  if (decided && !EvaluateConstant(c.b.graph(), c.In(1)).ok()) return DataSizedCompress(c, x, axis);
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> condition, c.ConstantInts(1));
  std::vector<int64_t> index;
  for (size_t i = 0; i < condition.size() && static_cast<int64_t>(i) < c.b.shape(x)[axis]; ++i) {
    if (condition[i] != 0) index.push_back(static_cast<int64_t>(i));
  }
  return c.Give(Take(c.b, x, axis, index));
}

// For a constant the number of nonzero elements fixes the shape; for a run-time value it is unknown.
Status NonZero(OpContext& c) {
  const auto known = EvaluateConstant(c.b.graph(), c.In(0));
  const ir::Dims dims = c.SizesOf(0);
  const bool decided = std::all_of(dims.begin(), dims.end(), [](const ir::Size& dim) { return dim.known(); });
  if (!decided || !known.ok()) return DataSizedNonZero(c);
  const Shape shape = c.rank(0) == 0 ? Shape{1} : c.shape(0);
  std::vector<int64_t> strides = Strides(shape), found, out;
  for (int64_t i = 0; i < c.shape(0).elements(); ++i) {
    if (scalar::Load<double>((*known)->dtype, (*known)->bytes.data(), i) != 0) found.push_back(i);
  }
  for (int d = 0; d < c.rank(0); ++d) {
    for (int64_t i : found) out.push_back(i / strides[static_cast<size_t>(d)] % shape[d]);
  }
  return c.Give(c.b.Ints(DType::kI64, {c.rank(0), static_cast<int64_t>(found.size())}, out));
}

// Reverses the first lengths[b] elements of each batch entry, and keeps the rest.
Status ReverseSequence(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  int64_t time = c.Int("time_axis", 0), batch = c.Int("batch_axis", 1);
  const Shape shape = c.shape(0);
  if (time + batch != 1 || time < 0 || time > 1 || c.rank(1) != 1 ||
      c.shape(1)[0] != shape[static_cast<int>(batch)] || shape.elements() == 0) {
    return Status::Error(Code::kCorrupt, "time_axis, batch_axis and sequence_lens do not fit");
  }
  Builder& b = c.b;
  NodeId length = AlongAxis(b, b.Cast(c.In(1), DType::kI64), static_cast<int>(batch), shape.rank);
  NodeId t = b.Iota(shape, static_cast<int>(time));
  NodeId mirrored = b.Sub(b.BinaryScalar(TapeOp::kSub, length, 1), t);
  NodeId index = b.Select(b.Binary(TapeOp::kLess, t, length), mirrored, t);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(shape);
  attrs.dims = {{attrs.map.steps[0].strides[time], shape[static_cast<int>(time)], false}};
  attrs.map.steps[0].strides[time] = 0;
  return c.Give(b.IndexedRead(c.In(0), {index}, attrs, shape));
}

constexpr OpRow kOps[] = {
    {"Gather", 2, Gather},
    {"GatherElements", 2, GatherElements},
    {"GatherND", 2, GatherND},
    {"ScatterElements", 3, ScatterElements},
    {"ScatterND", 3, ScatterND},
    {"Scatter", 3, ScatterElements, 9},
    {"TensorScatter", 2, TensorScatter},
    {"OneHot", 3, OneHot},
    {"Compress", 2, Compress},
    {"NonZero", 1, NonZero},
    {"ReverseSequence", 2, ReverseSequence},
};

}  // namespace

Span<const OpRow> IndexingOps() { return kOps; }

}  // namespace rondo::importer
