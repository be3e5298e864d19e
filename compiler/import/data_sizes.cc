#include "compiler/import/data_sizes.h"

#include <algorithm>
#include <string_view>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// --------------------------------------------------------------------------- what the rules share

namespace data_sizes {

Value WithDim(NodeId id, const Space& space, int axis) {
  Value value{id, false, {}};
  DataSizeFact fact;
  fact.dim = space;
  fact.axis = axis;
  value.data_size = std::make_shared<const DataSizeFact>(std::move(fact));
  return value;
}

Value WithCounts(NodeId id, std::vector<Space> counts) {
  Value value{id, false, {}};
  if (std::none_of(counts.begin(), counts.end(), [](const Space& s) { return s != nullptr; })) return value;
  DataSizeFact fact;
  fact.counts = std::move(counts);
  value.data_size = std::make_shared<const DataSizeFact>(std::move(fact));
  return value;
}

const DataSizeFact* FactOf(const OpContext& c, int i) {
  return c.Has(i) ? c.InValue(i).data_size.get() : nullptr;
}

Status Refuse(const OpContext& c, int i, const char* what) {
  int input = i;
  for (int k = 0; k < c.num_inputs() && FactOf(c, input) == nullptr; ++k) input = k;
  return RefuseDataSize(c.InValue(input),
                        "the node " + std::string(what) + " (input " + std::to_string(i) + ")");
}

const DataSizeFact* DimFactOf(const OpContext& c, int i) {
  const DataSizeFact* fact = FactOf(c, i);
  return fact != nullptr && fact->dim != nullptr ? fact : nullptr;
}

bool HasCounts(const OpContext& c, int i) {
  const DataSizeFact* fact = FactOf(c, i);
  return fact != nullptr && !fact->counts.empty();
}

bool Same(const Space& a, const Space& b) {
  return a == b ||
         (a->start != kNoNode && a->start == b->start && a->end == b->end && a->length == b->length);
}

Result<std::vector<Value>> OfAllPlaces(const OpRow& row, OpContext& c, std::vector<Value> inputs) {
  for (Value& value : inputs) value.data_size = nullptr;
  OpContext all(&c.b, &c.host, c.proto, c.opset, c.attributes(), std::move(inputs));
  RONDO_RETURN_IF_ERROR(row.handler(all));
  return all.outputs();
}

std::vector<Value> InputsOf(const OpContext& c) {
  std::vector<Value> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.InValue(i));
  return inputs;
}

Status Give(const OpRow& row, OpContext& c, std::vector<Value> inputs, const Space& space, int axis) {
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, std::move(inputs)));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].node != kNoNode) c.SetValue(static_cast<int>(i), WithDim(outputs[i].node, space, axis));
  }
  return Status::Ok();
}

NodeId RealAlong(ir::Builder& b, const Space& space, int axis, int rank) {
  return AlongAxis(b, space->real, axis, rank);
}

NodeId Checked(ir::Builder& b, NodeId x, NodeId bad) {
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(b.shape(x));
  attrs.dims = {{b.shape(x).elements(), 1, false}};
  return b.IndexedRead(x, {b.Expand(bad, b.shape(x))}, attrs, b.shape(x));
}

NodeId InRoom(ir::Builder& b, NodeId x, const ir::Dims& room, double number) {
  Shape whole = b.shape(x);
  for (int d = 0; d < whole.rank; ++d) whole[d] = room[static_cast<size_t>(d)].extent();
  const NodeId filled = b.Expand(b.Scalar(b.dtype(x), number), whole);
  if (b.shape(x).elements() == 0) return filled;
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(b.shape(x));
  attrs.may_collide = false;
  std::vector<NodeId> places;
  const ir::View dense = ir::DenseView(whole);
  for (int d = 0; d < whole.rank; ++d) {
    const int64_t stride = dense.steps[0].strides[d];
    const bool moves = !room[static_cast<size_t>(d)].known() || !b.SizeOf(x, d).known();
    attrs.map.steps[0].strides[d] = moves ? 0 : stride;
    if (!moves) continue;
    attrs.dims.push_back({stride, whole[d], false});
    places.push_back(b.IotaOver(b.SizesOf(x), d));
  }
  // Padding is not written (mask_padding.h).
  return places.empty() ? x : b.IndexedWrite(filled, x, places, attrs);
}

NodeId Count(ir::Builder& b, NodeId condition) { return b.Cast(condition, DType::kI64); }

}  // namespace data_sizes

