// Masks padding in front of nodes that combine elements along a dim: reductions, matmuls, windows, attention;
// and concatenations, whose operands follow one another's sizes.
#include <algorithm>
#include <utility>

#include "compiler/import/decompose.h"
#include "compiler/import/neutral_number.h"
#include "compiler/import/padding_masker.h"

namespace rondo::importer {

using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

Status PaddingMasker::VisitReduce(NodeId id, PaddedDims* dims) {
  const ir::ReduceAttrs attrs = g_->node(id).As<ir::ReduceAttrs>();
  const NodeId x = input(id, 0);
  for (const int axis : attrs.axes) {
    const PaddedDim dim = dims_of(input(id, 0))[static_cast<size_t>(axis)];
    if (!dim.padded()) continue;
    const bool last = attrs.last_index;
    if (last) return RefuseOver("it looks for the last of equal elements", dim);
    const double nothing = NeutralNumber(attrs.kind, b_.dtype(x));
    const auto anything = [](const PaddedAxis& each) { return !each.padded() || !each.fill; };
    const bool is_free = std::all_of(dim.axes.begin(), dim.axes.end(), anything);
    const NodeId before = input(id, 0), masked = Masked(before, axis, nothing);
    if (masked == before) continue;
    // If the padding may hold anything, all readers get the masked value of a maximum: the exp needs -inf
    // too.
    if (attrs.kind == ir::ReduceKind::kMax && is_free && IsFloat(b_.dtype(x))) {
      for (const NodeId user : g_->UsersOf(before)) {
        if (user == masked || user > id) ReplaceInput(user, before, masked);
      }
    }
    ReplaceInput(id, before, masked);
  }
  *dims = dims_of(input(id, 0));
  ForgetFills(dims);
  for (const int axis : attrs.axes) (*dims)[static_cast<size_t>(axis)] = {};
  return Status::Ok();
}

Status PaddingMasker::VisitTopK(NodeId id, PaddedDims* dims) {
  const int last = b_.shape(id).rank - 1;
  const PaddedDim over = Joined(dims_of(input(id, 0)).back());
  if (over.axes.size() > 1) return RefuseOver("it looks for the first elements", over);
  // Behind all elements in order, and after those equal to it.
  const bool largest = g_->node(id).As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMax;
  if (over.padded())
    MaskInput(
        id, 0, last,
        NeutralNumber(largest ? ir::ReduceKind::kArgMax : ir::ReduceKind::kArgMin, b_.dtype(input(id, 0))));
  *dims = dims_of(input(id, 0));
  dims->back() = {};
  ForgetFills(dims);
  return Status::Ok();
}

Status PaddingMasker::VisitMatMul(NodeId id, PaddedDims* dims) {
  const int rank = b_.shape(id).rank, m = rank - 2, n = rank - 1;
  const NodeId a = input(id, 0);
  if (!std::holds_alternative<std::monostate>(g_->node(id).attrs)) {  // packed weights, without padding
    if (dims_of(a)[static_cast<size_t>(n)].padded())
      return Refuse("its packed weights have a fixed number of positions in a padded dimension");
    *dims = dims_of(a);
    (*dims)[static_cast<size_t>(n)] = {};
    ForgetFills(dims);
    return Status::Ok();
  }
  const NodeId b = input(id, 1);
  RONDO_RETURN_IF_ERROR(Join({a, b}, 0, m, dims));
  const PaddedDim over_a = dims_of(a)[static_cast<size_t>(n)], over_b = dims_of(b)[static_cast<size_t>(m)];
  if (over_a.padded() || over_b.padded()) {
    const bool spread = (over_a.repeated && !over_a.padded()) || (over_b.repeated && !over_b.padded());
    if (!spread && !SamePadding(over_a, over_b))
      return Refuse("it adds up over a padded dimension and one of a fixed size");
    if (over_a.padded()) MaskInput(id, 0, n, 0);
    if (over_b.padded()) MaskInput(id, 1, m, 0);
    if (spread) return Refuse("it adds up over a padded dimension what is repeated along it");
  }
  (*dims)[static_cast<size_t>(m)] = dims_of(input(id, 0))[static_cast<size_t>(m)];
  (*dims)[static_cast<size_t>(n)] = dims_of(input(id, 1))[static_cast<size_t>(n)];
  ForgetFills(dims);
  return Status::Ok();
}

Status PaddingMasker::VisitWindows(NodeId id, PaddedDims* dims) {
  const Node& n = g_->node(id);
  const bool convolves = n.op == Op::kConv;
  const NodeId x = n.inputs[0];
  if ((convolves && AnyPadded(dims_of(n.inputs[1]))) || (convolves && dims_of(x)[1].padded()))
    return Refuse("a convolution adds up over a padded dimension of its channels or weights");
  (*dims)[0] = dims_of(x)[0];
  (*dims)[1] = convolves ? PaddedDim() : dims_of(x)[1];
  for (int d = 2; d < n.shape.rank; ++d) {
    if (dims_of(x)[static_cast<size_t>(d)].padded()) RONDO_RETURN_IF_ERROR(VisitWindow(id, d, dims));
  }
  ForgetFills(dims);
  return Status::Ok();
}

Status PaddingMasker::VisitWindow(NodeId id, int d, PaddedDims* dims) {
  const Node& n = g_->node(id);
  const auto i = static_cast<size_t>(d - 2);
  const PaddedDim dim = Joined(dims_of(n.inputs[0])[static_cast<size_t>(d)]);
  if (dim.axes.size() != 1) return RefuseOver("a window goes", dim);
  const PaddedAxis& axis = dim.axes[0];
  const bool convolves = n.op == Op::kConv;
  int64_t reach = 0, stride = 0, before = 0, after = 0;
  double nothing = 0;
  if (convolves) {
    const ir::ConvAttrs& conv = n.As<ir::ConvAttrs>();
    reach = conv.dilations[i] * (b_.shape(n.inputs[1])[d] - 1) + 1;
    stride = conv.strides[i], before = conv.pads_begin[i], after = conv.pads_end[i];
    nothing = static_cast<double>(conv.absent);
  } else {
    const ir::PoolAttrs& pool = n.As<ir::PoolAttrs>();
    reach = pool.dilations[i] * (pool.kernel[i] - 1) + 1;
    stride = pool.strides[i], before = pool.pads_begin[i], after = pool.pads_end[i];
    if (pool.kind == Combine::kMax) nothing = NeutralNumber(ir::ReduceKind::kMax, n.dtype);
    if (reach >= axis.extent && before == 0) return RefuseOver("a window of all positions goes", dim);
    if (pool.kind == Combine::kMean && after > 0)
      return RefuseOver("a mean of windows that may be cut at the end goes", dim);
  }
  if (after > 0) MaskInput(id, 0, d, nothing);
  const ir::Size size = FloorDiv(axis.size + (before + after - reach + stride), stride);
  (*dims)[static_cast<size_t>(d)] = {{{b_.shape(id)[d], size, {}}}};
  return Status::Ok();
}

// A part behind a padded one begins where that one ends in the run.
Status PaddingMasker::VisitConcat(NodeId id, PaddedDims* dims) {
  const int axis = g_->node(id).As<ir::ConcatAttrs>().axis;
  const std::vector<NodeId> inputs = g_->node(id).inputs;
  RONDO_RETURN_IF_ERROR(Join(inputs, 0, axis, dims));
  RONDO_RETURN_IF_ERROR(Join(inputs, axis + 1, b_.shape(id).rank, dims));
  ir::Size total = 0;
  ir::Dims begins;
  for (const NodeId part : inputs) {
    const PaddedDim dim = Joined(dims_of(part)[static_cast<size_t>(axis)]);
    if (dim.axes.size() > 1) return Refuse("it puts something beside a padded dimension joined with others");
    begins.push_back(total);
    total = total + (dim.padded() ? dim.axes[0].size : ir::Size(b_.shape(part)[axis]));
  }
  if (!total.known()) (*dims)[static_cast<size_t>(axis)] = {{{b_.shape(id)[axis], total, {}}}};
  ForgetFills(dims);
  if (!begins.back().known()) ReplaceBy(id, JoinAt(b_, inputs, begins, axis), *dims);
  return Status::Ok();
}

// Attention reads only the keys that the run has.
Status PaddingMasker::VisitAttention(NodeId id, PaddedDims* dims) {
  if (!AnyInputPadded(id)) return Status::Ok();
  const ir::AttentionInputs in = ir::AttentionInputsOf(g_->node(id));
  const ir::AttentionAttrs attrs = g_->node(id).As<ir::AttentionAttrs>();
  const PaddedDim keys = dims_of(in.k)[2], values = dims_of(in.v)[2];
  if (!SamePadding(keys, values) || keys.axes.size() > 1)
    return Refuse("its keys and values have different numbers of positions");
  for (const NodeId each : {in.q, in.k, in.v}) {
    if (dims_of(each)[1].padded() || dims_of(each)[3].padded())
      return Refuse("attention adds up over a padded dimension of heads or features");
  }
  RONDO_RETURN_IF_ERROR(Join({in.q, in.k, in.v}, 0, 1, dims));
  (*dims)[2] = dims_of(in.q)[2];
  if (keys.padded()) {
    const NodeId real = b_.Number(keys.axes[0].size);
    const NodeId limit = in.limit == kNoNode ? real : b_.Binary(TapeOp::kMin, in.limit, real);
    const NodeId limited = b_.Attention(in.q, in.k, in.v, in.mask, limit, attrs, in.sink);
    ForgetFills(dims);
    ReplaceBy(id, limited, *dims);
    return Status::Ok();
  }
  ForgetFills(dims);
  return Status::Ok();
}

}  // namespace rondo::importer
