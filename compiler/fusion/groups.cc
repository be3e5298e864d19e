// Forms the groups: which nodes are computed by one part.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "compiler/fusion/budget.h"
#include "compiler/fusion/context.h"
#include "compiler/fusion/cycles.h"

namespace rondo::fusion {

using ir::kNoNode;
using ir::Node;
using ir::Op;
using ir::View;

namespace {

bool IsAnchor(Op op) {
  return op == Op::kMatMul || op == Op::kConv || op == Op::kPool || op == Op::kAttention;
}

Skeleton SkeletonOf(Op op) {
  switch (op) {
    case Op::kMatMul: return Skeleton::kContraction;
    case Op::kConv:
    case Op::kPool: return Skeleton::kConvolution;
    case Op::kAttention: return Skeleton::kAttention;
    case Op::kReduce: return Skeleton::kReduction;
    default: return Skeleton::kMap;
  }
}

// What one evaluation costs, in additions.
int CostOf(const Node& node) {
  if (node.op == Op::kIndexedRead) return 2;
  switch (node.As<ir::PointwiseAttrs>().op) {
    case TapeOp::kAdd:
    case TapeOp::kSub:
    case TapeOp::kMul:
    case TapeOp::kNeg:
    case TapeOp::kAbs:
    case TapeOp::kMin:
    case TapeOp::kMax:
    case TapeOp::kCast:
    case TapeOp::kSelect:
    case TapeOp::kLess:
    case TapeOp::kLessEqual:
    case TapeOp::kEqual:
    case TapeOp::kNot: return 1;
    case TapeOp::kDiv:
    case TapeOp::kSqrt:
    case TapeOp::kReciprocal: return 4;
    default: return 16;
  }
}

class Grouping {
 public:
  explicit Grouping(Context* context)
      : c_(*context), cycles_(context), budget_(context), failed_(context->group_of.size(), 0) {}

  void Run() {
    for (NodeId id : c_.order) {
      if (c_.node(id).op == Op::kCollective) NewGroup(Skeleton::kMap, id)->collective = true;
      if (c_.node(id).op == Op::kCall || c_.node(id).op == Op::kLoop) CallGroup(id);
    }
    for (NodeId id : c_.order) {
      if (IsAnchor(c_.node(id).op) && Free(id)) AnchorGroup(id);
    }
    for (NodeId id : c_.order) {
      if (c_.node(id).op == Op::kReduce && Free(id)) ReductionGroup(id);
    }
    for (int id = 0; id < static_cast<int>(c_.groups.size()); ++id) {
      if (c_.groups[id].skeleton == Skeleton::kContraction) AbsorbPrologue(id);
    }
    for (size_t i = c_.order.size(); i-- > 0;) {
      NodeId id = c_.order[i];
      Op op = c_.node(id).op;
      if (!Free(id)) continue;
      bool map = op == Op::kPointwise || op == Op::kIndexedRead || op == Op::kIndexedWrite ||
                 (op == Op::kIota && IotaNeedsMemory(id));
      if (!map || !Needed(id)) continue;
      AbsorbProducers(NewBudgetedGroup(Skeleton::kMap, id));
    }
  }

 private:
  bool Free(NodeId id) const { return c_.group_of[id] < 0 && c_.node(id).shape.elements() > 0; }
  bool Needed(NodeId id) const { return c_.stored[id] || !c_.readers[id].empty(); }

  bool IotaNeedsMemory(NodeId id) const {
    if (c_.stored[id]) return true;
    return std::any_of(c_.readers[id].begin(), c_.readers[id].end(),
                       [&](NodeId r) { return !CanComputeInside(r, id); });
  }

  // Whether reader `r` can compute `id` itself instead of loading it.
  bool CanComputeInside(NodeId r, NodeId id) const {
    const Node& reader = c_.node(r);
    if (reader.op == Op::kPointwise || reader.op == Op::kReduce) return true;
    if (reader.op != Op::kIndexedWrite) return false;
    for (size_t k = 0; k < reader.inputs.size(); ++k) {
      if (k != 1 && c_.base(reader.inputs[k]) == id) return false;
    }
    return true;
  }

