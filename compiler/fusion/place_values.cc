// The memory of results, after groups are formed. Ports, states and constants have their own. Parts of a
// concatenation and versions of a written tensor lie in that tensor's memory. All others get a temporary when
// they are first named, in the element order that element_order.cc picks.
#include <unordered_map>

#include "compiler/fusion/context.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

namespace {

class Placing {
 public:
  explicit Placing(Context* context) : c_(*context), g_(context->graph) {}

  void Run() {
    c_.program.values.clear();
    c_.program.inputs.clear();
    c_.program.outputs.clear();
    const size_t nodes = static_cast<size_t>(g_.size());
    c_.homes.assign(nodes, {});
    c_.placements.assign(nodes, {});
    for (NodeId id : c_.order) {
      const Op op = c_.node(id).op;
      if (op != Op::kView && !c_.IsLeaf(id)) c_.placements[static_cast<size_t>(id)] = PlacementFor(c_, id);
    }
    PlaceInputs();
    PlaceOutputs();
    PlaceConstants();
    ShareLoopHomes();
  }

 private:
  int AddValue(const Node& node, BufferKind kind, const std::string& name) {
    LoweredValue value;
    value.name = name;
    value.kind = kind;
    value.dtype = node.dtype;
    value.shape = node.shape;
    value.bytes = node.shape.elements() * ByteSize(node.dtype);
    value.sources = node.sources;
    c_.program.values.push_back(std::move(value));
    return static_cast<int>(c_.program.values.size()) - 1;
  }

  void PlaceInputs() {
    std::vector<BufferKind> kinds(g_.inputs.size(), BufferKind::kInput);
    for (const ir::StatePair& pair : g_.states)
      kinds[static_cast<size_t>(pair.input)] = pair.donated ? BufferKind::kUpdatedInput : BufferKind::kState;
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      const Node& node = g_.node(g_.inputs[i].node);
      const Place& place = c_.places[node.id];
      if (place.how == Place::How::kVersion) kinds[i] = BufferKind::kUpdatedInput;
      const int value = AddValue(node, kinds[i], g_.inputs[i].name);
      c_.program.values.back().donated = place.donated;
      if (place.donated) c_.program.values.back().kept_because = place.because;
      c_.homes[node.id] = {value, ir::DenseView(node.shape)};
      c_.program.inputs.push_back({g_.inputs[i].name, value, kinds[i] == BufferKind::kState});
    }
  }

  void PlaceOutputs() {
    std::vector<int> state(g_.outputs.size(), -1);  // the input with which it shares one buffer
    std::vector<bool> persists(g_.outputs.size(), false);
    for (const ir::StatePair& pair : g_.states) {
      state[static_cast<size_t>(pair.output)] = pair.input;
      persists[static_cast<size_t>(pair.output)] = !pair.donated;
    }
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      const ir::GraphOutput& output = g_.outputs[o];
      const NodeId base = g_.BaseOf(output.node);
      if (state[o] >= 0) {
        const int value = c_.homes[g_.inputs[static_cast<size_t>(state[o])].node].value;
        c_.program.outputs.push_back({output.name, value, persists[o]});
        const NodeId holder = FirstVersion(g_, base);
        if (c_.homes[holder].value < 0) c_.homes[holder] = {value, ir::DenseView(g_.node(holder).shape)};
        continue;
      }
      const int value = AddValue(g_.node(output.node), BufferKind::kOutput, output.name);
      c_.program.outputs.push_back({output.name, value, false});
      const NodeId holder = FirstVersion(g_, base);
      const Place& place = c_.places[holder];
      if (place.how == Place::How::kDonated) c_.program.values.back().takes = c_.homes[place.in].value;
      c_.homes[holder] = {value, ir::DenseView(g_.node(holder).shape)};
    }
  }

  void PlaceConstants() {
    std::unordered_map<const ir::ConstantData*, int> values;
    for (NodeId id : c_.order) {
      const Node& node = g_.node(id);
      if (node.op != Op::kConstant) continue;
      const auto& data = node.As<ir::ConstantAttrs>().data;
      const auto [it, fresh] = values.emplace(data.get(), -1);
      if (fresh) {
        it->second = AddValue(node, BufferKind::kConstant, data->name.empty() ? node.name : data->name);
        c_.program.values.back().constant = data;
      }
      c_.homes[id] = {it->second, ir::DenseView(node.shape)};
    }
  }

  // A value passed between rounds begins in the place of the result, if that is one place.
  void ShareLoopHomes() {
    for (NodeId id : c_.order) {
      if (g_.node(id).op != Op::kLoop) continue;
      const LoweredLoop& loop = *c_.loops->at(g_.node(id).As<ir::LoopAttrs>().info.get());
      for (size_t o = 0; o < loop.carrier.size(); ++o) {
        const NodeId result = LoopResultOf(c_, id, o);
        if (result == kNoNode || !loop.EndsWhereItBegins(o)) continue;
        const NodeId copy = g_.node(id).inputs[static_cast<size_t>(loop.carrier[o])];
        c_.homes[copy] = {HomeOf(&c_, result).value, ir::DenseView(g_.node(copy).shape)};
      }
    }
  }

  Context& c_;
  const Graph& g_;
};

