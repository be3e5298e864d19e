// Forms the groups: their beginnings, and the order in which they absorb others.
#include <algorithm>

#include "compiler/fusion/grouping.h"

namespace rondo::fusion {

namespace {

Skeleton SkeletonOf(Op op) {
  switch (op) {
    case Op::kMatMul: return Skeleton::kMatMul;
    case Op::kConv:
    case Op::kPool: return Skeleton::kConvolution;
    case Op::kAttention: return Skeleton::kAttention;
    case Op::kTopK: return Skeleton::kTopK;
    case Op::kReduce: return Skeleton::kReduction;
    default: return Skeleton::kMap;
  }
}

}  // namespace

bool Grouping::IsAnchor(Op op) {
  return op == Op::kMatMul || op == Op::kConv || op == Op::kPool || op == Op::kAttention || op == Op::kTopK;
}

void Grouping::Run() {
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
    if (c_.groups[id].skeleton == Skeleton::kMatMul) AbsorbPrologue(id);
  }
  // A node that combines all of another map's result waits for that, and becomes a map of its own if it
  // cannot join.
  for (const bool waits : {true, false}) {
    for (size_t i = c_.order.size(); i-- > 0;) {
      NodeId id = c_.order[i];
      Op op = c_.node(id).op;
      if (!Free(id)) continue;
      bool map = op == Op::kPointwise || op == Op::kIndexedRead || op == Op::kIndexedWrite ||
                 (op == Op::kIota && IotaNeedsMemory(id));
      if (!map || c_.places[id].how == Place::How::kJoin || !Needed(id) || (waits && WaitsForUpdates(id)))
        continue;
      Group* group = NewBudgetedGroup(Skeleton::kMap, id);
      AbsorbProducers(group);
      if (!c_.FusionOff(id)) CombineBeside(&c_.groups.back());
    }
  }
}

bool Grouping::WaitsForUpdates(NodeId id) const {
  const Node& node = c_.node(id);
  return ir::CombinesIntoOne(node) && Free(c_.base(node.inputs[1]));
}

bool Grouping::MayJoin(int group, NodeId id, const std::vector<NodeId>& region) const {
  if (!Free(id)) return false;
  const std::vector<NodePair>& apart = c_.options.apart;
  for (auto pair = std::lower_bound(apart.begin(), apart.end(), NodePair{id, 0});
       pair != apart.end() && pair->first == id; ++pair) {
    if (c_.InGroup(pair->second, group) ||
        std::find(region.begin(), region.end(), pair->second) != region.end())
      return false;
  }
  return true;
}

// Whether annotations and conditions permit both in one kernel.
bool Grouping::Together(NodeId a, NodeId b) const {
  return (!c_.graph.annotated && c_.needed.empty()) || c_.SamePlace(a, b);
}

bool Grouping::IotaNeedsMemory(NodeId id) const {
  if (c_.stored[id]) return true;
  return std::any_of(c_.readers[id].begin(), c_.readers[id].end(),
                     [&](NodeId r) { return !CanComputeInside(r, id) || !Together(r, id); });
}

Group* Grouping::NewGroup(Skeleton skeleton, NodeId first) {
  Group group;
  group.id = static_cast<int>(c_.groups.size());
  group.skeleton = skeleton;
  group.sink = first;
  c_.groups.push_back(std::move(group));
  Join(&c_.groups.back(), first);
  return &c_.groups.back();
}

void Grouping::Join(Group* group, NodeId id) {
  group->nodes.push_back(id);
  c_.group_of[id] = group->id;
  cycles_.Joined(id, group->nodes[0]);
}

// For a group of one node, which always fits the budget.
Group* Grouping::NewBudgetedGroup(Skeleton skeleton, NodeId first) {
  Group* group = NewGroup(skeleton, first);
  budget_.Take(*group, first);
  return group;
}