  Group* NewGroup(Skeleton skeleton, NodeId first) {
    Group group;
    group.id = static_cast<int>(c_.groups.size());
    group.skeleton = skeleton;
    group.sink = first;
    c_.groups.push_back(std::move(group));
    Join(&c_.groups.back(), first);
    return &c_.groups.back();
  }

  void Join(Group* group, NodeId id) {
    group->nodes.push_back(id);
    c_.group_of[id] = group->id;
    cycles_.Joined(id, group->nodes[0]);
  }

  // The same for a group of one node, which always fits.
  Group* NewBudgetedGroup(Skeleton skeleton, NodeId first) {
    Group* group = NewGroup(skeleton, first);
    budget_.Take(*group, first);
    return group;
  }

  // A call or a loop, with its results.
  void CallGroup(NodeId call) {
    Group* group = NewGroup(Skeleton::kMap, call);
    group->call = c_.node(call).op == Op::kCall;
    group->loop = !group->call;
    for (NodeId reader : c_.readers[call]) {
      const Node& node = c_.node(reader);
      const bool result = node.op == Op::kCallResult || node.op == Op::kLoopResult;
      if (result && node.inputs[0] == call) Join(group, reader);
    }
  }

  // ------------------------------------------------------------------ producers into their reader

  // Starts with the reader that was in the way the last time: it mostly still is.
  bool AllReadersIn(NodeId id, int group) {
    const std::vector<NodeId>& readers = c_.readers[id];
    size_t& at = failed_[id];
    for (size_t seen = 0; seen < readers.size(); ++seen) {
      const NodeId r = readers[at];
      if (!c_.InGroup(r, group) || !CanComputeInside(r, id)) return false;
      at = at + 1 < readers.size() ? at + 1 : 0;
    }
    return true;
  }

  int64_t DomainElements(const Group& group) const {
    const Node& sink = c_.node(group.sink);
    if (group.skeleton == Skeleton::kReduction) return group.domain.elements();
    return sink.op == Op::kIndexedWrite ? c_.node(sink.inputs[1]).shape.elements() : sink.shape.elements();
  }

  bool WorthComputingInside(const Group& group, NodeId id) const {
    int64_t here = DomainElements(group), once = c_.node(id).shape.elements();
    return here <= once || CostOf(c_.node(id)) <= 2 || here <= 64;
  }

  // Whether `id` reads the storage that `sink` writes in place: under another index in general, so that the
  // two never share a kernel.
  bool ReadsWhatIsWritten(NodeId sink, NodeId id) const {
    return c_.node(sink).op == Op::kIndexedWrite && c_.storage_of[sink] != kNoNode &&
           c_.ReadsStorage(id, c_.storage_of[sink]);
  }

  void AbsorbProducers(Group* group) {
    if (!c_.options.inlining) return;
    int id = group->id;
    for (bool grew = true; grew;) {
      grew = false;
      std::vector<NodeId> members = c_.groups[id].nodes;
      for (NodeId member : members) {
        if (IsAnchor(c_.node(member).op)) continue;
        for (NodeId input : c_.node(member).inputs) {
          grew |= TryAbsorb(&c_.groups[id], c_.base(input));
        }
      }
    }
  }

  bool TryAbsorb(Group* group, NodeId producer) {
    const Op op = c_.node(producer).op;
    if (op != Op::kMatMul && op != Op::kPointwise && op != Op::kIndexedRead) return false;
    if (!Free(producer) || c_.stored[producer] || !AllReadersIn(producer, group->id)) return false;
    if (c_.FusionOff(group->nodes[0]) || c_.FusionOff(producer) || IsRoundedForMemory(producer)) return false;
    if (ReadsWhatIsWritten(group->sink, producer)) return false;
    if (op == Op::kMatMul) return TryTwin(group, producer);
    if (!c_.IsInlinable(producer) || !WorthComputingInside(*group, producer)) return false;
    if (cycles_.WouldCycleAsProducer(group->nodes, producer)) return false;
    if (!budget_.TakeProducer(*group, producer)) return false;
    Join(group, producer);
    return true;
  }

