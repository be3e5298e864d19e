// Reads and writes by index.
#include "compiler/import/data_sizes_rules.h"

namespace rondo::importer::data_sizes {
namespace {

Value Plain(NodeId id) { return Value{id, false, {}}; }

// Indices along a data-sized dim: those that are not real become 0, which is in range.
NodeId InRange(OpContext& c, int i) {
  const DataSizeFact& fact = *DimFactOf(c, i);
  Builder& b = c.b;
  if (c.ConstantInts(i).ok()) return c.In(i);
  return b.Select(RealAlong(b, fact.dim, fact.axis, c.rank(i)), c.In(i), b.Scalar(c.dtype(i), 0));
}

// Rows of a range: all rows, of which those in the range are real.
Status GatherRange(OpContext& c, int axis) {
  Builder& b = c.b;
  const DataSizedDim& range = *FactOf(c, 1)->range;
  if (FactOf(c, 0) != nullptr) return Refuse(c, 0, "takes some of them by their number");
  auto rows = std::make_shared<DataSizedDim>(range);
  rows->length = c.shape(0)[axis];
  const NodeId place = b.Iota({rows->length}, 0), zero = b.Scalar(DType::kI64, 0),
               length = b.Scalar(DType::kI64, static_cast<double>(rows->length));
  const NodeId from = Count(b, b.Binary(TapeOp::kLess, place, range.start)),
               to = Count(b, b.Binary(TapeOp::kLess, place, range.end));
  const NodeId begins_early = Count(b, b.Binary(TapeOp::kLess, range.start, zero)),
               ends_late = Count(b, b.Binary(TapeOp::kLess, length, range.end)),
               has_any = Count(b, b.Binary(TapeOp::kLess, range.start, range.end));
  const NodeId bad = b.Mul(b.Add(begins_early, ends_late), has_any);
  rows->real = Checked(b, b.Binary(TapeOp::kLess, from, to), bad);
  c.SetValue(0, WithDim(c.In(0), rows, axis));
  return Status::Ok();
}

Status Gather(const OpRow& row, OpContext& c) {
  const DataSizeFact *data = FactOf(c, 0), *index = FactOf(c, 1);
  if (HasCounts(c, 0)) return index == nullptr ? SomeCounts(row, c) : Refuse(c, 1, "takes it for a shape");
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  if (index != nullptr && index->range != nullptr) return GatherRange(c, axis);
  if (index == nullptr) {
    if (data->dim == nullptr || data->axis == axis) return Refuse(c, 0, "takes some of them by their number");
    return Give(row, c, InputsOf(c), data->dim, data->axis < axis ? data->axis : data->axis - 1 + c.rank(1));
  }
  if (data != nullptr || index->dim == nullptr) return Refuse(c, 1, "takes some of them by their number");
  std::vector<Value> inputs = InputsOf(c);
  inputs[1] = Plain(InRange(c, 1));
  return Give(row, c, std::move(inputs), index->dim, axis + index->axis);
}

Status GatherND(const OpRow& row, OpContext& c) {
  const DataSizeFact* index = DimFactOf(c, 1);
  if (index == nullptr || FactOf(c, 0) != nullptr || c.Int("batch_dims", 0) != 0 ||
      index->axis == c.rank(1) - 1)
    return Refuse(c, FactOf(c, 0) != nullptr ? 0 : 1, "takes some of them by their number");
  std::vector<Value> inputs = InputsOf(c);
  inputs[1] = Plain(InRange(c, 1));
  return Give(row, c, std::move(inputs), index->dim, index->axis);
}

// Updates that are not real go to an extra row behind the last, which is then cut off.
Status Scatter(const OpRow& row, OpContext& c, int axis, NodeId index) {
  Builder& b = c.b;
  const Shape data = c.shape(0);
  std::vector<int64_t> before(static_cast<size_t>(data.rank)), after = before;
  after[static_cast<size_t>(axis)] = 1;
  std::vector<Value> inputs = InputsOf(c);
  inputs[0] = Plain(b.PadConstant(c.In(0), b.Scalar(c.dtype(0), 0), before, after));
  inputs[1] = Plain(index);
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, std::move(inputs)));
  return c.Give(b.Slice(outputs[0].node, axis, 0, 1, data[axis]));
}

// Checks that indices (input 1) and updates (input 2) have the same data-sized dim, and the data none.
Status CheckScatter(const OpContext& c) {
  const DataSizeFact *index = DimFactOf(c, 1), *updates = DimFactOf(c, 2);
  if (FactOf(c, 0) != nullptr) return Refuse(c, 0, "writes to some of them by their number");
  if (index == nullptr)
    return Refuse(c, FactOf(c, 1) != nullptr ? 1 : 2, "writes it where there is no such dim");
  if (updates == nullptr || !Same(index->dim, updates->dim) || index->axis != updates->axis)
    return Refuse(c, 2, "writes what has other places");
  return Status::Ok();
}

Status ScatterElements(const OpRow& row, OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckScatter(c));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  const DataSizeFact& fact = *DimFactOf(c, 1);
  Builder& b = c.b;
  const int64_t n = c.shape(0)[axis];
  if (fact.axis != axis && c.shape(1)[fact.axis] > c.shape(0)[fact.axis])
    return Refuse(c, 1, "writes along another dim");
  // Counting from the end would include the extra row.
  const NodeId length = b.Scalar(c.dtype(1), static_cast<double>(n));
  NodeId index =
      b.Select(b.Binary(TapeOp::kLess, c.In(1), b.Scalar(c.dtype(1), 0)), b.Add(c.In(1), length), c.In(1));
  index = b.Select(RealAlong(b, fact.dim, fact.axis, c.rank(1)), index, length);
  return Scatter(row, c, axis, index);
}

Status ScatterND(const OpRow& row, OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckScatter(c));
  const DataSizeFact& fact = *DimFactOf(c, 1);
  Builder& b = c.b;
  const int last = c.rank(1) - 1;
  if (fact.axis == last || c.shape(1)[last] < 1) return Refuse(c, 1, "takes it for a place");
  const NodeId all = InRange(c, 1), length = b.Scalar(c.dtype(1), static_cast<double>(c.shape(0)[0]));
  NodeId first = b.Slice(all, last, 0, 1, 1);
  first = b.Select(b.Binary(TapeOp::kLess, first, b.Scalar(c.dtype(1), 0)), b.Add(first, length), first);
  first = b.Select(RealAlong(b, fact.dim, fact.axis, c.rank(1)), first, length);
  const int64_t depth = c.shape(1)[last];
  if (depth > 1) first = b.Concat({first, b.Slice(all, last, 1, 1, depth - 1)}, last);
  return Scatter(row, c, 0, first);
}

constexpr Rule kRules[] = {
    {"Gather", Gather},
    {"GatherND", GatherND},
    {"ScatterElements", ScatterElements},
    {"ScatterND", ScatterND},
};

}  // namespace

Span<const Rule> AccessRules() { return kRules; }

}  // namespace rondo::importer::data_sizes
