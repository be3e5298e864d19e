#include "compiler/import/data_sizes.h"
#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "formats/plan/true_size.h"

namespace rondo::importer {

using ir::Builder;

namespace data_sizes {

NodeId NumberOf(Builder& b, const DataSizedDim& space) {
  return b.Reduce(ir::ReduceKind::kSum, Count(b, space.real), {0}, false);
}

NodeId RealFirst(Builder& b, NodeId x, const DataSizedDim& space, int axis, NodeId number, int64_t room) {
  const Shape shape = b.shape(x), whole = importer::WithDim(shape, axis, room);
  const NodeId earlier = b.Reshape(CountBefore(b, b.Reshape(space.real, {1, space.length})), {space.length});
  const NodeId behind = b.Add(b.Expand(number, {space.length}), b.Sub(b.Iota({space.length}, 0), earlier));
  const NodeId place = b.Select(space.real, earlier, behind);
  const NodeId zero = b.Scalar(b.dtype(x), 0);
  const NodeId real = b.Expand(AlongAxis(b, space.real, axis, shape.rank), shape);
  ir::IndexedAttrs attrs;
  attrs.map = ir::Slice(ir::DenseView(whole), axis, 0, 1, space.length);
  const int64_t stride = attrs.map.steps[0].strides[axis];
  attrs.map.steps[0].strides[axis] = 0;
  attrs.dims = {{stride, room, false}};
  attrs.may_collide = false;
  return b.IndexedWrite(b.Expand(zero, whole), b.Select(real, x, b.Expand(zero, shape)),
                        {AlongAxis(b, place, axis, shape.rank)}, attrs);
}

}  // namespace data_sizes

Result<std::vector<ir::GraphOutput>> DataSizedOutputs(Builder& b, const std::string& name,
                                                      const Value& value) {
  const DataSizeFact& fact = *value.data_size;
  if (fact.dim != nullptr) {
    const NodeId number = data_sizes::NumberOf(b, *fact.dim);
    const NodeId first = data_sizes::RealFirst(b, value.node, *fact.dim, fact.axis, number, fact.dim->length);
    return std::vector<ir::GraphOutput>{{name, first},
                                        {SizeOutputName(name, static_cast<uint32_t>(fact.axis)), number}};
  }
  if (fact.counts.empty()) return RefuseDataSize(value, "the output \"" + name.substr(0, 200) + "\" has it");
  // Lengths of the full extent are replaced by the run's lengths.
  NodeId lengths = value.node;
  for (size_t i = 0; i < fact.counts.size(); ++i) {
    if (fact.counts[i] == nullptr) continue;
    const Shape shape = b.shape(lengths);
    const NodeId number = b.Cast(data_sizes::NumberOf(b, *fact.counts[i]), b.dtype(lengths));
    const NodeId here = shape.rank == 0
                            ? b.Ints(DType::kBool, Shape{}, {1})
                            : b.Binary(TapeOp::kEqual, b.Iota(shape, 0),
                                       b.Expand(b.Scalar(DType::kI64, static_cast<double>(i)), shape));
    lengths = b.Select(here, b.Expand(number, shape), lengths);
  }
  return std::vector<ir::GraphOutput>{{name, lengths}};
}

}  // namespace rondo::importer
