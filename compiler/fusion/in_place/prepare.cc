// Gives memory to the values that need it: graph outputs, states, pieces of concatenations, scatter targets.
#include <algorithm>
#include <memory>

#include "compiler/fusion/in_place/preparation.h"
#include "compiler/ir/loop.h"

namespace rondo::fusion {

NodeId InsertCopy(Graph* graph, NodeId x) {
  Node copy;
  const Node& from = graph->node(x);
  copy.op = Op::kPointwise;
  copy.dtype = from.dtype;
  copy.shape = from.shape;
  copy.attrs = ir::PointwiseAttrs{TapeOp::kCast, 0};
  copy.inputs = {x};
  // Nodes with many sources may be copied often: the first few say where a copy comes from.
  constexpr ptrdiff_t kMostSources = 8;
  const auto end = from.sources.begin() + std::min(std::ssize(from.sources), kMostSources);
  copy.sources = {from.sources.begin(), end};
  copy.annotations = from.annotations;
  copy.annotations.erase("label");
  return graph->Add(std::move(copy));
}

std::string SourcesOf(const Node& node) {
  std::string out;
  for (const std::string& source : node.sources) {
    if (!out.empty()) out += ", ";
    out += source;
  }
  return out.empty() ? std::string(ir::Name(node.op)) : out;
}

std::string NameOf(const Graph& graph, NodeId id) {
  const Node& node = graph.node(graph.BaseOf(id));
  if (node.op == Op::kInput) {
    const int index = node.As<ir::InputAttrs>().index;
    const bool state = std::any_of(graph.states.begin(), graph.states.end(), [&](const ir::StatePair& pair) {
      return pair.input == index && !pair.donated;
    });
    return (state ? "state \"" : "input \"") + graph.inputs[static_cast<size_t>(index)].name + "\"";
  }
  if (node.op == Op::kConstant) {
    const std::string& name = node.As<ir::ConstantAttrs>().data->name;
    return name.empty() ? "a constant" : "constant \"" + name + "\"";
  }
  return node.sources.empty() ? std::string(ir::Name(node.op)) : node.sources[0];
}

Status Preparation::Run() {
  g_.RemoveDead();  // order edges through dead nodes do not count
  Grow();
  ForgetPlaces();
  PairDonations();
  IndexStates();
  CopyCallInputs();
  CopyLoopInputs();
  FindStateChains();
  CopyTargets();
  SettleOutputs();
  CopyConcatPieces();
  GatherInPlace();
  RONDO_RETURN_IF_ERROR(OrderCopies());
  CopyPictures();
  WriteStatesDirectly();
  TakeDonations();
  return Index();
}

// A loop reads dense memory, and the input of its first round must be in memory that it may change.
void Preparation::CopyLoopInputs() {
  const NodeId count = g_.size();
  for (NodeId id = 0; id < count; ++id) {
    if (g_.node(id).dead || g_.node(id).op != Op::kLoop) continue;
    const std::shared_ptr<const ir::LoopInfo> info = g_.node(id).As<ir::LoopAttrs>().info;
    for (size_t k = 0; k < info->inputs.size(); ++k) {
      const NodeId input = g_.node(id).inputs[k], base = g_.BaseOf(input);
      const bool dense = ir::IsDense(g_.ViewOf(input), g_.node(base).shape.elements());
      const bool carried = info->inputs[k].kind == ir::LoopInputKind::kCarried;
      const bool own = carried ? Made(base) : g_.node(base).op != Op::kIota;
      if (dense && own) continue;
      const char* because =
          carried ? "the rounds of a loop change it where it lies" : "a loop reads dense memory";
      g_.SetInput(id, k, MakeCopy(input, because, id));
    }
  }
}

// For `reader`: if a node order was requested, the copy runs when its reader may, as a part of it. Then, and
// if no node computes x, it has the reader's name too, unless annotations keep the two apart.
NodeId Preparation::MakeCopy(NodeId x, const std::string& because, NodeId reader) {
  const NodeId copy = InsertCopy(&g_, x);
  if (reader != kNoNode && (g_.ordered || g_.node(copy).sources.empty()) &&
      ir::BoundAlike(g_.node(copy), g_.node(reader)))
    ir::MergeSources(&g_.node(copy).sources, g_.node(reader).sources);
  if (g_.ordered && reader != kNoNode) {
    for (NodeId before : g_.node(reader).weak_after) g_.RunAfter(copy, before);
    for (NodeId before : g_.node(reader).strong_after) g_.RunAfter(copy, before, true);
  }
  Grow();
  c_.places[copy].copy = true;
  c_.places[copy].because = because;
  return copy;
}

// Copies stay copies. Everything else is decided anew, since an earlier round's findings may change it.
void Preparation::ForgetPlaces() {
  for (Place& place : c_.places) {
    Place fresh;
    fresh.copy = place.copy;
    if (place.copy) fresh.because = std::move(place.because);
    place = std::move(fresh);
  }
}

void Preparation::Grow() {
  const size_t nodes = static_cast<size_t>(g_.size());
  c_.places.resize(nodes);
  c_.alone.resize(nodes, 0);
  c_.through_copy.resize(nodes, 0);
}

void Preparation::MarkOutputs() {
  is_output_.assign(static_cast<size_t>(g_.size()), 0);
  for (const ir::GraphOutput& o : g_.outputs) is_output_[static_cast<size_t>(g_.BaseOf(o.node))] = 1;
}

// Order, readers, homes.
Status Preparation::Index() {
  g_.RemoveDead();
  c_.order = g_.TopologicalOrder();
  OrderConditions();
  if (c_.order.empty() && g_.size() > 0) {
    return Status::Error(Code::kInternal, "fusion was given a graph with a cycle");
  }
  size_t n = static_cast<size_t>(g_.size());
  Grow();
  c_.position.resize(n);
  c_.readers.assign(n, {});
  c_.stored.assign(n, 0);
  for (size_t i = 0; i < c_.order.size(); ++i) c_.position[c_.order[i]] = static_cast<int>(i);
  for (NodeId id : c_.order) {
    const Node& node = g_.node(id);
    if (node.op == Op::kView) continue;
    for (NodeId input : node.inputs) {
      std::vector<NodeId>& readers = c_.readers[g_.BaseOf(input)];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
  }
  MarkStored();
  return Status::Ok();
}

// Conditions that kernels test run before them. (Loops have them as inputs.)
void Preparation::OrderConditions() {
  Conditions outputs;
  for (const ir::LoopCondition& c : c_.options.needed_where)
    outputs.push_back({g_.inputs[c.input].node, 0, c.holds});
  c_.needed = FindNeeded(&g_, c_.order, outputs, c_.options.least_skipped);
  bool ordered = false;
  for (size_t id = 0; id < c_.needed.size(); ++id) {
    const Node& node = g_.node(static_cast<NodeId>(id));
    if (node.dead || node.op == Op::kView || node.op == Op::kConcat || node.op == Op::kLoop ||
        c_.places[id].how == Place::How::kJoin || c_.IsLeaf(node.id))
      continue;
    for (const Condition& condition : c_.needed[id].where) {
      const std::vector<NodeId>& before = node.weak_after;
      if (c_.IsLeaf(condition.base) || std::count(before.begin(), before.end(), condition.base) != 0)
        continue;
      g_.RunAfter(node.id, condition.base);
      ordered = true;
    }
  }
  if (ordered) c_.order = g_.TopologicalOrder();
}

// Marks values that must be in memory whatever reads them.
void Preparation::MarkStored() {
  for (const ir::GraphOutput& output : g_.outputs) c_.stored[g_.BaseOf(output.node)] = 1;
  for (NodeId id : c_.order) {
    const Node& node = g_.node(id);
    if (node.op == Op::kIndexedWrite) {
      c_.stored[id] = 1;
      c_.stored[g_.BaseOf(node.inputs[0])] = 1;
    }
    if (node.op == Op::kCollective || node.op == Op::kCall || node.op == Op::kCallResult ||
        node.op == Op::kLoop || node.op == Op::kLoopResult) {
      c_.stored[id] = 1;
      for (NodeId input : node.inputs) c_.stored[g_.BaseOf(input)] = 1;
    }
    if (c_.PartOf(id) != kNoNode) c_.stored[id] = 1;
    if (!c_.needed.empty()) {
      for (const Condition& condition : c_.needed[static_cast<size_t>(id)].where)
        c_.stored[condition.base] = 1;
    }
    // Nodes that run for their effects.
    for (NodeId before : node.strong_after) {
      if (c_.readers[g_.BaseOf(before)].empty()) c_.stored[g_.BaseOf(before)] = 1;
    }
  }
  StoreAssertions();
}

// Whether a reader of `view` reads every element of its storage. Of chains of views, which may also leave out
// what others repeat, only those of fewer elements are known not to.
bool ShowsAll(const View& view, int64_t elements) {
  if (!view.affine()) return view.shape().elements() >= elements;
  const ir::ViewStep& step = view.steps[0];
  int64_t shown = 1;
  for (int d = 0; d < step.shape.rank; ++d) shown *= step.strides[d] == 0 ? 1 : step.shape[d];
  return shown == elements;
}

// An assertion looks at all elements: it is in memory unless what computes it in place does that, too.
void Preparation::StoreAssertions() {
  std::vector<bool> whole(c_.stored.size(), false);  // every element is computed
  for (size_t i = c_.order.size(); i-- > 0;) {
    const NodeId id = c_.order[i];
    if (g_.node(id).op == Op::kView) continue;
    const auto computes_all = [&](NodeId reader) {
      const Node& node = g_.node(reader);
      if (node.op != Op::kPointwise && node.op != Op::kReduce) return true;  // what is in memory is whole
      return whole[reader] && std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId in) {
               return g_.BaseOf(in) == id && ShowsAll(g_.ViewOf(in), g_.node(id).shape.elements());
             });
    };
    whole[id] = c_.stored[id] != 0 || std::any_of(c_.readers[id].begin(), c_.readers[id].end(), computes_all);
    if (!whole[id] && ir::IsAssertion(g_.node(id))) c_.stored[id] = whole[id] = true;
  }
}

Status Prepare(Context* context) {
  context->program.name = context->graph.name;
  RONDO_RETURN_IF_ERROR(Preparation(context).Run());
  FindPictures(context);
  return Status::Ok();
}

}  // namespace rondo::fusion
