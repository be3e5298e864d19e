#include "compiler/import/join_branches.h"

#include <algorithm>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "compiler/import/importer.h"
#include "compiler/import/sizes_of_data.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

// Joins a and d, of known lengths that differ along one axis; the condition decides the length. False if they
// differ in any other way.
bool OfOneLength(OpContext& c, NodeId condition, NodeId a, NodeId d, Value* value) {
  ir::Builder& b = c.b;
  const Shape of_a = b.shape(a), of_d = b.shape(d);
  int axis = -1;
  if (of_a.elements() == 0 || of_d.elements() == 0) return false;
  for (int i = 0; i < of_a.rank; ++i) {
    if (!b.SizeOf(a, i).known() || !b.SizeOf(d, i).known()) return false;
    if (of_a[i] == of_d[i]) continue;
    if (axis >= 0) return false;
    axis = i;
  }
  const int64_t length = std::max(of_a[axis], of_d[axis]);
  const auto longer = [&](NodeId x) {
    std::vector<int64_t> before(static_cast<size_t>(of_a.rank)), after = before;
    after[static_cast<size_t>(axis)] = length - b.shape(x)[axis];
    return b.PadConstant(x, b.Scalar(b.dtype(x), 0), before, after);
  };
  auto space = std::make_shared<DataSizedDim>();
  space->source = c.b.sources().empty() ? c.proto.op_type() : c.b.sources()[0];
  space->length = length;
  space->start = b.Scalar(DType::kI64, 0);
  space->end = b.Select(condition, b.Scalar(DType::kI64, static_cast<double>(of_a[axis])),
                        b.Scalar(DType::kI64, static_cast<double>(of_d[axis])));
  space->real = b.Binary(TapeOp::kLess, b.Iota({length}, 0), b.Expand(space->end, {length}));
  *value = data_sizes::WithDim(b.Select(condition, longer(a), longer(d)), space, axis);
  return true;
}

// Joins a and d, whose lengths differ along any axes; the condition decides these lengths, which are named.
Result<Value> OfNamedLengths(OpContext& c, SizesOfData* names, NodeId condition, NodeId a, NodeId d, int i) {
  Builder& b = c.b;
  ir::Dims dims = b.SizesOf(a);
  for (int axis = 0; axis < b.shape(a).rank; ++axis) {
    ir::Size& size = dims[static_cast<size_t>(axis)];
    const ir::Size other = b.SizeOf(d, axis);
    if (size == other) continue;
    if (size.unknown() || other.unknown()) return RefuseBranches(c, i);
    const NodeId number = b.Select(condition, b.Number(size), b.Number(other));
    size = names->Name(b, number, std::min(size.least(), other.least()), std::max(size.most(), other.most()),
                       NodeName(c.proto), std::max(b.shape(a)[axis], b.shape(d)[axis]));
  }
  const NodeId joined =
      b.Select(condition, data_sizes::InRoom(b, a, dims, 0), data_sizes::InRoom(b, d, dims, 0));
  return Value{b.WithSizes(joined, dims), false, {}};
}

}  // namespace

Result<Value> JoinBranches(OpContext& c, NodeId condition, const Value& a, const Value& d, int i) {
  Builder& b = c.b;
  if (b.dtype(a.node) != b.dtype(d.node) || b.shape(a.node).rank != b.shape(d.node).rank)
    return RefuseBranches(c, i);
  const bool data_sized = a.data_size != nullptr || d.data_size != nullptr;
  if (!data_sized && b.SizesOf(a.node) == b.SizesOf(d.node))
    return Value{b.Select(condition, a.node, d.node), false, {}};
  Value of_one_length;
  if (!data_sized && OfOneLength(c, condition, a.node, d.node, &of_one_length)) return of_one_length;
  SizesOfData* const names = c.host.NameSizes();
  if (names == nullptr) return RefuseBranches(c, i);
  return OfNamedLengths(c, names, condition, a.node, d.node, i);
}

Status RefuseBranches(OpContext& c, int i) {
  (void)c.Known(c.In(0));  // reports the inputs that decide
  return Status::Error(
      Code::kUnsupported,
      "its condition depends on the model's inputs, and the branches differ in type or number of "
      "dimensions, or in lengths that cannot be followed (output %d); where one input decides it, say which "
      "branch is meant "
      "(--bind INPUT=VALUE)",
      i);
}

}  // namespace rondo::importer
