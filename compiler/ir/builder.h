// Builder: appends nodes to a Graph with shapes worked out, views composed and small constants folded at
// once.
//
// The importer and the recognising passes make every node through it. A Builder borrows its Graph; it keeps a
// provenance (SetSources) that every node it makes carries. Its functions require valid arguments (shapes
// that broadcast, axes in range): callers check what a user's model can get wrong before they call.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/sizes.h"

namespace rondo::ir {

// Results with at most this many bytes are evaluated when all inputs are constants with bytes.
inline constexpr int64_t kFoldBytes = 64 << 10;
// Constants larger than this are weights: their values are not read to decide anything.
inline constexpr int64_t kMaxReadBytes = 64 << 20;

class Builder {
 public:
  explicit Builder(Graph* graph) : graph_(graph) {}
  Graph& graph() { return *graph_; }
  void SetSources(std::vector<std::string> sources) { sources_ = std::move(sources); }
  const std::vector<std::string>& sources() const { return sources_; }
  const std::map<std::string, std::string>& annotations() const { return annotations_; }
  void SetAnnotations(std::map<std::string, std::string> annotations) {
    annotations_ = std::move(annotations);
  }

  // Whether nodes over small constants become constants at once (they do, unless told otherwise).
  void FoldConstants(bool fold) { fold_ = fold; }

  // Notes in `sizes`, which is of this graph and outlives the builder, what dims are in a run. Views that
  // show all there is, as it is, are nodes too: their dims may be others.
  void Follow(Sizes* sizes) { sizes_ = sizes; }
  Sizes* sizes() const { return sizes_; }
  // A dim, or all: the extents unless sizes are followed that are not exact.
  Size SizeOf(NodeId x, int axis) const { return Follows() ? sizes_->Of(x, axis) : Size(shape(x)[axis]); }
  Dims SizesOf(NodeId x) const;
  // The same where sizes are exact, too.
  Size FormOf(NodeId x, int axis) const {
    return sizes_ != nullptr ? sizes_->Of(x, axis) : Size(shape(x)[axis]);
  }
  // x, of which the caller knows that its dims are these; their extents are those of x.
  NodeId WithSizes(NodeId x, const Dims& dims);
  // i64 []. Names have nodes (Sizes::SetNode). Of an unknown size, its extent: what it is of is looked at
  // again.
  NodeId Number(const Size& size);
  // Few whole numbers that constants and sizes make, if `x` is such.
  std::optional<Dims> Numbers(NodeId x) const;

  // Reads and writes made from now on end a run by an index out of range only where `condition` (bool [])
  // holds: elsewhere they take index 0. kNoNode: always, as without. For branches that a run chooses between.
  void FaultOnlyWhere(NodeId condition) { faults_where_ = condition; }
  NodeId faults_where() const { return faults_where_; }

  const Shape& shape(NodeId id) const { return graph_->node(id).shape; }
  DType dtype(NodeId id) const { return graph_->node(id).dtype; }

  NodeId Input(const std::string& name, DType dtype, const Shape& shape);
  NodeId Constant(std::shared_ptr<const ConstantData> data);
  // Dense constants from values, converted to dtype.
  NodeId Scalar(DType dtype, double value);
  NodeId I64(const std::vector<int64_t>& values);  // shape [n]
  NodeId Floats(DType dtype, const Shape& shape, const std::vector<double>& values);
  NodeId Ints(DType dtype, const Shape& shape, const std::vector<int64_t>& values);

  // Movement. Free: views.
  NodeId ViewNode(NodeId x, const View& view);  // `view` shows x's own dense storage
  NodeId Reshape(NodeId x, const Shape& shape);
  NodeId Transpose(NodeId x, const std::vector<int>& perm);
  NodeId Slice(NodeId x, int axis, int64_t start, int64_t step, int64_t count);
  NodeId Expand(NodeId x, const Shape& shape);
  NodeId ReshapeTo(NodeId x, const Dims& dims) { return WithSizes(Reshape(x, ExtentsOf(dims)), dims); }
  NodeId ExpandTo(NodeId x, const Dims& dims) { return WithSizes(Expand(x, ExtentsOf(dims)), dims); }
  NodeId Unsqueeze(NodeId x, int axis);  // a new dim of 1 before `axis`
  NodeId Squeeze(NodeId x, int axis);    // drops a dim of 1