// A call or a loop, with its results.
void Grouping::CallGroup(NodeId call) {
  Group* group = NewGroup(Skeleton::kMap, call);
  group->call = c_.node(call).op == Op::kCall;
  group->loop = !group->call;
  for (NodeId reader : c_.readers[call]) {
    const Node& node = c_.node(reader);
    const bool result = node.op == Op::kCallResult || node.op == Op::kLoopResult;
    if (result && node.inputs[0] == call) Join(group, reader);
  }
}

// Whether `id` reads the storage that `sink` writes in place, in general under another index, so that the two
// must not share a kernel.
bool Grouping::ReadsWhatIsWritten(NodeId sink, NodeId id) const {
  return c_.node(sink).op == Op::kIndexedWrite && c_.places[sink].IsVersion() &&
         c_.ReadsStorage(id, c_.places[sink].in);
}

void Grouping::AnchorGroup(NodeId anchor) {
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
  StoreBytes(&c_.groups[id]);
  if (!c_.options.epilogues || c_.FusionOff(anchor)) return;
  StoreBeside(&c_.groups[id]);
  CombineBeside(&c_.groups[id]);
}

// Ends a group with the 16-bit value instead of its widened form.
void Grouping::StoreNarrow(Group* group) {
  if (group->sink != group->nodes.back() || c_.stored[group->sink] || !Widens(c_.graph, group->sink)) return;
  c_.group_of[group->sink] = -1;
  group->nodes.pop_back();
  group->sink = c_.base(c_.node(group->sink).inputs[0]);
}

// On the host, ends a group with bytes instead of the floats that they represent, if one reader takes all of
// those: it then reads a quarter of the memory.
void Grouping::StoreBytes(Group* group) {
  if (!c_.options.target.widens_as_it_reads || !IsReadAtOnce(group->sink)) return;
  const std::vector<NodeId> steps = StepsFromBytes(c_.graph, group->sink);
  if (steps.empty()) return;
  for (NodeId step : steps) {
    if (!c_.InGroup(step, group->id) ||
        (step != group->sink && (c_.stored[step] || c_.readers[step].size() != 1)))
      return;
  }
  const NodeId at = c_.base(c_.node(steps.back()).inputs[0]);
  if (IsAnchor(c_.node(at).op) || !c_.InGroup(at, group->id)) return;
  for (NodeId step : steps) {
    c_.group_of[step] = -1;
    group->nodes.erase(std::find(group->nodes.begin(), group->nodes.end(), step));
  }
  group->sink = at;
}

// Whether all readers of `id` will be in one group, which can compute it: a single reader, or a reduction and
// what depends on it.
bool Grouping::IsReadAtOnce(NodeId id) const {
  const std::vector<NodeId>& readers = c_.readers[id];
  if (c_.stored[id] || readers.empty()) return false;
  const auto computes = [&](NodeId reader) {
    return (c_.node(reader).op == Op::kPointwise || c_.node(reader).op == Op::kReduce) && Free(reader) &&
           !c_.FusionOff(reader) && Together(id, reader);
  };
  const auto first = std::find_if(readers.begin(), readers.end(),
                                  [&](NodeId reader) { return c_.node(reader).op == Op::kReduce; });
  return std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return computes(reader) && (readers.size() == 1 ||
                                (first != readers.end() && (reader == *first || DependsOn(reader, *first))));
  });
}

// Whether `id` reads `other`, through a few pointwise steps.
bool Grouping::DependsOn(NodeId id, NodeId other, int steps) const {
  constexpr int kMostSteps = 4;
  if (steps > kMostSteps || c_.node(id).op != Op::kPointwise) return false;
  return std::any_of(c_.node(id).inputs.begin(), c_.node(id).inputs.end(), [&](NodeId input) {
    return c_.base(input) == other || DependsOn(c_.base(input), other, steps + 1);
  });
}

void FormGroups(Context* context) {
  context->groups.clear();
  context->group_of.assign(static_cast<size_t>(context->graph.size()), -1);
  Grouping(context).Run();
}

}  // namespace rondo::fusion
