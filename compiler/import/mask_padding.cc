// Follows padding through the graph, node by node, as axes of dims with their sizes (padded_dims.h) and, if
// known, the one number that it holds. Elementwise nodes keep padding. Nodes that sum, compare or multiply
// over it get it masked: a select by position < size, with the neutral number. A softmax needs one mask:
// after the maximum its padding is -inf, so its exp is 0.
#include "compiler/import/mask_padding.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compiler/import/padding_masker.h"

namespace rondo::importer {

using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

bool IsFilledWith(const PaddedDim& dim, double number) {
  return std::all_of(dim.axes.begin(), dim.axes.end(),
                     [&](const PaddedAxis& axis) { return !axis.padded() || axis.fill == number; });
}

// The number of its positions in a run.
std::string Text(const PaddedDim& dim) {
  std::string text;
  for (const PaddedAxis& axis : dim.axes)
    text += (text.empty() ? "\"" : " times \"") + axis.size.Text() + "\"";
  return text.empty() ? "all" : text;
}

}  // namespace

Result<OutputSizes> PaddingMasker::Run() {
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

Status PaddingMasker::Visit(NodeId id, PaddedDims* dims) {
  const Node& n = g_->node(id);
  *dims = Unpadded(n.shape);
  switch (n.op) {
    case Op::kInput:
    case Op::kConstant:
      for (int d = 0; d < n.shape.rank; ++d) SetSize(id, d, 0, dims);
      return Status::Ok();
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

void PaddingMasker::SetSize(NodeId id, int d, std::optional<double> fill, PaddedDims* dims) const {
  const ir::Size size = sizes_->Of(id, d);
  if (size.unknown() || size.known()) return;
  (*dims)[static_cast<size_t>(d)] = {{{size.extent(), size, fill}}};
}

void PaddingMasker::Set(NodeId id, PaddedDims dims) {
  if (dims_.size() <= static_cast<size_t>(id)) dims_.resize(static_cast<size_t>(id) + 1);
  dims_[static_cast<size_t>(id)] = std::move(dims);
}

bool PaddingMasker::AnyInputPadded(NodeId id) const {
  const std::vector<NodeId>& inputs = g_->node(id).inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](NodeId in) { return AnyPadded(dims_of(in)); });
}

Status PaddingMasker::Refuse(const std::string& why) const {
  return Status::Error(Code::kUnsupported, "%s, so that padding would change results: %s", why.c_str(),
                       RemedyFor(sizes_->cause));
}

Status PaddingMasker::Named(const Status& status, NodeId id) const {
  const Node& n = g_->node(id);
  if (n.sources.empty() || status.source_node()[0] != '\0') return status;
  return status.At("%.400s", n.sources[0].c_str()).FromNode(n.sources[0]);
}

Status PaddingMasker::RefuseOver(const std::string& what, const PaddedDim& dim) const {
  std::string names;
  for (const PaddedAxis& axis : dim.axes) {
    for (const std::string& name : axis.size.names()) names += (names.empty() ? "\"" : ", \"") + name + "\"";
  }
  return Refuse(what + " over " + names);
}

NodeId PaddingMasker::Holds(NodeId x, int d) {
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

NodeId PaddingMasker::Masked(NodeId x, int d, double number) {
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

void PaddingMasker::MaskInput(NodeId id, size_t slot, int d, double number) {
  const NodeId masked = Masked(input(id, slot), d, number);
  if (masked != input(id, slot)) g_->SetInput(id, slot, masked);
}

void PaddingMasker::MaskWithZeros(NodeId id, size_t slot) {
  if (g_->node(g_->BaseOf(input(id, slot))).op == Op::kIota) return;  // counts up in padding, too
  for (int d = 0; d < b_.shape(id).rank; ++d) MaskInput(id, slot, d, 0);
}

void PaddingMasker::ReplaceInput(NodeId user, NodeId from, NodeId to) {
  if (user == to) return;
  for (size_t slot = 0; slot < g_->node(user).inputs.size(); ++slot) {
    if (input(user, slot) == from) g_->SetInput(user, slot, to);
  }
}

void PaddingMasker::ReplaceBy(NodeId id, NodeId made, const PaddedDims& dims) {
  for (NodeId each = static_cast<NodeId>(dims_.size()); each < g_->size(); ++each) Set(each, {});
  for (const NodeId user : g_->UsersOf(id)) ReplaceInput(user, id, made);
  for (const size_t output : g_->OutputsAt(id)) g_->SetOutput(output, made);
  Set(made, dims);
}

Status PaddingMasker::Join(const std::vector<NodeId>& operands, int first, int end, PaddedDims* dims) {
  for (int d = first; d < end; ++d) {
    const auto at = static_cast<size_t>(d);
    const PaddedDim* found = nullptr;
    bool repeated = true;
    for (const NodeId operand : operands) {
      const PaddedDim& dim = dims_of(operand)[at];
      if (dim.repeated && !dim.padded()) continue;
      repeated = false;
      if (found != nullptr && !SamePadding(*found, dim))
        return Refuse("its operands have different numbers of positions in dimension " + std::to_string(d) +
                      ", " + Text(*found) + " and " + Text(dim));
      found = &dim;
    }
    if (found != nullptr) (*dims)[at] = *found;
    (*dims)[at].repeated = repeated && b_.shape(operands[0])[d] > 1;
    (*dims)[at].part = false;
    for (PaddedAxis& axis : (*dims)[at].axes) axis.fill.reset();
  }
  return Status::Ok();
}

Status PaddingMasker::VisitView(NodeId id, PaddedDims* dims) {
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