  // Pointwise, with numpy broadcasting; dtypes of a and b must be equal. Comparisons give bool.
  NodeId Unary(TapeOp op, NodeId x, int64_t immediate = 0);
  NodeId Binary(TapeOp op, NodeId a, NodeId b);
  NodeId Select(NodeId condition, NodeId a, NodeId b);
  NodeId Cast(NodeId x, DType dtype);
  NodeId Add(NodeId a, NodeId b) { return Binary(TapeOp::kAdd, a, b); }
  NodeId Sub(NodeId a, NodeId b) { return Binary(TapeOp::kSub, a, b); }
  NodeId Mul(NodeId a, NodeId b) { return Binary(TapeOp::kMul, a, b); }
  NodeId Div(NodeId a, NodeId b) { return Binary(TapeOp::kDiv, a, b); }
  // x op value, value converted to x's dtype.
  NodeId BinaryScalar(TapeOp op, NodeId x, double value);

  NodeId Iota(const Shape& shape, int axis);
  NodeId IotaOver(const Dims& dims, int axis) { return WithSizes(Iota(ExtentsOf(dims), axis), dims); }
  // keep: reduced dims stay as 1.
  NodeId Reduce(ReduceKind kind, NodeId x, std::vector<int> axes, bool keep, bool last_index = false);
  NodeId Mean(NodeId x, std::vector<int> axes, bool keep);
  // Numpy matmul semantics for ranks >= 1, batch dims broadcast. Of 8-bit integers: i32, as Conv.
  NodeId MatMul(NodeId a, NodeId b);
  NodeId Conv(NodeId x, NodeId w, const ConvAttrs& attrs);
  NodeId Pool(NodeId x, const PoolAttrs& attrs);
  NodeId Concat(const std::vector<NodeId>& xs, int axis);
  // Places along a dim of `size`, those that are negative counted from its end on, as places from its start
  // on. The index itself where that is IndexedDim::wrap's to do: the dim is known.
  NodeId FromStart(NodeId index, const Size& size);
  // ONNX Gather: index of any rank and integer dtype.
  NodeId Gather(NodeId data, NodeId index, int axis, bool wrap = true);
  // `sizes`, if any are given: what the result's dims are (of data whose dims are not known they do not
  // follow).
  NodeId IndexedRead(NodeId data, const std::vector<NodeId>& index, const IndexedAttrs& attrs,
                     const Shape& shape, const Dims& sizes = {});
  NodeId IndexedWrite(NodeId data, NodeId updates, const std::vector<NodeId>& index,
                      const IndexedAttrs& attrs);
  // x in the middle of a tensor filled with `value` (a scalar of x's dtype); pads >= 0. It is
  // a kIndexedWrite of x, with no index, into the value repeated.
  NodeId PadConstant(NodeId x, NodeId value, const std::vector<int64_t>& before,
                     const std::vector<int64_t>& after);
  NodeId Attention(NodeId q, NodeId k, NodeId v, NodeId mask, NodeId limit, const AttentionAttrs& attrs,
                   NodeId sink = kNoNode);
  // After all collectives made before it by this builder. No sends.
  NodeId Collective(CollectiveOp op, NodeId x, int64_t devices, std::vector<uint32_t> group = {});

  // One node an output; for an output that passes an input through, that input. `inputs` are those present.
  // With side effects: after all such calls made before it by this builder.
  std::vector<NodeId> Call(const std::shared_ptr<const CallInfo>& info, std::vector<NodeId> inputs);

  // The values of an integer constant (or a view of one): how handlers read shapes and axes. False if not
  // constant.
  bool ConstantInts(NodeId id, std::vector<int64_t>* values) const;
  bool ConstantFloats(NodeId id, std::vector<double>* values) const;
  // The bytes that a constant, or a view of one, shows. False if it is not constant, is synthetic, or has
  // more than `most_bytes`.
  bool ConstantValue(NodeId id, int64_t most_bytes, std::shared_ptr<const ConstantData>* value) const;
  // Any scalar op over one to three inputs that broadcast; `dtype` is that of the result.
  NodeId Pointwise(const PointwiseAttrs& attrs, DType dtype, std::vector<NodeId> xs);
  // Whether no value of `index` is out of range: constants, and counters.
  bool AlwaysInside(NodeId index, const IndexedDim& dim) const;

 private:
  bool Follows() const { return sizes_ != nullptr && !sizes_->exact(); }
  NodeId Number(const std::shared_ptr<const Size::Atom>& atom);
  NodeId Finish(Op op, DType dtype, const Shape& shape, Attrs attrs, std::vector<NodeId> inputs);
  // `index`, or 0 where faults do not count.
  NodeId Guarded(NodeId index, const IndexedDim& dim);
  Graph* graph_;
  std::vector<std::string> sources_;
  std::map<std::string, std::string> annotations_;
  Sizes* sizes_ = nullptr;
  bool fold_ = true;
  NodeId faults_where_ = kNoNode;
  NodeId last_collective_ = kNoNode;
  NodeId last_effect_ = kNoNode;
};

// The shape that a and b broadcast to. False if they do not.
bool BroadcastShapes(const Shape& a, const Shape& b, Shape* out);

}  // namespace rondo::ir
