// Views, shapes and concatenations.
#include <algorithm>
#include <limits>

#include "compiler/import/data_sizes_rules.h"

namespace rondo::importer::data_sizes {
namespace {

Status Transpose(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = DimFactOf(c, 0);
  if (fact == nullptr) return Refuse(c, 0, "computes with that number");
  const std::vector<int64_t> order = c.Ints("perm");
  const auto at = std::find(order.begin(), order.end(), fact->axis) - order.begin();
  const int axis = order.empty() ? c.rank(0) - 1 - fact->axis : static_cast<int>(at);
  return Give(row, c, InputsOf(c), fact->dim, axis);
}

// Reshape and Flatten keep all elements in order. The data-sized dim keeps the number of elements before and
// behind it.
Status Reshape(const OpRow& row, OpContext& c) {
  if (c.Has(1) && FactOf(c, 1) != nullptr && !HasCounts(c, 1)) return Refuse(c, 1, "takes it for a shape");
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, InputsOf(c)));
  const NodeId out = outputs[0].node;
  if (HasCounts(c, 0)) {
    if (c.b.shape(out).elements() != std::ssize(FactOf(c, 0)->counts) || c.b.shape(out).rank > 1)
      return Refuse(c, 0, "computes with that number");
    c.SetValue(0, WithCounts(out, FactOf(c, 0)->counts));
    return Status::Ok();
  }
  const DataSizeFact* fact = DimFactOf(c, 0);
  if (fact == nullptr) return Refuse(c, 1, "gives what is fixed a length that is not");
  const Shape &from = c.shape(0), &to = c.b.shape(out);
  int64_t before = 1;
  for (int d = 0; d < fact->axis; ++d) before *= from[d];
  // Next to other dims of 1, a dim of 1 is the one whose length the shape leaves open.
  std::vector<int64_t> asked;
  const bool known = c.Has(1) && !HasCounts(c, 1) && c.b.ConstantInts(c.In(1), &asked);
  const auto open = [&](int d) {
    return !known || std::ssize(asked) != to.rank || asked[static_cast<size_t>(d)] < 1;
  };
  int found = -1;
  int64_t passed = 1;
  for (int d = 0; d < to.rank; passed *= to[d++]) {
    if (passed == before && to[d] == fact->dim->length && (found < 0 || (!open(found) && open(d)))) found = d;
  }
  if (found >= 0) {
    c.SetValue(0, WithDim(out, fact->dim, found));
    return Status::Ok();
  }
  return Refuse(c, 0, "makes one dim of it and others");
}

// Squeeze and Unsqueeze, also of lengths.
Status Ones(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = DimFactOf(c, 0);
  if (fact == nullptr) return Reshape(row, c);
  const bool adds = std::string_view(row.op) == "Unsqueeze";
  bool given = false;
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> listed, c.IntsFrom(1, "axes", &given));
  RONDO_ASSIGN_OR_RETURN(std::vector<int> axes,
                         c.Axes(listed, c.rank(0) + (adds ? static_cast<int>(listed.size()) : 0)));
  int axis = fact->axis;
  for (int one : axes) axis += adds && one <= axis ? 1 : 0;
  const auto before = [&](int one) { return one < axis; };
  if (!adds) {
    if (axes.empty() || std::find(axes.begin(), axes.end(), axis) != axes.end())
      return Refuse(c, 0, "takes it for a dim of 1");
    axis -= static_cast<int>(std::count_if(axes.begin(), axes.end(), before));
  }
  return Give(row, c, InputsOf(c), fact->dim, axis);
}

// Finds the dim of the shape in input `i` whose length data decide. There may be at most one.
Status CountIn(const OpContext& c, int i, Space* space, int* at) {
  const std::vector<Space>& counts = FactOf(c, i)->counts;
  for (size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] == nullptr) continue;
    if (*space != nullptr) return Refuse(c, i, "has several of them");
    *space = counts[d];
    *at = static_cast<int>(d);
  }
  return Status::Ok();
}

