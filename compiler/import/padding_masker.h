// The class behind MaskPadding (mask_padding.h), whose rules for nodes are in four files: mask_padding.cc
// (movement), mask_padding_fills.cc (elementwise), mask_padding_sums.cc, mask_padding_indices.cc. Internal to
// compiler/import.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/mask_padding.h"
#include "compiler/import/padded_dims.h"
#include "compiler/ir/builder.h"

namespace rondo::importer {

class PaddingMasker {
 public:
  PaddingMasker(ir::Graph* graph, ir::Sizes* sizes) : g_(graph), sizes_(sizes), b_(graph) {
    b_.Follow(sizes);
  }

  Result<OutputSizes> Run();

 private:
  // What is known of a node that has been visited.
  const PaddedDims& dims_of(ir::NodeId id) const { return dims_[static_cast<size_t>(id)]; }
  void Set(ir::NodeId id, PaddedDims dims);
  ir::NodeId input(ir::NodeId id, size_t slot) const { return g_->node(id).inputs[slot]; }
  bool AnyInputPadded(ir::NodeId id) const;

  // Errors: `why` completes a sentence about the node, as does `what` before "over" and the dim's names.
  Status Refuse(const std::string& why) const;
  Status RefuseOver(const std::string& what, const PaddedDim& dim) const;
  Status Named(const Status& status, ir::NodeId id) const;

  // For each element of `x` along dim `d`: whether it belongs to the run. A bool tensor with extent 1 along
  // the other dims.
  ir::NodeId Holds(ir::NodeId x, int d);
  // `x` with `number` in its padding along dim `d`; x itself if that is already so.
  ir::NodeId Masked(ir::NodeId x, int d, double number);
  void MaskInput(ir::NodeId id, size_t slot, int d, double number);
  // Sets the padding of an input to 0, which is an index that always exists, and a finite number.
  void MaskWithZeros(ir::NodeId id, size_t slot);
  // Replaces `from` by `to` in all inputs of `user`, unless `user` is `to`: a mask reads what it masks.
  void ReplaceInput(ir::NodeId user, ir::NodeId from, ir::NodeId to);
  // Gives all readers of `id` the node `made` instead, which was built last and has `dims`.
  void ReplaceBy(ir::NodeId id, ir::NodeId made, const PaddedDims& dims);

  // The rules. Each masks the inputs of node `id` where it must, and sets `dims` for its result, which is
  // without padding before.
  Status Visit(ir::NodeId id, PaddedDims* dims);
  Status VisitView(ir::NodeId id, PaddedDims* dims);
  Status VisitPointwise(ir::NodeId id, PaddedDims* dims);
  Status VisitReduce(ir::NodeId id, PaddedDims* dims);
  Status VisitTopK(ir::NodeId id, PaddedDims* dims);
  Status VisitMatMul(ir::NodeId id, PaddedDims* dims);
  Status VisitWindows(ir::NodeId id, PaddedDims* dims);  // convolutions and pools
  Status VisitConcat(ir::NodeId id, PaddedDims* dims);
  Status VisitAttention(ir::NodeId id, PaddedDims* dims);
  Status VisitRead(ir::NodeId id, PaddedDims* dims);
  Status VisitWrite(ir::NodeId id, PaddedDims* dims);

  // Sets dim `d` from the symbolic sizes, if they have one for it.
  void SetSize(ir::NodeId id, int d, std::optional<double> fill, PaddedDims* dims) const;
  // Joins dims `first` to `end` of operands that must have equal sizes there.
  Status Join(const std::vector<ir::NodeId>& operands, int first, int end, PaddedDims* dims);

  // The number in a scalar operation's padding along an axis of dim `d`, which is cut into `cut` axes; none
  // if it is not one number.
  std::optional<double> FillOf(ir::NodeId id, size_t d, size_t axis, size_t cut) const;
  std::optional<double> NumberOf(ir::NodeId id) const;
  // Whether `id` is the broadcast reduction `kind` of `of`, apart from casts.
  bool IsOfLine(ir::NodeId id, ir::NodeId of, ir::ReduceKind kind) const;

  // A window over the padded dim `d`. With pads at the end, a result may reach beyond the run's elements: the
  // padding then stands for absent elements.
  Status VisitWindow(ir::NodeId id, int d, PaddedDims* dims);

  // The dims of `map` over the data of a read (or the target of a write), without those that an index
  // decides. They are joined with the dims of `operands`, the indices and updates.
  Status JoinMap(ir::NodeId id, const std::vector<ir::NodeId>& operands, ir::NodeId data, PaddedDims* dims,
                 PaddedDims* mapped);
  // The padded axes in `dims`, the data's, among whose positions an index chooses, alone or with other axes.
  std::vector<PaddedAxis*> AxesIndexed(ir::NodeId data, const ir::IndexedDim& dim, PaddedDims* dims) const;
  // The padded axis among whose positions an index chooses; none if it chooses among other positions as well.
  std::optional<PaddedAxis> AxisIndexed(ir::NodeId data, const ir::IndexedDim& dim) const;
  // Whether `id` depends only on constants and counters, not on the run.
  bool IsFixed(ir::NodeId id) const;
  // Whether a run-independent index stays within the positions that every run has. An index with a symbolic
  // size does: its producer follows sizes.
  bool StaysWithin(ir::NodeId id, ir::NodeId index, const PaddedAxis& axis) const;
  // Checks the indices of a read or write, which are the inputs from `first` on.
  Status CheckIndices(ir::NodeId id, size_t first);
  // Writes only the updates where `holds`: the others get a coordinate that no element has.
  void WriteOnly(ir::NodeId id, ir::NodeId holds, const PaddedDims& dims);
  // A write whose updates are one block within the data: the node pads a dim in front, or around.
  Status VisitPad(ir::NodeId id, PaddedDims* dims);

  ir::Graph* g_;
  ir::Sizes* sizes_;
  ir::Builder b_;
  std::vector<PaddedDims> dims_;  // by node
};

}  // namespace rondo::importer
