// Builder: appends nodes to a Graph; computes shapes, composes views and folds small constants on the way.
//
// The importer and the recognising passes create every node through it. A Builder borrows its Graph; every
// node it creates gets the current provenance (SetSources). Its functions require valid arguments (shapes
// that broadcast, axes in range): callers check what can be wrong in a user's model first.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/sizes.h"

namespace rondo::ir {

// Results of at most this many bytes are evaluated if all inputs are constants with bytes.
inline constexpr int64_t kFoldBytes = 64 << 10;
// Constants larger than this are weights: their values never influence decisions.
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

  // Whether nodes over small constants become constants at once (the default).
  void FoldConstants(bool fold) { fold_ = fold; }

  // Records the run-time dims of new nodes in `sizes`, which belongs to this graph and outlives the builder.
  // Views that show everything unchanged are then nodes too, since their dims may differ.
  void Follow(Sizes* sizes) { sizes_ = sizes; }
  Sizes* sizes() const { return sizes_; }
  // One dim: its extent, unless sizes are followed and not exact. SizesOf: all dims.
  Size SizeOf(NodeId x, int axis) const { return Follows() ? sizes_->Of(x, axis) : Size(shape(x)[axis]); }
  Dims SizesOf(NodeId x) const;
  // The same, also if sizes are exact.
  Size FormOf(NodeId x, int axis) const {
    return sizes_ != nullptr ? sizes_->Of(x, axis) : Size(shape(x)[axis]);
  }
  // x, whose dims the caller knows to be these; their extents are those of x.
  NodeId WithSizes(NodeId x, const Dims& dims);
  // i64 []. Names have nodes (Sizes::SetNode). For an unknown size: its extent, which is then reconsidered.
  NodeId Number(const Size& size);
  // A few integers made of constants and sizes, if `x` is such a tensor.
  std::optional<Dims> Numbers(NodeId x) const;

  // From now on, reads and writes fail a run because of an index out of range only if `condition` (bool [])
  // holds; otherwise they use index 0. kNoNode: always fail (default). For branches that are chosen at run
  // time.
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
  // x, asserted to be finite where faults count (FaultOnlyWhere).
  NodeId AssertFinite(NodeId x, int64_t number);
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
  // The places of the first k elements of each row (last dim) of x, i64; k at most the row's length.
  NodeId TopK(NodeId x, int64_t k, bool largest);
  NodeId Concat(const std::vector<NodeId>& xs, int axis);
  // Indices along a dim of `size`, with negative ones counted from its end. Returns the index unchanged if
  // the dim is known, since IndexedDim::wrap then does it.
  NodeId FromStart(NodeId index, const Size& size);
  // ONNX Gather: index of any rank and integer dtype.
  NodeId Gather(NodeId data, NodeId index, int axis, bool wrap = true);
  // `sizes`, if given: the dims of the result (needed if data's dims are unknown).
  NodeId IndexedRead(NodeId data, const std::vector<NodeId>& index, const IndexedAttrs& attrs,
                     const Shape& shape, const Dims& sizes = {});
  NodeId IndexedWrite(NodeId data, NodeId updates, const std::vector<NodeId>& index,
                      const IndexedAttrs& attrs);
  // x surrounded by `value` (a scalar of x's dtype); pads >= 0. A kIndexedWrite of x, without an index, into
  // the repeated value.
  NodeId PadConstant(NodeId x, NodeId value, const std::vector<int64_t>& before,
                     const std::vector<int64_t>& after);
  NodeId Attention(NodeId q, NodeId k, NodeId v, NodeId mask, NodeId limit, const AttentionAttrs& attrs,
                   NodeId sink = kNoNode);
  // Runs after all collectives that this builder made before. No sends.
  NodeId Collective(CollectiveOp op, NodeId x, int64_t devices, std::vector<uint32_t> group = {});

  // One node for each output; for an output that passes an input through, that input. `inputs` are the
  // present ones. With side effects: runs after all such calls that this builder made before.
  std::vector<NodeId> Call(const std::shared_ptr<const CallInfo>& info, std::vector<NodeId> inputs);

  // The values of an integer constant (or a view of one), for shapes and axes in handlers. False if it is not
  // constant.
  bool ConstantInts(NodeId id, std::vector<int64_t>* values) const;
  bool ConstantFloats(NodeId id, std::vector<double>* values) const;
  // The bytes that a constant, or a view of one, shows. False if it is not constant, is synthetic, or has
  // more than `most_bytes`.
  bool ConstantValue(NodeId id, int64_t most_bytes, std::shared_ptr<const ConstantData>* value) const;
  // Any scalar op over one to three inputs that broadcast; `dtype` is that of the result.
  NodeId Pointwise(const PointwiseAttrs& attrs, DType dtype, std::vector<NodeId> xs);
  // Whether the graph shows that no value of `index` is out of range (number_range.h).
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
