// Grouping: decides which nodes one part computes. Groups begin at nodes with a skeleton of their own
// (matmuls, convolutions, attention; then reductions; then the rest, as maps) and absorb what they can: one
// file for each way to join. A node only joins if the kernel's budget and the order of kernels allow it, and
// never if constraints keep it alone. Internal to compiler/fusion; lives while groups are formed.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/fusion/budget.h"
#include "compiler/fusion/context.h"
#include "compiler/fusion/cycles.h"

namespace rondo::fusion {

class Grouping {
 public:
  // `context` must outlive it.
  explicit Grouping(Context* context)
      : c_(*context), cycles_(context), budget_(context), failed_(context->group_of.size(), 0) {}

  void Run();

 private:
  // groups.cc: beginnings of groups.
  static bool IsAnchor(ir::Op op);
  bool Free(NodeId id) const { return c_.group_of[id] < 0 && c_.node(id).shape.elements() > 0; }
  // Whether it is in no group, and need not be kept apart from a node of this one (or of `region`, which may
  // join).
  bool MayJoin(int group, NodeId id, const std::vector<NodeId>& region = {}) const;
  bool Needed(NodeId id) const { return c_.stored[id] || !c_.readers[id].empty(); }
  bool Together(NodeId a, NodeId b) const;
  bool IotaNeedsMemory(NodeId id) const;
  Group* NewGroup(Skeleton skeleton, NodeId first);
  Group* NewBudgetedGroup(Skeleton skeleton, NodeId first);
  void Join(Group* group, NodeId id);
  void CallGroup(NodeId call);
  void AnchorGroup(NodeId anchor);
  void StoreNarrow(Group* group);
  void StoreBytes(Group* group);
  bool IsReadAtOnce(NodeId id) const;
  bool DependsOn(NodeId id, NodeId other, int steps = 0) const;
  bool ReadsWhatIsWritten(NodeId sink, NodeId id) const;

  // join_producers.cc: producers into their reader.
  static int CostOf(const ir::Node& node);
  bool CanComputeInside(NodeId r, NodeId id) const;
  bool AllReadersIn(NodeId id, int group);
  int64_t DomainElements(const Group& group) const;
  bool WorthComputingInside(const Group& group, NodeId id) const;
  bool IsRoundedForMemory(NodeId id) const;
  void AbsorbProducers(Group* group);
  bool TryAbsorb(Group* group, NodeId producer);

  // join_prologue.cc: work on the lhs of a matmul.
  void AbsorbPrologue(int id);
  bool InPrologue(int group, NodeId id) const;
  bool HasExpensiveInput(NodeId producer) const;

  // join_siblings.cc: matmuls with the same lhs.
  bool HasSameWindows(const ir::Node& a, const ir::Node& b) const;
  bool ArePackedAlike(const ir::Node& a, const ir::Node& b) const;
  bool ReadsSumsOfAnother(const Group& group, NodeId id, int step) const;
  bool TryTwin(Group* group, NodeId id);
  bool SameRead(NodeId a, NodeId b) const;
  std::optional<ir::View> PathTo(NodeId from, NodeId to, const Group& group) const;

  // join_epilogue.cc: work on an anchor's result.
  std::vector<NodeId> NextExit(const Group& group, NodeId at);
  bool Joins(const Group& group, NodeId at, const std::vector<NodeId>& region, NodeId id);
  void CombineBeside(Group* group);
  bool WaitsForUpdates(NodeId id) const;
  void StoreBeside(Group* group);
  enum class PathEnd { kFp8, kOneNumber };
  void TakeBeside(Group* group, PathEnd end);
  std::vector<NodeId> PathBeside(const Group& group, NodeId first, PathEnd end);
  bool Combines(const Group& group, const std::vector<NodeId>& path, NodeId at, NodeId id);

  // join_reduction.cc: work around a row reduction. Members are per element (with the domain's dense index)
  // or per row (with the row's).
  struct Rows {
    Shape domain;   // the reduced input's shape
    Shape reduced;  // the same with the reduced dims 1
    std::vector<int> axes;
    NodeId input = ir::kNoNode;  // what the first reduction reads
  };
  enum class Kind { kNone, kElement, kRow };
  using Kinds = std::unordered_map<NodeId, Kind>;  // of the cluster's members
  static Kind Of(const Kinds& kinds, NodeId id);
  Kind KindOf(const Rows& rows, const Kinds& kinds, NodeId id) const;
  void ReductionGroup(NodeId first);
  bool AllMayJoin(const Rows& rows, NodeId id, int group) const;
  bool TakesReduction(const Group& group, NodeId id) const;
  bool IsMadeForWrite(NodeId id) const;
  bool TryCluster(const Rows& rows, int group, Kinds* kinds, NodeId id);
  bool AddsToCollective(NodeId id) const;
  bool CanReduceBeside(const Rows& rows, int group, NodeId id) const;
  bool TryBeside(const Rows& rows, int group, Kinds* kinds, NodeId id);
  bool LeadsToReductionBeside(const Rows& rows, int group, NodeId id, int depth) const;
  bool TryRowProducer(const Rows& rows, int group, Kinds* kinds, NodeId id);
  bool TakeReductionsBeside(const Rows& rows, int group, Kinds* kinds, NodeId member);
  void AbsorbElements(const Rows& rows, int group, Kinds* kinds, std::vector<NodeId> work);

  Context& c_;
  CycleCheck cycles_;
  Budget budget_;
  // By node: the number of reductions before it in a group; -1, except during TakesReduction.
  mutable std::vector<int> levels_;
  std::vector<size_t> failed_;  // by node: the index of a reader that was outside a group
};

}  // namespace rondo::fusion