  // Who reads it widens it again: it is stored as the narrow value.
  bool IsRoundedForMemory(NodeId id) const {
    const std::vector<NodeId>& readers = c_.readers[id];
    return std::any_of(readers.begin(), readers.end(),
                       [&](NodeId reader) { return WidensWhatWasRounded(c_.graph, reader); });
  }

  // A second contraction of the same left side whose result is read at the same points: one more accumulator.
  bool TryTwin(Group* group, NodeId id) {
    if (group->skeleton != Skeleton::kContraction || group->anchors.size() >= kMaxSlots) return false;
    const Node& first = c_.node(group->anchors[0]);
    const Node& twin = c_.node(id);
    if (twin.inputs[0] != first.inputs[0] && !SameRead(twin.inputs[0], first.inputs[0])) return false;
    if (!(twin.shape == first.shape) || twin.dtype != first.dtype) return false;
    if (c_.node(twin.inputs[1]).dtype != c_.node(first.inputs[1]).dtype) return false;
    std::optional<View> a = PathTo(group->sink, group->anchors[0], *group);
    Join(group, id);
    std::optional<View> b = PathTo(group->sink, id, *group);
    if (!a || !b || !(*a == *b) || cycles_.WouldCycleAsProducer(group->nodes, id) ||
        !budget_.Take(*group, id)) {
      group->nodes.pop_back();
      c_.group_of[id] = -1;
      return false;
    }
    group->anchors.push_back(id);
    return true;
  }

  bool SameRead(NodeId a, NodeId b) const {
    return c_.base(a) == c_.base(b) && c_.graph.ViewOf(a) == c_.graph.ViewOf(b);
  }

  // The one view by which `from`'s domain reads `to` inside the group; none if there are several.
  std::optional<View> PathTo(NodeId from, NodeId to, const Group& group) const {
    const Node& sink = c_.node(from);
    const Shape& domain = sink.op == Op::kIndexedWrite ? c_.node(sink.inputs[1]).shape : sink.shape;
    std::map<NodeId, std::vector<View>> seen;
    std::vector<std::pair<NodeId, View>> work = {{from, ir::DenseView(domain)}};
    std::optional<View> found;
    while (!work.empty()) {
      const auto [at, view] = std::move(work.back());
      work.pop_back();
      if (at == to) {
        if (found && !(*found == view)) return std::nullopt;
        found = view;
        continue;
      }
      const Node& node = c_.node(at);
      if (!c_.InGroup(at, group.id) || IsAnchor(node.op) || node.op == Op::kIndexedRead) continue;
      std::vector<View>& views = seen[at];
      if (std::find(views.begin(), views.end(), view) != views.end()) continue;
      if (views.size() >= kMostViews) return std::nullopt;
      views.push_back(view);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.op == Op::kIndexedWrite && k != 1) continue;
        NodeId input = node.inputs[k];
        work.emplace_back(c_.base(input), ir::Compose(c_.graph.ViewOf(input), view));
      }
    }
    return found;
  }

  // ------------------------------------------------------------------------------- epilogues

  void AnchorGroup(NodeId anchor) {
    Group* group = NewBudgetedGroup(SkeletonOf(c_.node(anchor).op), anchor);
    group->anchors = {anchor};
    int id = group->id;
    NodeId at = anchor;
    while (c_.options.epilogues && !c_.FusionOff(anchor)) {
      std::vector<NodeId> region = NextExit(c_.groups[id], at);
      if (region.empty() || !budget_.TakeRegion(c_.groups[id], at, region)) break;
      for (NodeId member : region) Join(&c_.groups[id], member);
      at = region.back();
      c_.groups[id].sink = at;
      AbsorbProducers(&c_.groups[id]);
    }
    StoreNarrow(&c_.groups[id]);
  }

  // A group ends with the value that was rounded, not where that is widened again.
  void StoreNarrow(Group* group) {
    if (group->sink != group->nodes.back() || c_.stored[group->sink] ||
        !WidensWhatWasRounded(c_.graph, group->sink))
      return;
    c_.group_of[group->sink] = -1;
    group->nodes.pop_back();
    group->sink = c_.base(c_.node(group->sink).inputs[0]);
  }