// ------------------------------------------------------------------------ where such dims begin

namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 22;

std::string NodeText(const OpContext& c) {
  const std::vector<std::string>& sources = c.b.sources();
  return sources.empty() ? c.proto.op_type() : sources[0];
}

}  // namespace

Status RefuseDataSize(const Value& value, const std::string& what) {
  std::string from = "of it";
  if (value.data_size != nullptr) {
    const DataSizeFact& fact = *value.data_size;
    data_sizes::Space space = fact.dim != nullptr     ? fact.dim
                              : fact.range != nullptr ? fact.range
                                                      : fact.packing;
    for (const data_sizes::Space& count : fact.counts) space = space != nullptr ? space : count;
    from = "made by " + space->source;
  }
  return Status::Error(
      Code::kUnsupported,
      "only a run knows a length %s, and %s; rondo follows such a dim through pointwise operators, products "
      "with weights and gathers to a scatter into a fixed shape: export the model with a mask or an operator "
      "of fixed shapes instead (of a mixture of experts: MoE, or experts_implementation \"batched_mm\")",
      from.c_str(), what.c_str());
}

Status DataSizedNonZero(OpContext& c) {
  (void)c.host.NameSizes();
  ir::Builder& b = c.b;
  const Shape shape = c.rank(0) == 0 ? Shape{1} : c.shape(0);
  auto space = std::make_shared<DataSizedDim>();
  space->source = NodeText(c);
  space->length = shape.elements();
  if (space->length == 0) {
    return c.Give(b.Ints(DType::kI64, {c.rank(0), 0}, {}));
  }
  if (space->length * std::max(shape.rank, 1) > kMostPlaces) {
    return Status::Error(Code::kUnsupported,
                         "input 0 of shape %s depends on the model's inputs, and may have more than %lld "
                         "elements that are not 0: export the model with a mask instead",
                         Text(shape).c_str(), static_cast<long long>(kMostPlaces));
  }
  space->most = 1;
  for (const ir::Size& size : c.SizesOf(0)) space->most *= size.most();
  space->of = b.Cast(c.In(0), DType::kBool);
  space->real =
      b.Reshape(data_sizes::InRoom(b, space->of, {c.shape(0).begin(), c.shape(0).end()}, 0), {space->length});
  std::vector<int64_t> places;
  int64_t run = shape.elements();
  for (int d = 0; d < c.rank(0); ++d) {
    run /= shape[d];
    for (int64_t i = 0; i < space->length; ++i) places.push_back(i / run % shape[d]);
  }
  c.SetValue(0, data_sizes::WithDim(b.Ints(DType::kI64, {c.rank(0), space->length}, places), space, 1));
  return Status::Ok();
}

Status DataSizedCompress(OpContext& c, NodeId x, int axis) {
  (void)c.host.NameSizes();
  ir::Builder& b = c.b;
  const int64_t given = c.rank(1) == 1 ? c.shape(1)[0] : -1;
  if (c.dtype(1) != DType::kBool || given < 0 || given > b.shape(x)[axis] || b.shape(x).elements() == 0) {
    return Status::Error(Code::kCorrupt, "a condition of shape %s for axis %d of shape %s",
                         Text(c.shape(1)).c_str(), axis, Text(b.shape(x)).c_str());
  }
  auto space = std::make_shared<DataSizedDim>();
  space->source = NodeText(c);
  space->length = given;
  space->real = c.In(1);
  c.SetValue(0, data_sizes::WithDim(b.Slice(x, axis, 0, 1, given), space, axis));
  return Status::Ok();
}

