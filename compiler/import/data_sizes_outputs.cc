#include "compiler/import/data_sizes.h"
#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "formats/plan/true_size.h"

namespace rondo::importer {
namespace {

using ir::Builder;

// How many places are real, i64 [].
NodeId NumberOf(Builder& b, const DataSizedDim& space) {
  return b.Reduce(ir::ReduceKind::kSum, data_sizes::Count(b, space.real), {0}, false);
}

// x with its real places first, in their order, and zeros behind them.
NodeId RealFirst(Builder& b, NodeId x, const DataSizedDim& space, int axis, NodeId number) {
  const Shape shape = b.shape(x);
  const NodeId earlier = b.Reshape(CountBefore(b, b.Reshape(space.real, {1, space.length})), {space.length});
  const NodeId behind = b.Add(b.Expand(number, {space.length}), b.Sub(b.Iota({space.length}, 0), earlier));
  const NodeId place = b.Select(space.real, earlier, behind);
  const NodeId zero = b.Scalar(b.dtype(x), 0);
  const NodeId real = b.Expand(AlongAxis(b, space.real, axis, shape.rank), shape);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(shape);
  const int64_t stride = attrs.map.steps[0].strides[axis];
  attrs.map.steps[0].strides[axis] = 0;
  attrs.dims = {{stride, space.length, false}};
  attrs.may_collide = false;
  return b.IndexedWrite(b.Expand(zero, shape), b.Select(real, x, b.Expand(zero, shape)),
                        {AlongAxis(b, place, axis, shape.rank)}, attrs);
}

}  // namespace

Result<std::vector<ir::GraphOutput>> DataSizedOutputs(Builder& b, const std::string& name,
                                                      const Value& value) {
  const DataSizeFact& fact = *value.data_size;
  if (fact.dim != nullptr) {
    const NodeId number = NumberOf(b, *fact.dim);
    return std::vector<ir::GraphOutput>{{name, RealFirst(b, value.node, *fact.dim, fact.axis, number)},
                                        {SizeOutputName(name, static_cast<uint32_t>(fact.axis)), number}};
  }
  if (fact.counts.empty()) return RefuseDataSize(value, "the output \"" + name.substr(0, 200) + "\" has it");
  // Lengths: those that stand for all places become those of the run.
  NodeId lengths = value.node;
  for (size_t i = 0; i < fact.counts.size(); ++i) {
    if (fact.counts[i] == nullptr) continue;
    const Shape shape = b.shape(lengths);
    const NodeId number = b.Cast(NumberOf(b, *fact.counts[i]), b.dtype(lengths));
    const NodeId here = shape.rank == 0
                            ? b.Ints(DType::kBool, Shape{}, {1})
                            : b.Binary(TapeOp::kEqual, b.Iota(shape, 0),
                                       b.Expand(b.Scalar(DType::kI64, static_cast<double>(i)), shape));
    lengths = b.Select(here, b.Expand(number, shape), lengths);
  }
  return std::vector<ir::GraphOutput>{{name, lengths}};
}

}  // namespace rondo::importer