Status Expand(const OpRow& row, OpContext& c) {
  Space space;
  int at = 0;
  if (HasCounts(c, 1)) RONDO_RETURN_IF_ERROR(CountIn(c, 1, &space, &at));
  const int rank = std::max(c.rank(0), static_cast<int>(c.shape(1).elements()));
  if (space != nullptr) at += rank - static_cast<int>(c.shape(1).elements());
  if (const DataSizeFact* fact = DimFactOf(c, 0)) {
    const int axis = fact->axis + rank - c.rank(0);
    if (space != nullptr && (!Same(space, fact->dim) || at != axis))
      return Refuse(c, 0, "brings it together with places of another kind");
    space = fact->dim;
    at = axis;
  } else {
    const int axis = at - (rank - c.rank(0));
    if (axis >= 0 && c.shape(0)[axis] != 1) return Refuse(c, 0, "has something of a fixed length beside it");
  }
  RONDO_RETURN_IF_ERROR(Give(row, c, InputsOf(c), space, at));
  if (c.b.shape(c.outputs()[0].node)[at] != space->length) return Refuse(c, 0, "changes its length");
  return Status::Ok();
}

Status ConstantOfShape(const OpRow& row, OpContext& c) {
  if (!HasCounts(c, 0)) return Refuse(c, 0, "takes it for a shape");
  Space space;
  int at = 0;
  RONDO_RETURN_IF_ERROR(CountIn(c, 0, &space, &at));
  return Give(row, c, InputsOf(c), space, at);
}

Status ShapeOf(const OpRow& row, OpContext& c) {
  const DataSizeFact& fact = *FactOf(c, 0);
  if (fact.dim == nullptr) return Refuse(c, 0, "computes with that number");
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, InputsOf(c)));
  int64_t start = c.Int("start", 0);
  if (start < 0) start = std::max<int64_t>(start + c.rank(0), 0);
  std::vector<Space> counts(static_cast<size_t>(c.b.shape(outputs[0].node).elements()));
  const int64_t at = fact.axis - start;
  if (at >= 0 && at < std::ssize(counts)) counts[static_cast<size_t>(at)] = fact.dim;
  c.SetValue(0, WithCounts(outputs[0].node, std::move(counts)));
  return Status::Ok();
}

Status Slice(const OpRow& row, OpContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (FactOf(c, i) != nullptr) return Refuse(c, i, "cuts something off at that number");
  }
  if (HasCounts(c, 0)) return SomeCounts(row, c);
  if (DimFactOf(c, 0) == nullptr) return Refuse(c, 0, "takes some of them by their number");
  const DataSizeFact& fact = *DimFactOf(c, 0);
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, InputsOf(c)));
  bool given = false;
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> listed, c.IntsFrom(3, "axes", &given));
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> starts, c.IntsFrom(1, "starts", &given));
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> ends, c.IntsFrom(2, "ends", &given));
  constexpr int64_t kAll = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < starts.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(listed.empty() ? static_cast<int64_t>(i) : listed[i], c.rank(0)));
    const bool all = starts[i] == 0 && ends[i] >= kAll && !c.Has(4);
    if (axis == fact.axis && !all) return Refuse(c, 0, "takes some of them by their number");
  }
  c.SetValue(0, WithDim(outputs[0].node, fact.dim, fact.axis));
  return Status::Ok();
}

Status Split(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = DimFactOf(c, 0);
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  if (fact == nullptr || axis == fact->axis || (c.Has(1) && FactOf(c, 1) != nullptr))
    return Refuse(c, 0, "takes some of them by their number");
  return Give(row, c, InputsOf(c), fact->dim, fact->axis);
}