Status DataSizedSlice(OpContext& c, int axis, int64_t step) {
  (void)c.host.NameSizes();
  ir::Builder& b = c.b;
  const int64_t n = c.shape(0)[axis];
  const bool forward = step > 0;
  // Normalises an end: negative ones count from the end, and all are clamped to the axis (-1 is before its
  // first).
  const auto end = [&](int i, int64_t least, int64_t most) {
    const NodeId given = b.Reshape(b.Cast(c.In(i), DType::kI64), Shape{});
    const NodeId negative = b.Binary(TapeOp::kLess, given, b.Scalar(DType::kI64, 0));
    const NodeId wrapped =
        b.Select(negative, b.BinaryScalar(TapeOp::kAdd, given, static_cast<double>(n)), given);
    return b.Expand(Clamp(b, wrapped, static_cast<double>(least), static_cast<double>(most)), {n});
  };
  const NodeId first = forward ? end(1, 0, n) : end(1, -1, n - 1);
  const NodeId behind = forward ? end(2, 0, n) : end(2, -1, n - 1);
  // Places number the elements in the order in which they are taken.
  const NodeId places = b.Iota({n}, 0);
  const NodeId element = forward ? places : b.Sub(b.Scalar(DType::kI64, static_cast<double>(n - 1)), places);
  const NodeId from = forward ? b.Sub(element, first) : b.Sub(first, element);
  const NodeId to = forward ? b.Sub(behind, element) : b.Sub(element, behind);
  const NodeId zero = b.Scalar(DType::kI64, 0);
  const double stride = static_cast<double>(std::min(forward ? step : -(step + 1) + 1, n));
  const NodeId within =
      b.Binary(TapeOp::kBitAnd, b.Binary(TapeOp::kLessEqual, zero, from), b.Binary(TapeOp::kLess, zero, to));
  const NodeId met = b.Binary(TapeOp::kEqual, b.BinaryScalar(TapeOp::kMod, from, stride), zero);
  auto space = std::make_shared<DataSizedDim>();
  space->source = NodeText(c);
  space->length = n;
  space->real = b.Binary(TapeOp::kBitAnd, within, met);
  const NodeId x = forward ? c.In(0) : b.Slice(c.In(0), axis, n - 1, -1, n);
  c.SetValue(0, data_sizes::WithDim(x, space, axis));
  return Status::Ok();
}

Status DataSizedRange(OpContext& c) {
  (void)c.host.NameSizes();
  ir::Builder& b = c.b;
  std::vector<int64_t> step;
  if (!b.ConstantInts(c.In(2), &step) || step.size() != 1 || step[0] != 1 || c.shape(0).elements() != 1 ||
      c.shape(1).elements() != 1) {
    return Status::Error(Code::kUnsupported,
                         "the ends of the range depend on the model's inputs, and it is no range of scalars "
                         "one after another");
  }
  auto range = std::make_shared<DataSizedDim>();
  range->source = NodeText(c);
  // A range that begins where another ends must begin with the same node.
  const auto scalar = [&](int i) {
    const NodeId one = c.rank(i) == 0 ? c.In(i) : b.Reshape(c.In(i), Shape{});
    return c.dtype(i) == DType::kI64 ? one : b.Cast(one, DType::kI64);
  };
  range->start = scalar(0);
  range->end = scalar(1);
  if (const int64_t bound = c.host.BoundOf(c.proto); bound > 0) {
    const NodeId zero = b.Scalar(DType::kI64, 0), places = b.Iota({bound}, 0);
    const NodeId number = b.Sub(range->end, range->start);
    const NodeId many = b.Binary(TapeOp::kLess, b.Scalar(DType::kI64, static_cast<double>(bound)), number);
    const NodeId there = data_sizes::Checked(b, b.Expand(number, {bound}), data_sizes::Count(b, many));
    range->length = bound;
    range->real = b.Binary(TapeOp::kLess, places, there);
    range->end = b.Add(b.Binary(TapeOp::kMax, number, zero), range->start);
    c.SetValue(
        0, data_sizes::WithDim(b.Cast(b.Add(b.Expand(range->start, {bound}), places), c.dtype(0)), range, 0));
    return Status::Ok();
  }
  DataSizeFact fact;
  fact.range = range;
  Value value{range->start, false, {}};
  value.data_size = std::make_shared<const DataSizeFact>(std::move(fact));
  c.SetValue(0, std::move(value));
  return Status::Ok();
}

Status CallWithDataSizes(const OpRow& row, OpContext& c) {
  const data_sizes::Rule* rule = nullptr;
  for (const Span<const data_sizes::Rule> rules : {data_sizes::PlaceRules(), data_sizes::MovementRules(),
                                                   data_sizes::AccessRules(), data_sizes::PackingRules()}) {
    const auto* found =
        std::find_if(rules.begin(), rules.end(), [&](const data_sizes::Rule& r) { return r.op == row.op; });
    if (found != rules.end()) rule = found;
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.InValue(i).data_size == nullptr) continue;
    const bool places = std::string_view(row.op) == "Gather" && i == 1;
    if (rule == nullptr || (c.InValue(i).data_size->range != nullptr && !places))
      return data_sizes::Refuse(c, i, "does not work place by place");
  }
  return rule->apply(row, c);
}

}  // namespace rondo::importer
