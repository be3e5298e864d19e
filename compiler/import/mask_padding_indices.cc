// Padding of indexed reads and writes: of their indices, of the dims among whose positions an index chooses,
// and of the others, which stay as they are.
#include <algorithm>
#include <set>

#include "compiler/import/padding_masker.h"

namespace rondo::importer {

using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

Status PaddingMasker::JoinMap(NodeId id, const std::vector<NodeId>& operands, NodeId data, PaddedDims* dims,
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

std::vector<PaddedAxis*> PaddingMasker::AxesIndexed(NodeId data, const ir::IndexedDim& dim,
                                                    PaddedDims* dims) const {
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

std::optional<PaddedAxis> PaddingMasker::AxisIndexed(NodeId data, const ir::IndexedDim& dim) const {
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

bool PaddingMasker::IsFixed(NodeId id) const {
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

bool PaddingMasker::StaysWithin(NodeId id, NodeId index, const PaddedAxis& axis) const {
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

Status PaddingMasker::CheckIndices(NodeId id, size_t first) {
  const std::vector<ir::IndexedDim> indices = g_->node(id).As<ir::IndexedAttrs>().dims;
  for (size_t k = 0; k < indices.size(); ++k) {
    const NodeId data = input(id, 0);
    if (indices[k].fault) MaskWithZeros(id, first + k);
    PaddedDims dims = dims_of(data);
    if (AxesIndexed(data, indices[k], &dims).empty()) continue;
    const std::optional<PaddedAxis> axis = AxisIndexed(data, indices[k]);
    if (!axis) return Refuse("its index counts positions of a padded dimension with others");
    if (!StaysWithin(id, input(id, first + k), *axis))
      return Refuse("it reads positions of a padded dimension that a run may not have");
    // Counted from the start already (Builder::FromStart), not from the end of the room.
    g_->node(id).As<ir::IndexedAttrs>().dims[k].wrap = false;
  }
  return Status::Ok();
}

Status PaddingMasker::VisitRead(NodeId id, PaddedDims* dims) {
  RONDO_RETURN_IF_ERROR(CheckIndices(id, 1));
  const std::vector<NodeId> inputs = g_->node(id).inputs;
  PaddedDims mapped;
  RONDO_RETURN_IF_ERROR(JoinMap(id, {inputs.begin() + 1, inputs.end()}, inputs[0], dims, &mapped));
  for (size_t d = 0; d < dims->size(); ++d) {
    if ((*dims)[d].part) return Refuse("it reads a part of a padded dimension");
    if (!(*dims)[d].padded()) SetSize(id, static_cast<int>(d), {}, dims);
  }
  ForgetFills(dims);
  return Status::Ok();
}

// Padding is written over padding, or nowhere.
Status PaddingMasker::VisitWrite(NodeId id, PaddedDims* dims) {
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
  ForgetFills(dims);
  if (holds != kNoNode) WriteOnly(id, holds, *dims);
  return Status::Ok();
}

void PaddingMasker::WriteOnly(NodeId id, NodeId holds, const PaddedDims& dims) {
  const std::vector<NodeId> inputs = g_->node(id).inputs;
  ir::IndexedAttrs attrs = g_->node(id).As<ir::IndexedAttrs>();
  std::vector<NodeId> index(inputs.begin() + 2, inputs.end());
  index.push_back(b_.Select(holds, b_.Scalar(DType::kI64, 0), b_.Scalar(DType::kI64, 1)));
  attrs.dims.push_back({0, 1, false, false});
  ReplaceBy(id, b_.IndexedWrite(inputs[0], inputs[1], index, attrs), dims);
}

Status PaddingMasker::VisitPad(NodeId id, PaddedDims* dims) {
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

}  // namespace rondo::importer
