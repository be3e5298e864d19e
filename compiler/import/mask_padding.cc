// Follows padding through the graph, node by node, as axes of dims with their sizes (padded_dims.h) and, if
// known, the one number that it holds. Elementwise nodes keep padding. Nodes that sum, compare or multiply
// over it get it masked: a select by position < size, with the neutral number. A softmax needs one mask:
// after the maximum its padding is -inf, so its exp is 0.
#include "compiler/import/mask_padding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/neutral_number.h"
#include "compiler/import/padded_dims.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/evaluate.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

constexpr double kLeast = -std::numeric_limits<double>::infinity();

class PaddingMasker {
 public:
  PaddingMasker(ir::Graph* graph, ir::Sizes* sizes) : g_(graph), sizes_(sizes), b_(graph) {
    b_.Follow(sizes);
  }

  Result<OutputSizes> Run() {
    const NodeId end = g_->size();
    for (NodeId id = 0; id < end; ++id) {
      if (g_->node(id).dead) continue;
      b_.SetSources(g_->node(id).sources);
      b_.SetAnnotations(g_->node(id).annotations);
      PaddedDims dims;
      const Status status = Visit(id, &dims);
      if (!status.ok()) return Named(status, id);
      Set(id, std::move(dims));
    }
    OutputSizes out;
    for (const ir::GraphOutput& output : g_->outputs) {
      const NodeId id = output.node;
      ir::Dims& sizes = out.of.emplace_back();
      for (size_t d = 0; d < dims_of(id).size(); ++d) {
        const PaddedDim dim = Joined(dims_of(id)[d]);
        if (dim.axes.size() > 1) {
          return Named(Refuse("the output \"" + output.name + "\" joins dimension " + std::to_string(d) +
                              " of a padded one and others"),
                       id);
        }
        sizes.push_back(dim.padded() ? dim.axes[0].size : ir::Size(b_.shape(id)[static_cast<int>(d)]));
      }
    }
    return out;
  }

 private:
  // ------------------------------------------------------------------------------ what is known