  // Cheap pointwise producers of a contraction's left side that nothing else reads: its prologue.
  void AbsorbPrologue(int id) {
    const Node& anchor = c_.node(c_.groups[id].anchors[0]);
    if (anchor.op != Op::kMatMul || !c_.options.inlining || c_.FusionOff(anchor.id)) return;
    std::vector<NodeId> work = {c_.base(anchor.inputs[0])};
    bool outermost = true;
    while (!work.empty()) {
      NodeId producer = work.back();
      work.pop_back();
      bool fits =
          Free(producer) && !c_.stored[producer] && c_.node(producer).op == Op::kPointwise &&
          c_.IsInlinable(producer) && CostOf(c_.node(producer)) <= 4 &&
          (!outermost || c_.node(producer).shape.elements() == c_.node(anchor.inputs[0]).shape.elements());
      for (NodeId reader : c_.readers[producer]) {
        bool lhs_only = c_.node(reader).op != Op::kMatMul || c_.base(c_.node(reader).inputs[1]) != producer;
        fits = fits && c_.InGroup(reader, id) && lhs_only && c_.node(reader).op != Op::kIndexedWrite;
      }
      // A member of the epilogue reads at other points than the prologue does.
      if (fits && !outermost) {
        for (NodeId reader : c_.readers[producer]) fits = fits && InPrologue(id, reader);
      }
      fits = fits && !ReadsWhatIsWritten(c_.groups[id].sink, producer);
      if (!fits || cycles_.WouldCycleAsProducer(c_.groups[id].nodes, producer) ||
          !budget_.TakeProducer(c_.groups[id], producer)) {
        continue;
      }
      Join(&c_.groups[id], producer);
      c_.groups[id].prologue.push_back(producer);
      for (NodeId input : c_.node(producer).inputs) work.push_back(c_.base(input));
      outermost = false;
    }
  }

  bool InPrologue(int group, NodeId id) const {
    const std::vector<NodeId>& nodes = c_.groups[group].prologue;
    return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
  }

  // The smallest set of pointwise nodes after `at` through whose last node alone its value leaves: what an
  // epilogue can take without storing anything more. Empty if there is none.
  std::vector<NodeId> NextExit(const Group& group, NodeId at) {
    if (c_.stored[at] || c_.node(at).op == Op::kIndexedWrite) return {};
    constexpr size_t kMaxRegion = 48;
    std::vector<NodeId> region;
    auto inside = [&](NodeId id) {
      return id == at || std::find(region.begin(), region.end(), id) != region.end();
    };
    // The first node in topological order, outside of the region, that reads one of its first `count` nodes
    // or `at`.
    auto first_reader = [&](size_t count) {
      NodeId first = kNoNode;
      for (size_t i = 0; i <= count; ++i) {
        for (NodeId r : c_.readers[i == 0 ? at : region[i - 1]]) {
          if (!inside(r) && (first == kNoNode || c_.position[r] < c_.position[first])) first = r;
        }
      }
      return first;
    };
    while (region.size() < kMaxRegion) {
      // All readers of everything but the last node are inside: the last node is the only exit.
      if (!region.empty() && first_reader(region.size() - 1) == kNoNode) return region;
      NodeId next = first_reader(region.size());
      if (next == kNoNode || !Joins(group, at, region, next)) return {};
      region.push_back(next);
    }
    return {};
  }