// Concatenates ranges of the same rows that follow each other from 0 on, so that the rows keep their order.
// The ranges must cover all rows.
Status JoinRanges(OpContext& c, int axis) {
  Builder& b = c.b;
  const Space& first = DimFactOf(c, 0)->dim;
  std::vector<int64_t> begin;
  std::vector<NodeId> ends = {b.Reshape(first->start, {1})};
  if (!b.ConstantInts(first->start, &begin) || begin[0] != 0)
    return Refuse(c, 0, "puts together ranges that do not begin at 0");
  NodeId joined = kNoNode, last = first->start;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const DataSizeFact* fact = DimFactOf(c, i);
    if (fact == nullptr || fact->axis != axis || fact->dim->start != last ||
        fact->dim->length != first->length || !(c.shape(i) == c.shape(0)) || c.dtype(i) != c.dtype(0))
      return Refuse(c, i, "puts together what does not follow one another");
    const NodeId real = RealAlong(b, fact->dim, axis, c.rank(i));
    joined = joined == kNoNode ? c.In(i) : b.Select(real, c.In(i), joined);
    last = fact->dim->end;
    ends.push_back(b.Reshape(last, {1}));
  }
  const int64_t n = std::ssize(ends) - 1;
  const NodeId all = b.Concat(ends, 0);
  const NodeId falls = b.Binary(TapeOp::kLess, b.Slice(all, 0, 1, 1, n), b.Slice(all, 0, 0, 1, n));
  const NodeId whole =
      b.Binary(TapeOp::kEqual, last, b.Scalar(DType::kI64, static_cast<double>(first->length)));
  const NodeId one = b.Scalar(DType::kI64, 1);
  return c.Give(Checked(
      b, joined,
      b.Add(b.Reduce(ir::ReduceKind::kSum, Count(b, falls), {0}, false), b.Sub(one, Count(b, whole)))));
}

Status Concat(const OpRow& row, OpContext& c) {
  const auto is_counts = [&](int i) { return HasCounts(c, i); };
  std::vector<Space> counts;
  Space space;
  int places = 0;
  bool lengths = false;
  for (int i = 0; i < c.num_inputs(); ++i) lengths = lengths || is_counts(i);
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  for (int i = 0; i < c.num_inputs(); ++i) {
    const DataSizeFact* fact = FactOf(c, i);
    if (lengths) {
      if (fact != nullptr && !is_counts(i)) return Refuse(c, i, "takes it for a shape");
      std::vector<Space> here =
          fact != nullptr ? fact->counts : std::vector<Space>(static_cast<size_t>(c.shape(i).elements()));
      counts.insert(counts.end(), here.begin(), here.end());
      continue;
    }
    if (fact == nullptr || fact->dim == nullptr || (space != nullptr && places != fact->axis))
      return Refuse(c, i, "puts another kind beside it");
    if (fact->axis == axis) {
      if (fact->dim->start == kNoNode) return Refuse(c, i, "puts something behind it");
      return JoinRanges(c, axis);
    }
    if (space != nullptr && !Same(space, fact->dim))
      return Refuse(c, i, "brings it together with places of another kind");
    space = fact->dim;
    places = fact->axis;
  }
  if (!lengths) return Give(row, c, InputsOf(c), space, places);
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, InputsOf(c)));
  c.SetValue(0, WithCounts(outputs[0].node, std::move(counts)));
  return Status::Ok();
}

constexpr Rule kRules[] = {
    {"Concat", Concat},   {"ConstantOfShape", ConstantOfShape},
    {"Expand", Expand},   {"Flatten", Reshape},
    {"Reshape", Reshape}, {"Shape", ShapeOf},
    {"Slice", Slice},     {"Split", Split},
    {"Squeeze", Ones},    {"Transpose", Transpose},
    {"Unsqueeze", Ones},
};

}  // namespace

Status SomeCounts(const OpRow& row, OpContext& c) {
  const std::vector<Space>& counts = FactOf(c, 0)->counts;
  std::vector<int64_t> places;
  for (size_t i = 0; i < counts.size(); ++i) places.push_back(static_cast<int64_t>(i));
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, InputsOf(c)));
  std::vector<Value> inputs = InputsOf(c);
  inputs[0] = Value{c.b.Ints(DType::kI64, c.shape(0), places), false, {}};
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> chosen, OfAllPlaces(row, c, std::move(inputs)));
  std::vector<int64_t> from;
  if (!c.b.ConstantInts(chosen[0].node, &from) || c.b.shape(chosen[0].node).rank > 1)
    return Refuse(c, 0, "computes with that number");
  std::vector<Space> left;
  for (int64_t i : from) left.push_back(counts[static_cast<size_t>(i)]);
  c.SetValue(0, WithCounts(outputs[0].node, std::move(left)));
  return Status::Ok();
}

Span<const Rule> MovementRules() { return kRules; }

}  // namespace rondo::importer::data_sizes