  const PaddedDims& dims_of(NodeId id) { return dims_[static_cast<size_t>(id)]; }
  void Set(NodeId id, PaddedDims dims) {
    if (dims_.size() <= static_cast<size_t>(id)) dims_.resize(static_cast<size_t>(id) + 1);
    dims_[static_cast<size_t>(id)] = std::move(dims);
  }
  NodeId input(NodeId id, size_t slot) const { return g_->node(id).inputs[slot]; }
  bool AnyInputPadded(NodeId id) {
    const std::vector<NodeId>& inputs = g_->node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](NodeId in) { return AnyPadded(dims_of(in)); });
  }

  Status Refuse(const std::string& why) const {
    return Status::Error(Code::kUnsupported, "%s, so that padding would change results: %s", why.c_str(),
                         RemedyFor(sizes_->cause));
  }
  Status Named(const Status& status, NodeId id) const {
    const Node& n = g_->node(id);
    if (n.sources.empty() || status.source_node()[0] != '\0') return status;
    return status.At("%.400s", n.sources[0].c_str()).FromNode(n.sources[0]);
  }
  // "it adds up over "sequence""
  Status RefuseOver(const std::string& what, const PaddedDim& dim) const {
    std::string names;
    for (const PaddedAxis& axis : dim.axes) {
      for (const std::string& name : axis.size.names())
        names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    return Refuse(what + " over " + names);
  }

  // ------------------------------------------------------------------------------------- masks

  // For each element of `x` along dim `d`: whether it belongs to the run. A bool tensor with extent 1 along
  // the other dims.
  NodeId Holds(NodeId x, int d) {
    const PaddedDim dim = dims_of(x)[static_cast<size_t>(d)];
    Shape line, axes;
    line.rank = b_.shape(x).rank;
    for (int i = 0; i < line.rank; ++i) line[i] = i == d ? b_.shape(x)[d] : 1;
    for (const PaddedAxis& axis : dim.axes) axes.dims[axes.rank++] = axis.extent;
    NodeId holds = kNoNode;
    for (int k = 0; k < axes.rank; ++k) {
      const PaddedAxis& axis = dim.axes[static_cast<size_t>(k)];
      if (!axis.padded()) continue;
      const NodeId one = b_.Binary(TapeOp::kLess, b_.Iota(axes, k), b_.Number(axis.size));
      holds = holds == kNoNode ? one : b_.Binary(TapeOp::kBitAnd, holds, one);
    }
    return b_.Reshape(holds, line);
  }

  bool IsFilledWith(const PaddedDim& dim, double number) const {
    return std::all_of(dim.axes.begin(), dim.axes.end(),
                       [&](const PaddedAxis& axis) { return !axis.padded() || axis.fill == number; });
  }

  // `x` with `number` in its padding along dim `d`; x itself if that is already so.
  NodeId Masked(NodeId x, int d, double number) {
    const PaddedDims dims = dims_of(x);
    const PaddedDim& dim = dims[static_cast<size_t>(d)];
    if (IsFilledWith(dim, number)) return x;
    const NodeId masked = b_.Select(Holds(x, d), x, b_.Scalar(b_.dtype(x), number));
    PaddedDims now = dims;
    for (PaddedDim& other : now) {
      for (PaddedAxis& axis : other.axes) axis.fill.reset();
    }
    for (PaddedAxis& axis : now[static_cast<size_t>(d)].axes) {
      if (axis.padded()) axis.fill = number;
    }
    for (PaddedDim& each : now) each.part = false;
    now[static_cast<size_t>(d)].repeated = false;
    Set(masked, std::move(now));
    return masked;
  }

  void MaskInput(NodeId id, size_t slot, int d, double number) {
    const NodeId masked = Masked(input(id, slot), d, number);
    if (masked != input(id, slot)) g_->SetInput(id, slot, masked);
  }

  // ------------------------------------------------------------------------------------ the rules

  Status Visit(NodeId id, PaddedDims* dims) {
    const Node& n = g_->node(id);
    *dims = Unpadded(n.shape);
    switch (n.op) {
      case Op::kInput:
        for (int d = 0; d < n.shape.rank; ++d) SetSize(id, d, 0, dims);
        return Status::Ok();
      case Op::kConstant:
      case Op::kIota: return Status::Ok();
      case Op::kView: return VisitView(id, dims);
      case Op::kPointwise: return VisitPointwise(id, dims);
      case Op::kReduce: return VisitReduce(id, dims);
      case Op::kMatMul: return VisitMatMul(id, dims);
      case Op::kConv:
      case Op::kPool: return VisitWindows(id, dims);
      case Op::kTopK: return VisitTopK(id, dims);
      case Op::kIndexedRead: return VisitRead(id, dims);
      case Op::kIndexedWrite: return VisitWrite(id, dims);
      case Op::kConcat: return VisitConcat(id, dims);
      case Op::kAttention: return VisitAttention(id, dims);
      default:
        if (!AnyInputPadded(id)) return Status::Ok();
        return Refuse(std::string("a ") + ir::Name(n.op) + " sees all of its inputs");
    }
  }

  // Sets dim `d` from the symbolic sizes, if they have one for it.
  void SetSize(NodeId id, int d, std::optional<double> fill, PaddedDims* dims) const {
    const ir::Size size = sizes_->Of(id, d);
    if (size.unknown() || size.known()) return;
    (*dims)[static_cast<size_t>(d)] = {{{size.extent(), size, fill}}};
  }

  Status VisitView(NodeId id, PaddedDims* dims) {
    const NodeId base = input(id, 0);
    std::string why;
    std::optional<PaddedDims> shown =
        Shown(dims_of(base), b_.shape(base), g_->node(id).As<ir::ViewAttrs>().view, &why);
    if (!shown) return Refuse("it " + why);
    *dims = std::move(*shown);
    for (int d = 0; d < b_.shape(id).rank; ++d) {
      PaddedDim& dim = (*dims)[static_cast<size_t>(d)];
      const ir::Size size = sizes_->Of(id, d);
      if (!dim.padded()) {  // ranges and broadcasts along a symbolic size
        SetSize(id, d, {}, dims);
      } else if (dim.part && (size.unknown() || dim.axes.size() != 1)) {
        return Refuse("it shows a part of a padded dimension, and which does not follow from its size");
      } else if (dim.part && size.known()) {
        if (dim.axes[0].size.least() < *size.value())
          return Refuse("it takes positions of a padded dimension that a run may not have");
        dim = {};
      } else if (dim.part) {
        dim.axes[0].size = size;
      }
    }
    return Status::Ok();
  }

  // Joins dims `first` to `end` of operands that must have equal sizes there.
  Status Join(const std::vector<NodeId>& operands, int first, int end, PaddedDims* dims) {
    for (int d = first; d < end; ++d) {
      const auto at = static_cast<size_t>(d);
      const PaddedDim* found = nullptr;
      bool repeated = true;
      for (const NodeId operand : operands) {
        const PaddedDim& dim = dims_of(operand)[at];
        if (dim.repeated && !dim.padded()) continue;
        repeated = false;
        if (found != nullptr && !SamePadding(*found, dim))
          return Refuse("its operands have different numbers of positions in dimension " + std::to_string(d));
        found = &dim;
      }
      if (found != nullptr) (*dims)[at] = *found;
      (*dims)[at].repeated = repeated && b_.shape(operands[0])[d] > 1;
      (*dims)[at].part = false;
      for (PaddedAxis& axis : (*dims)[at].axes) axis.fill.reset();
    }
    return Status::Ok();
  }

  Status VisitPointwise(NodeId id, PaddedDims* dims) {
    if (ir::IsAssertion(g_->node(id))) MaskWithZeros(id, 0);
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    RONDO_RETURN_IF_ERROR(Join(inputs, 0, b_.shape(id).rank, dims));
    for (size_t d = 0; d < dims->size(); ++d) {
      for (size_t k = 0; k < (*dims)[d].axes.size(); ++k) {
        if ((*dims)[d].axes[k].padded()) (*dims)[d].axes[k].fill = FillOf(id, d, k, (*dims)[d].axes.size());
      }
    }
    return Status::Ok();
  }

  // The number in a scalar operation's padding along an axis of dim `d`, which is cut into `cut` axes; none
  // if it is not one number.
  std::optional<double> FillOf(NodeId id, size_t d, size_t axis, size_t cut) {
    const Node& n = g_->node(id);
    ir::Values values;
    std::vector<std::optional<double>> fills;
    bool all = true;
    for (const NodeId in : n.inputs) {
      const PaddedDim& dim = dims_of(in)[d];
      const bool alike = dim.axes.size() == cut;
      fills.push_back(!dim.padded() ? NumberOf(in) : alike ? dim.axes[axis].fill : std::nullopt);
      all = all && fills.back().has_value();
      if (!all) continue;
      std::vector<uint8_t> bytes(static_cast<size_t>(ByteSize(b_.dtype(in))));
      scalar::Store<double>(b_.dtype(in), bytes.data(), 0, *fills.back());
      values.push_back(ir::ConstantData::Own(b_.dtype(in), Shape{}, std::move(bytes)));
    }
    if (all) {
      Node one = n;
      one.shape = Shape{};
      const auto value = ir::EvaluateNode(one, values);
      if (!value.ok()) return std::nullopt;
      return scalar::Load<double>(n.dtype, (*value)->bytes.data(), 0);
    }
    // A softmax subtracts a row's maximum and divides by its sum. Whatever these are, the padding is known;
    // they are NaN only if the whole row is.
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kSub && fills[0] == kLeast && IsOfLine(n.inputs[1], n.inputs[0], ir::ReduceKind::kMax))
      return kLeast;
    if (op == TapeOp::kDiv && fills[0] == 0.0 && IsOfLine(n.inputs[1], n.inputs[0], ir::ReduceKind::kSum))
      return 0;
    return std::nullopt;
  }

  std::optional<double> NumberOf(NodeId id) const {
    const Node& base = g_->node(g_->BaseOf(id));
    if (base.op != Op::kConstant || base.shape.elements() != 1) return std::nullopt;
    const ir::ConstantData& data = *base.As<ir::ConstantAttrs>().data;
    if (data.synthetic) return std::nullopt;
    return scalar::Load<double>(data.dtype, data.bytes.data(), 0);
  }

  // Whether `id` is the broadcast reduction `kind` of `of`, apart from casts.
  bool IsOfLine(NodeId id, NodeId of, ir::ReduceKind kind) const {
    const auto past_casts = [&](NodeId at) {
      for (;;) {
        const Node& n = g_->node(g_->BaseOf(at));
        const bool cast = n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kCast;
        if (!cast) return at;
        at = n.inputs[0];
      }
    };
    const Node& reduction = g_->node(g_->BaseOf(past_casts(id)));
    return reduction.op == Op::kReduce && reduction.As<ir::ReduceAttrs>().kind == kind &&
           past_casts(reduction.inputs[0]) == past_casts(of);
  }

  Status VisitReduce(NodeId id, PaddedDims* dims) {
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
    for (PaddedDim& dim : *dims) {
      dim.repeated = dim.part = false;
      for (PaddedAxis& axis : dim.axes) axis.fill.reset();
    }
    for (const int axis : attrs.axes) (*dims)[static_cast<size_t>(axis)] = {};
    return Status::Ok();
  }

  Status VisitTopK(NodeId id, PaddedDims* dims) {
    *dims = dims_of(input(id, 0));
    if (dims->back().padded()) return RefuseOver("it looks for the first elements", dims->back());
    for (PaddedDim& dim : *dims) {
      dim.repeated = dim.part = false;
      for (PaddedAxis& axis : dim.axes) axis.fill.reset();
    }
    return Status::Ok();
  }

  // Replaces `from` by `to` in all inputs of `user`, unless `user` is `to`: a mask reads what it masks.
  void ReplaceInput(NodeId user, NodeId from, NodeId to) {
    if (user == to) return;
    for (size_t slot = 0; slot < g_->node(user).inputs.size(); ++slot) {
      if (input(user, slot) == from) g_->SetInput(user, slot, to);
    }
  }

  // `made`, which was built last and has `dims`, for all readers of `id`.
  void ReplaceBy(NodeId id, NodeId made, const PaddedDims& dims) {
    for (NodeId each = static_cast<NodeId>(dims_.size()); each < g_->size(); ++each) Set(each, {});
    for (const NodeId user : g_->UsersOf(id)) ReplaceInput(user, id, made);
    for (const size_t output : g_->OutputsAt(id)) g_->SetOutput(output, made);
    Set(made, dims);
  }

  Status VisitMatMul(NodeId id, PaddedDims* dims) {
    const int rank = b_.shape(id).rank, m = rank - 2, n = rank - 1;
    const NodeId a = input(id, 0);
    if (!std::holds_alternative<std::monostate>(g_->node(id).attrs)) {  // packed weights, without padding
      if (dims_of(a)[static_cast<size_t>(n)].padded())
        return Refuse("its packed weights have a fixed number of positions in a padded dimension");
      *dims = dims_of(a);
      (*dims)[static_cast<size_t>(n)] = {};
      return Forget(dims);
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
    return Forget(dims);
  }

  Status Forget(PaddedDims* dims) const {
    for (PaddedDim& dim : *dims) {
      dim.repeated = dim.part = false;
      for (PaddedAxis& axis : dim.axes) axis.fill.reset();
    }
    return Status::Ok();
  }

  // Convolutions and pools.
  Status VisitWindows(NodeId id, PaddedDims* dims) {
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
    return Forget(dims);
  }

  // A window over the padded dim `d`. With pads at the end, a result may reach beyond the run's elements: the
  // padding then stands for absent elements.
  Status VisitWindow(NodeId id, int d, PaddedDims* dims) {
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

  // The dims of `map` over the data of a read (or the target of a write), without those that an index
  // decides. They are joined with the dims of `operands`, the indices and updates.
  Status JoinMap(NodeId id, const std::vector<NodeId>& operands, NodeId data, PaddedDims* dims,
                 PaddedDims* mapped) {
    const ir::IndexedAttrs& attrs = g_->node(id).As<ir::IndexedAttrs>();
    std::string why;
    PaddedDims unindexed = dims_of(data);
    for (const ir::IndexedDim& dim : attrs.dims) {
      for (PaddedAxis* axis : AxesIndexed(data, dim, &unindexed)) axis->size = axis->extent;
    }
    std::optional<PaddedDims> shown = Shown(unindexed, b_.shape(data), attrs.map, &why);
    if (!shown) return Refuse("it " + why);
    *mapped = std::move(*shown);
    *dims = Unpadded(attrs.map.shape());
    if (!operands.empty()) RONDO_RETURN_IF_ERROR(Join(operands, 0, attrs.map.shape().rank, dims));
    for (size_t d = 0; d < dims->size(); ++d) {
      PaddedDim &dim = (*dims)[d], &by_map = (*mapped)[d];
      const bool free = operands.empty() || (dim.repeated && !dim.padded());
      const bool apart = by_map.repeated || attrs.map.shape()[static_cast<int>(d)] == 1;
      if (free) {
        dim = by_map;
      } else if (!apart && !SamePadding(dim, by_map)) {
        return Refuse("its index and its data have different numbers of positions in dimension " +
                      std::to_string(d));
      }
    }
    return Status::Ok();
  }

  // The padded axes in `dims`, the data's, among whose positions an index chooses, alone or with other axes.
  std::vector<PaddedAxis*> AxesIndexed(NodeId data, const ir::IndexedDim& dim, PaddedDims* dims) const {
    std::vector<PaddedAxis*> indexed;
    int64_t stride = b_.shape(data).elements();
    for (size_t d = 0; d < dims->size(); ++d) {
      if (!(*dims)[d].padded()) stride /= std::max<int64_t>(b_.shape(data)[static_cast<int>(d)], 1);
      for (PaddedAxis& axis : (*dims)[d].axes) {
        const int64_t outer = stride;
        stride /= std::max<int64_t>(axis.extent, 1);
        const bool touches = dim.stride < outer && dim.stride * (dim.extent - 1) >= stride;
        if (axis.padded() && touches) indexed.push_back(&axis);
      }
    }
    return indexed;
  }

  // The padded axis among whose positions an index chooses; none if it chooses among other positions as well.
  std::optional<PaddedAxis> AxisIndexed(NodeId data, const ir::IndexedDim& dim) {
    int64_t stride = b_.shape(data).elements();
    const PaddedDims& dims = dims_of(data);
    for (size_t d = 0; d < dims.size(); ++d) {
      for (const PaddedAxis& axis : Joined(dims[d]).axes) {
        stride /= axis.extent;
        if (axis.padded() && dim.stride == stride && dim.extent == axis.extent) return axis;
      }
      if (!dims[d].padded()) stride /= std::max<int64_t>(b_.shape(data)[static_cast<int>(d)], 1);
    }
    return std::nullopt;
  }

  // Whether `id` depends only on constants and counters, not on the run.
  bool IsFixed(NodeId id) const {
    std::vector<NodeId> work = {id};
    std::set<NodeId> seen;
    while (!work.empty()) {
      const Node& n = g_->node(work.back());
      work.pop_back();
      if (n.inputs.empty() && n.op != Op::kConstant && n.op != Op::kIota) return false;
      for (const NodeId in : n.inputs) {
        if (seen.insert(in).second) work.push_back(in);
      }
    }
    return true;
  }

  // Whether a run-independent index stays within the positions that every run has. An index with a symbolic
  // size does: its producer follows sizes.
  bool StaysWithin(NodeId id, NodeId index, const PaddedAxis& axis) {
    const auto follows = [&](int d) {
      const ir::Size size = sizes_->Of(id, d);
      return !size.known() && !size.unknown();
    };
    for (int d = 0; d < b_.shape(id).rank; ++d) {
      if (follows(d)) return true;
    }
    if (AnyPadded(dims_of(index)) || !IsFixed(index)) return true;
    std::vector<int64_t> places;
    return b_.ConstantInts(index, &places) && std::all_of(places.begin(), places.end(), [&](int64_t place) {
             return place >= 0 && place < axis.size.least();
           });
  }

  // Sets the padding of an input to 0, which is an index that always exists, and a finite number.
  void MaskWithZeros(NodeId id, size_t slot) {
    if (g_->node(g_->BaseOf(input(id, slot))).op == Op::kIota) return;  // counts up in padding, too
    for (int d = 0; d < b_.shape(id).rank; ++d) {
      const PaddedDim dim = dims_of(input(id, slot))[static_cast<size_t>(d)];
      const auto known = [](const PaddedAxis& axis) { return !axis.padded() || axis.fill == 0.0; };
      if (!std::all_of(dim.axes.begin(), dim.axes.end(), known)) MaskInput(id, slot, d, 0);
    }
  }

  Status CheckIndices(NodeId id, size_t first) {
    const std::vector<ir::IndexedDim> indices = g_->node(id).As<ir::IndexedAttrs>().dims;
    for (size_t k = 0; k < indices.size(); ++k) {
      const NodeId data = input(id, 0);
      if (indices[k].fault) MaskWithZeros(id, first + k);
      PaddedDims dims = dims_of(data);
      if (AxesIndexed(data, indices[k], &dims).empty()) continue;
      const std::optional<PaddedAxis> axis = AxisIndexed(data, indices[k]);
      if (indices[k].wrap || !axis)
        return Refuse("its index counts positions of a padded dimension from the end, or with others");
      if (!StaysWithin(id, input(id, first + k), *axis))
        return Refuse("it reads positions of a padded dimension that a run may not have");
    }
    return Status::Ok();
  }

  Status VisitRead(NodeId id, PaddedDims* dims) {
    RONDO_RETURN_IF_ERROR(CheckIndices(id, 1));
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    PaddedDims mapped;
    RONDO_RETURN_IF_ERROR(JoinMap(id, {inputs.begin() + 1, inputs.end()}, inputs[0], dims, &mapped));
    for (size_t d = 0; d < dims->size(); ++d) {
      if ((*dims)[d].part) return Refuse("it reads a part of a padded dimension");
      if (!(*dims)[d].padded()) SetSize(id, static_cast<int>(d), {}, dims);
    }
    return Forget(dims);
  }

  // Padding is written over padding, or nowhere.
  Status VisitWrite(NodeId id, PaddedDims* dims) {
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    *dims = dims_of(inputs[0]);
    if (!AnyInputPadded(id)) return Status::Ok();
    const ir::IndexedAttrs& attrs = g_->node(id).As<ir::IndexedAttrs>();
    if (attrs.dims.empty()) return VisitPad(id, dims);
    RONDO_RETURN_IF_ERROR(CheckIndices(id, 2));
    PaddedDims all, mapped;
    NodeId holds = kNoNode;  // of the updates that are not the same padding in the result
    RONDO_RETURN_IF_ERROR(
        JoinMap(id, {g_->node(id).inputs.begin() + 1, g_->node(id).inputs.end()}, inputs[0], &all, &mapped));
    for (size_t d = 0; d < all.size(); ++d) {
      if (!all[d].padded() || (!all[d].part && SamePadding(all[d], mapped[d]))) continue;
      const auto holder = std::find_if(inputs.begin() + 1, inputs.end(),
                                       [&](NodeId in) { return SamePadding(dims_of(in)[d], all[d]); });
      if (all[d].part || holder == inputs.end())
        return Refuse("it writes as many elements as a padded dimension has");
      const NodeId here = b_.Expand(Holds(*holder, static_cast<int>(d)), b_.shape(inputs[1]));
      holds = holds == kNoNode ? here : b_.Binary(TapeOp::kBitAnd, holds, here);
    }
    RONDO_RETURN_IF_ERROR(Forget(dims));
    if (holds != kNoNode) WriteOnly(id, holds, *dims);
    return Status::Ok();
  }

  // Padding gets a coordinate that no element has: nothing is written from there.
  void WriteOnly(NodeId id, NodeId holds, const PaddedDims& dims) {
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    ir::IndexedAttrs attrs = g_->node(id).As<ir::IndexedAttrs>();
    std::vector<NodeId> index(inputs.begin() + 2, inputs.end());
    index.push_back(b_.Select(holds, b_.Scalar(DType::kI64, 0), b_.Scalar(DType::kI64, 1)));
    attrs.dims.push_back({0, 1, false, false});
    ReplaceBy(id, b_.IndexedWrite(inputs[0], inputs[1], index, attrs), dims);
  }

  // The updates are one block within the data: the node pads a dim in front, or around.
  Status VisitPad(NodeId id, PaddedDims* dims) {
    const NodeId data = input(id, 0);
    const ir::View map = g_->node(id).As<ir::IndexedAttrs>().map;
    const Shape whole = b_.shape(data), shape = b_.shape(input(id, 1));
    if (!map.affine() || shape.rank != whole.rank) return Refuse("it writes in an order of its own");
    int64_t stride = 1, offset = map.steps[0].offset;
    for (int d = whole.rank; d-- > 0; stride *= whole[d]) {
      const int64_t first = stride == 0 ? 0 : (offset / stride) % std::max<int64_t>(whole[d], 1);
      const auto at = static_cast<size_t>(d);
      const PaddedDim dim = Joined(dims_of(input(id, 1))[at]);
      (*dims)[at] = {};
      if (shape[d] > 1 && map.steps[0].strides[d] != stride) return Refuse("it writes with gaps");
      if (!dim.padded()) {
        if (dims_of(data)[at].padded() && shape[d] != whole[d])
          return Refuse("it writes into a part of a padded dimension");
        (*dims)[at] = dims_of(data)[at];
        continue;
      }
      if (dim.axes.size() != 1) return Refuse("it pads a dimension that a padded one is joined with");
      const int64_t behind = whole[d] - shape[d] - first;
      const std::optional<double> value = NumberOf(data);
      if (behind != 0 && !value) return Refuse("it puts something behind a padded dimension");
      if (behind != 0) MaskInput(id, 1, d, *value);  // the padding is the first of what lies behind
      (*dims)[at] = {{{whole[d], dim.axes[0].size + first + behind, {}}}};
    }
    return Status::Ok();
  }

  // A part behind a padded one begins where that one ends in the run.
  Status VisitConcat(NodeId id, PaddedDims* dims) {
    const int axis = g_->node(id).As<ir::ConcatAttrs>().axis;
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    RONDO_RETURN_IF_ERROR(Join(inputs, 0, axis, dims));
    RONDO_RETURN_IF_ERROR(Join(inputs, axis + 1, b_.shape(id).rank, dims));
    ir::Size total = 0;
    ir::Dims begins;
    for (const NodeId part : inputs) {
      const PaddedDim dim = Joined(dims_of(part)[static_cast<size_t>(axis)]);
      if (dim.axes.size() > 1)
        return Refuse("it puts something beside a padded dimension joined with others");
      begins.push_back(total);
      total = total + (dim.padded() ? dim.axes[0].size : ir::Size(b_.shape(part)[axis]));
    }
    if (!total.known()) (*dims)[static_cast<size_t>(axis)] = {{{b_.shape(id)[axis], total, {}}}};
    RONDO_RETURN_IF_ERROR(Forget(dims));
    if (!begins.back().known()) ReplaceBy(id, JoinAt(b_, inputs, begins, axis), *dims);
    return Status::Ok();
  }

  // Attention reads only the keys that the run has.
  Status VisitAttention(NodeId id, PaddedDims* dims) {
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
      RONDO_RETURN_IF_ERROR(Forget(dims));
      ReplaceBy(id, limited, *dims);
      return Status::Ok();
    }
    return Forget(dims);
  }

  ir::Graph* g_;
  ir::Sizes* sizes_;
  ir::Builder b_;
  std::vector<PaddedDims> dims_;  // by node
};

}  // namespace

const char* RemedyFor(const std::string& cause) {
  return cause == "--bound"
             ? "data decide that dimension: give values to the inputs that do (--bind "
               "INPUT=VALUE), or cut the model before this node"
             : "give that dimension one size (--shape NAME=N), or a program for each of its sizes";
}

Result<OutputSizes> MaskPadding(ir::Graph* graph, ir::Sizes* sizes) {
  return PaddingMasker(graph, sizes).Run();
}

}  // namespace rondo::importer