  // Whether `id` can be computed at the accumulator's points, given that `region` is.
  bool Joins(const Group& group, NodeId at, const std::vector<NodeId>& region, NodeId id) {
    const Node& node = c_.node(id);
    bool write = node.op == Op::kIndexedWrite;
    if (!Free(id) || c_.FusionOff(id) || (node.op != Op::kPointwise && !write)) return false;
    if (budget_.Exceeds(group, region, id)) return false;
    for (NodeId member : region) {
      if (c_.stored[member] || c_.node(member).op == Op::kIndexedWrite) return false;
    }
    int64_t elements = c_.node(group.anchors[0]).shape.elements();
    bool plain = group.skeleton == Skeleton::kConvolution;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      NodeId base = c_.base(node.inputs[k]);
      bool ours = base == at || std::find(region.begin(), region.end(), base) != region.end();
      if (!ours) continue;
      if (write && k != 1) return false;
      const View view = c_.graph.ViewOf(node.inputs[k]);
      if (view.shape().elements() != elements) return false;
      if (plain ? !ir::IsDense(view, elements) : !IsPermutation(view)) return false;
    }
    if (write && (plain || node.As<ir::IndexedAttrs>().combine != ir::ScatterCombine::kNone ||
                  node.As<ir::IndexedAttrs>().may_collide)) {
      return false;
    }
    std::vector<NodeId> members = group.nodes;
    members.insert(members.end(), region.begin(), region.end());
    bool clash = std::any_of(members.begin(), members.end(),
                             [&](NodeId member) { return ReadsWhatIsWritten(id, member); });
    return !clash && !cycles_.WouldCycleAsReader(members, id);
  }

  // Shows each element of its storage exactly once.
  static bool IsPermutation(const View& view) {
    if (!view.affine() || view.steps[0].offset != 0) return false;
    std::vector<ir::IndexDim> dims = ir::JoinedDims(view.steps[0]);
    std::sort(dims.begin(), dims.end(),
              [](const ir::IndexDim& a, const ir::IndexDim& b) { return a.stride < b.stride; });
    int64_t run = 1;
    for (const ir::IndexDim& dim : dims) {
      if (dim.stride != run) return false;
      run *= dim.extent;
    }
    return true;
  }

  // ------------------------------------------------------------------------------ reductions

  // Members are elements (their dense index is the domain's) or rows (it is the row's).
  struct Rows {
    Shape domain;   // the reduced input's shape
    Shape reduced;  // the same with the reduced dims 1
    std::vector<int> axes;
  };

  // `view` (of any shape) repeats row values over the elements of each row, in order.
  static bool RepeatsRows(const Rows& rows, const View& view) {
    if (view.shape().elements() != rows.domain.elements()) return false;
    View expected = ir::Expand(ir::DenseView(rows.reduced), rows.domain);
    return ir::Reshape(view, rows.domain) == ir::Compose(expected, ir::DenseView(rows.domain)) ||
           Canonical(ir::Reshape(view, rows.domain)) == Canonical(expected);
  }

  static std::vector<int64_t> Canonical(const View& view) {
    std::vector<int64_t> out = {static_cast<int64_t>(view.steps.size())};
    for (const ir::ViewStep& step : view.steps) {
      out.push_back(step.offset);
      for (int d = 0; d < step.shape.rank; ++d) {
        out.push_back(step.shape[d]);
        out.push_back(step.shape[d] == 1 ? 0 : step.strides[d]);
      }
    }
    return out;
  }

  enum class Kind { kNone, kElement, kRow };

  // What node `id` would be in the cluster; kNone if it does not fit.
  using Kinds = std::unordered_map<NodeId, Kind>;  // of the cluster's members
  static Kind Of(const Kinds& kinds, NodeId id) {
    const auto it = kinds.find(id);
    return it == kinds.end() ? Kind::kNone : it->second;
  }

  Kind KindOf(const Rows& rows, const Kinds& kinds, NodeId id) const {
    const Node& node = c_.node(id);
    int64_t elements = rows.domain.elements(), count = rows.reduced.elements();
    if (node.op == Op::kReduce) {
      const ir::ReduceAttrs& attrs = node.As<ir::ReduceAttrs>();
      const View view = c_.graph.ViewOf(node.inputs[0]);
      bool fits = view.shape() == rows.domain && attrs.axes == rows.axes &&
                  Of(kinds, c_.base(node.inputs[0])) == Kind::kElement && ir::IsDense(view, elements);
      return fits ? Kind::kRow : Kind::kNone;
    }
    if (node.op != Op::kPointwise || c_.FusionOff(id)) return Kind::kNone;
    int64_t n = node.shape.elements();
    Kind kind = n == elements ? Kind::kElement : n == count ? Kind::kRow : Kind::kNone;
    for (NodeId input : node.inputs) {
      Kind in = Of(kinds, c_.base(input));
      if (in == Kind::kNone) continue;
      const View view = c_.graph.ViewOf(input);
      bool fits = in == Kind::kElement ? kind == Kind::kElement && ir::IsDense(view, elements)
                  : kind == Kind::kRow ? ir::IsDense(view, count)
                                       : RepeatsRows(rows, view);
      if (!fits) return Kind::kNone;
    }
    return kind;
  }

  void ReductionGroup(NodeId first) {
    Group* group = NewBudgetedGroup(Skeleton::kReduction, first);
    int id = group->id;
    Rows rows;
    NodeId input = c_.node(first).inputs[0];
    rows.domain = c_.node(input).shape;
    rows.reduced = c_.node(first).shape;
    rows.axes = c_.node(first).As<ir::ReduceAttrs>().axes;
    Kinds kinds;
    kinds.emplace(first, Kind::kRow);
    group->rows.push_back(first);
    group->sink = c_.base(input);
    group->domain = rows.domain;
    group->reduced = rows.reduced;
    if (!c_.options.reductions || c_.FusionOff(first) || rows.domain.elements() == rows.reduced.elements()) {
      c_.groups[id].anchors = {first};
      return;
    }
    AbsorbElements(rows, id, &kinds, {first});
    for (bool grew = true; grew;) {
      grew = false;
      std::vector<NodeId> members = c_.groups[id].nodes;
      for (NodeId member : members) {
        for (NodeId reader : c_.readers[member]) {
          grew |= TryCluster(rows, id, &kinds, reader);
        }
      }
    }
    c_.groups[id].anchors = {first};
    AbsorbProducers(&c_.groups[id]);
  }

  bool TryCluster(const Rows& rows, int group, Kinds* kinds, NodeId id) {
    if (!Free(id)) return false;
    // A reduction of what the cluster reads anyway joins too: its producers may first have to.
    Kind kind = KindOf(rows, *kinds, id);
    if (kind == Kind::kNone) return false;
    constexpr int kMaxReductions = 8;
    int reductions = 0;
    for (NodeId member : c_.groups[group].nodes) reductions += c_.node(member).op == Op::kReduce;
    if (c_.node(id).op == Op::kReduce && reductions >= kMaxReductions) return false;
    if (cycles_.WouldCycleAsReader(c_.groups[group].nodes, id)) return false;
    if (!budget_.Take(c_.groups[group], id)) return false;
    Join(&c_.groups[group], id);
    (*kinds)[id] = kind;
    (kind == Kind::kRow ? c_.groups[group].rows : c_.groups[group].elements).push_back(id);
    AbsorbElements(rows, group, kinds, {id});
    return true;
  }

  // Producers of elements, at the same points, that nothing outside reads.
  void AbsorbElements(const Rows& rows, int group, Kinds* kinds, std::vector<NodeId> work) {
    while (!work.empty()) {
      NodeId at = work.back();
      work.pop_back();
      for (NodeId input : c_.node(at).inputs) {
        NodeId base = c_.base(input);
        if (!Free(base) || c_.node(base).op != Op::kPointwise || c_.FusionOff(base) || c_.stored[base])
          continue;
        bool element = c_.node(base).shape.elements() == rows.domain.elements() &&
                       ir::IsDense(c_.graph.ViewOf(input), rows.domain.elements());
        if (!element || !AllReadersIn(base, group)) continue;
        if (cycles_.WouldCycleAsProducer(c_.groups[group].nodes, base)) continue;
        if (KindOf(rows, *kinds, base) == Kind::kNone) continue;
        if (!budget_.Take(c_.groups[group], base)) continue;
        Join(&c_.groups[group], base);
        (*kinds)[base] = Kind::kElement;
        c_.groups[group].elements.push_back(base);
        work.push_back(base);
      }
    }
  }

  Context& c_;
  CycleCheck cycles_;
  Budget budget_;
  std::vector<size_t> failed_;  // by node: the place among its readers of one that was outside of a group
};

}  // namespace

void FormGroups(Context* context) {
  context->groups.clear();
  context->group_of.assign(static_cast<size_t>(context->graph.size()), -1);
  Grouping(context).Run();
}

}  // namespace rondo::fusion