// The node whose memory holds `id`, if it has none of its own: a concatenation, or the older version that a
// write changes.
NodeId HolderOf(const Context& c, NodeId id) {
  if (c.PartOf(id) != kNoNode) return c.PartOf(id);
  const ir::VersionStep step = ir::VersionStepOf(c.graph, id);
  return step.runs == kNoNode ? kNoNode : c.base(c.node(step.runs).inputs[step.slot]);
}

// The place of `id` in its holder's dense index space.
View PlaceInHolder(const Context& c, NodeId id) {
  const Shape& shape = c.node(id).shape;
  if (c.PartOf(id) != kNoNode) return c.places[id].at;
  const ir::VersionStep step = ir::VersionStepOf(c.graph, id);
  return ir::Reshape(c.graph.ViewOf(c.node(step.runs).inputs[step.slot]), shape);
}

Home NewValue(Context* c, NodeId id) {
  const Node& node = c->node(id);
  LoweredValue value;
  value.name = node.name;
  value.dtype = node.dtype;
  value.shape = node.shape;
  value.bytes = node.shape.elements() * ByteSize(node.dtype);
  value.sources = node.sources;
  c->program.values.push_back(std::move(value));
  return {static_cast<int>(c->program.values.size()) - 1, c->placements[static_cast<size_t>(id)]};
}

}  // namespace

NodeId FirstVersion(const Graph& graph, NodeId id) {
  for (ir::VersionStep step = ir::VersionStepOf(graph, id); step.runs != kNoNode;
       step = ir::VersionStepOf(graph, id)) {
    id = graph.BaseOf(graph.node(step.runs).inputs[step.slot]);
  }
  return id;
}

void PlaceValues(Context* context) { Placing(context).Run(); }

const Home& HomeOf(Context* context, NodeId id) {
  Context& c = *context;
  if (c.homes[id].value >= 0) return c.homes[id];
  std::vector<NodeId> inside = {id};  // each in the memory of the next
  for (NodeId holder = HolderOf(c, id); holder != kNoNode; holder = HolderOf(c, holder)) {
    inside.push_back(holder);
    if (c.homes[holder].value >= 0) break;
  }
  if (c.homes[inside.back()].value < 0) c.homes[inside.back()] = NewValue(&c, inside.back());
  for (size_t i = inside.size() - 1; i-- > 0;) {
    const Home& outer = c.homes[inside[i + 1]];
    c.homes[inside[i]] = {outer.value, ir::Compose(outer.placement, PlaceInHolder(c, inside[i]))};
  }
  return c.homes[id];
}

}  // namespace rondo::fusion
