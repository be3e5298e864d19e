// Gives memory to what must have some: graph outputs, state, pieces of concatenations, scatter targets.
#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "compiler/fusion/context.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::Op;
using ir::View;

NodeId InsertCopy(Graph* graph, NodeId x) {
  Node copy;
  const Node& from = graph->node(x);
  copy.op = Op::kPointwise;
  copy.dtype = from.dtype;
  copy.shape = from.shape;
  copy.attrs = ir::PointwiseAttrs{TapeOp::kCast, 0};
  copy.inputs = {x};
  copy.sources = from.sources;
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

namespace {

// Steps of preparation that change the graph, before homes are decided.
class Preparation {
 public:
  explicit Preparation(Context* context) : c_(*context), g_(context->graph) {}

  Status Run() {
    RONDO_RETURN_IF_ERROR(RefuseEmptyOutputs());
    c_.made.resize(static_cast<size_t>(g_.size()), 0);
    c_.alone.resize(static_cast<size_t>(g_.size()), 0);
    IndexStates();
    CopyCallInputs();
    CopyLoopInputs();
    FindStateChains();
    CopyScatterTargets();
    CopyCallTargets();
    SettleOutputs();
    CopyConcatPieces();
    RONDO_RETURN_IF_ERROR(OrderCopies());
    return Index();
  }

 private:
  Status RefuseEmptyOutputs() {
    for (const ir::GraphOutput& output : g_.outputs) {
      if (g_.node(output.node).shape.elements() == 0) {
        return Status::Error(Code::kUnsupported, "output \"%s\" has no elements: empty tensors cannot be run",
                             output.name.c_str());
      }
    }
    return Status::Ok();
  }

  // A call reads dense memory: what is shown by another view is copied.
  void CopyCallInputs() {
    const NodeId count = g_.size();
    for (NodeId id = 0; id < count; ++id) {
      if (g_.node(id).dead || g_.node(id).op != Op::kCall) continue;
      for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
        const NodeId input = g_.node(id).inputs[k];
        if (ir::IsDense(g_.ViewOf(input), g_.node(g_.BaseOf(input)).shape.elements())) continue;
        const NodeId copy = MakeCopy(input, id);
        g_.SetInput(id, k, copy);
      }
    }
  }

  // The same for loops, and what the first round hands on lies where the loop may change it.
  void CopyLoopInputs() {
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
        g_.SetInput(id, k, MakeCopy(input, id));
      }
    }
  }

  // For `reader`: if somebody has said in what order nodes run, the copy runs when its reader may, as a part
  // of it.
  NodeId MakeCopy(NodeId x, NodeId reader = kNoNode) {
    const NodeId copy = InsertCopy(&g_, x);
    if (g_.ordered && reader != kNoNode) {
      ir::MergeSources(&g_.node(copy).sources, g_.node(reader).sources);
      for (NodeId before : g_.node(reader).weak_after) g_.RunAfter(copy, before);
      for (NodeId before : g_.node(reader).strong_after) g_.RunAfter(copy, before, true);
    }
    c_.made.resize(static_cast<size_t>(g_.size()), 0);
    c_.alone.resize(static_cast<size_t>(g_.size()), 0);
    c_.made[static_cast<size_t>(copy)] = 1;
    return copy;
  }
  bool Made(NodeId id) const { return c_.made[static_cast<size_t>(id)] != 0; }

  bool IsState(NodeId id) const {
    if (g_.node(id).op != Op::kInput) return false;
    return state_of_input_[static_cast<size_t>(g_.node(id).As<ir::InputAttrs>().index)] >= 0;
  }

  void IndexStates() {
    state_of_input_.assign(g_.inputs.size(), -1);
    state_of_output_.assign(g_.outputs.size(), -1);
    for (size_t s = 0; s < g_.states.size(); ++s) {
      state_of_input_[static_cast<size_t>(g_.states[s].input)] = static_cast<int>(s);
      state_of_output_[static_cast<size_t>(g_.states[s].output)] = static_cast<int>(s);
    }
  }

  // The versions of a state, the input first, if its output is the last of a chain of writes over it.
  std::vector<NodeId> VersionsOf(const ir::StatePair& pair) const {
    std::vector<NodeId> versions;
    NodeId at = g_.outputs[pair.output].node;
    while (true) {
      NodeId base = g_.BaseOf(at);
      if (!ir::IsDense(g_.ViewOf(at), g_.node(base).shape.elements())) return {};
      versions.push_back(base);
      const ir::VersionStep step = ir::VersionStepOf(g_, base);
      if (step.runs == kNoNode) break;
      at = g_.node(step.runs).inputs[step.slot];
    }
    std::reverse(versions.begin(), versions.end());
    return versions[0] == g_.inputs[pair.input].node ? versions : std::vector<NodeId>();
  }

  // Writes that end in their own state's output happen in place, unless somebody would read an older version
  // too late: the state is then written as a whole, after everything else.
  void FindStateChains() {
    in_place_.assign(static_cast<size_t>(g_.size()), 0);
    for (const ir::StatePair& pair : g_.states) {
      std::vector<NodeId> versions = VersionsOf(pair);
      if (versions.size() < 2) continue;
      CopyOwnReads(versions);
      if (!ir::OrderReaders(&g_, versions).empty()) continue;
      in_place_.resize(static_cast<size_t>(g_.size()), 0);
      for (size_t v = 1; v < versions.size(); ++v) in_place_[versions[v]] = 1;
      for (NodeId version : versions) storage_.emplace(version, versions[0]);
      chains_.push_back(std::move(versions));
    }
    in_place_.resize(static_cast<size_t>(g_.size()), 0);
  }

  // What a write takes from its own storage, as updates, indices or other arguments, is read before anything
  // is written.
  void CopyOwnReads(const std::vector<NodeId>& versions) {
    const std::unordered_set<NodeId> known(versions.begin(), versions.end());
    for (size_t v = 1; v < versions.size(); ++v) {
      const ir::VersionStep step = ir::VersionStepOf(g_, versions[v]);
      for (size_t k = 0; k < g_.node(step.runs).inputs.size(); ++k) {
        NodeId read = g_.node(step.runs).inputs[k];
        const bool own = known.count(g_.BaseOf(read)) != 0;
        if (!own || k == step.slot) continue;
        NodeId copy = MakeCopy(read);
        g_.SetInput(step.runs, k, copy);
      }
    }
  }

  // Copies made since the chains were found read versions as well.
  Status OrderCopies() {
    c_.storage_of.assign(static_cast<size_t>(g_.size()), kNoNode);
    for (const std::vector<NodeId>& versions : chains_) {
      const std::string late = ir::OrderReaders(&g_, versions);
      if (!late.empty()) return Status::Error(Code::kInternal, "fusion: %s", late.c_str());
      for (NodeId version : versions) c_.storage_of[version] = versions[0];
    }
    return Status::Ok();
  }

  // A write that is not in place gets a fresh copy of its data to write into.
  void CopyScatterTargets() {
    NodeId count = g_.size();
    MarkOutputs();
    const ir::Users users = g_.AllUsers();
    for (NodeId id = 0; id < count; ++id) {
      if (g_.node(id).dead || g_.node(id).op != Op::kIndexedWrite || in_place_[id]) continue;
      NodeId data = g_.node(id).inputs[0];
      // Memory that only this write reads is written in place.
      Op op = g_.node(data).op;
      bool own =
          op != Op::kView && op != Op::kInput && op != Op::kConstant && op != Op::kConcat && op != Op::kIota;
      bool chained = own && !in_place_[data] && MemoryReaders(users[data]) == 1 && !IsOutput(data);
      if (chained) continue;
      NodeId copy = MakeCopy(data, id);
      g_.SetInput(id, 0, copy);
    }
    in_place_.resize(static_cast<size_t>(g_.size()), 0);
  }

  // A call's results are written by it: they do not read its first output.
  size_t MemoryReaders(std::span<const NodeId> users) const {
    return static_cast<size_t>(std::count_if(
        users.begin(), users.end(), [&](NodeId user) { return g_.node(user).op != Op::kCallResult; }));
  }

  // The same for what custom ops change: it is copied unless the call is all that reads it.
  void CopyCallTargets() {
    const NodeId count = g_.size();
    MarkOutputs();
    const ir::Users users = g_.AllUsers();
    for (NodeId id = 0; id < count; ++id) {
      if (g_.node(id).dead || g_.node(id).op != Op::kCall) continue;
      const std::shared_ptr<const ir::CallInfo> info = g_.node(id).As<ir::CallAttrs>().info;
      for (uint32_t i = 0; i < info->num_outputs(); ++i) {
        if (!info->IsVersion(i) || VersionInPlace(users[id], id, i)) continue;
        const size_t slot = info->SlotOf(info->output(i).alias);
        const NodeId data = g_.node(id).inputs[slot];
        if (data < count && MayBeChanged(data, id, users[data])) continue;
        const NodeId copy = MakeCopy(data, id);
        g_.SetInput(id, slot, copy);
      }
    }
    in_place_.resize(static_cast<size_t>(g_.size()), 0);
  }

  bool VersionInPlace(std::span<const NodeId> results, NodeId call, uint32_t output) const {
    if (output == 0) return in_place_[call] != 0;
    return std::any_of(results.begin(), results.end(), [&](NodeId user) {
      return g_.node(user).op == Op::kCallResult && g_.node(user).As<ir::CallAttrs>().output == output &&
             in_place_[user];
    });
  }

  // Whether `data` is memory of its own that nothing but one argument of `call` reads.
  bool MayBeChanged(NodeId data, NodeId call, std::span<const NodeId> users) const {
    const Op op = g_.node(data).op;
    if (op == Op::kView || op == Op::kInput || op == Op::kConstant || op == Op::kConcat || op == Op::kIota)
      return false;
    const auto& inputs = g_.node(call).inputs;
    const auto reads =
        std::count_if(inputs.begin(), inputs.end(), [&](NodeId in) { return g_.BaseOf(in) == data; });
    return reads == 1 && !in_place_[data] && MemoryReaders(users) == 1 && !IsOutput(data);
  }

  // As of the last MarkOutputs.
  bool IsOutput(NodeId id) const {
    return static_cast<size_t>(id) < is_output_.size() && is_output_[static_cast<size_t>(id)] != 0;
  }
  void MarkOutputs() {
    is_output_.assign(static_cast<size_t>(g_.size()), 0);
    for (const ir::GraphOutput& o : g_.outputs) is_output_[static_cast<size_t>(g_.BaseOf(o.node))] = 1;
  }

  // Every output ends as a node of its own that lives in the output's memory.
  void SettleOutputs() {
    std::vector<char> taken(static_cast<size_t>(g_.size()), 0);
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      NodeId id = g_.outputs[o].node;
      NodeId base = g_.BaseOf(id);
      const bool state = state_of_output_[o] >= 0;
      if (state && (Made(id) || EndsChain(o, base) || IsUnchangedState(o, id))) continue;
      bool own = !c_.IsLeaf(base) && !in_place_[base] && !state && !taken[base] &&
                 ir::IsDense(g_.ViewOf(id), g_.node(base).shape.elements());
      if (!own) {
        // A state that takes another's contents, or its own in another order, takes them from a copy.
        bool from_state = state && (IsState(base) || in_place_[base]);
        NodeId copy = MakeCopy(from_state ? MakeCopy(id) : id);
        in_place_.resize(static_cast<size_t>(g_.size()), 0);
        if (state) c_.alone[static_cast<size_t>(copy)] = 1;
        g_.SetOutput(o, copy);
        taken.resize(static_cast<size_t>(g_.size()), 0);
        base = copy;
      }
      taken[base] = 1;
    }
    in_place_.resize(static_cast<size_t>(g_.size()), 0);
  }

  // Whether output `output` is a state that the chain of in-place writes ending in `base` has written.
  bool EndsChain(size_t output, NodeId base) const {
    const ir::StatePair& pair = g_.states[static_cast<size_t>(state_of_output_[output])];
    return in_place_[base] && StorageOf(base) == g_.inputs[pair.input].node;
  }

  NodeId StorageOf(NodeId version) const {
    const auto it = storage_.find(version);
    return it == storage_.end() ? kNoNode : it->second;
  }

  bool IsUnchangedState(size_t output, NodeId id) const {
    const ir::StatePair& pair = g_.states[static_cast<size_t>(state_of_output_[output])];
    return g_.BaseOf(id) == g_.inputs[pair.input].node &&
           ir::IsDense(g_.ViewOf(id), g_.node(g_.BaseOf(id)).shape.elements());
  }

  // Every piece of a concatenation is computed right into its place, or copied there. Outer concatenations
  // come first: the place of a piece must be plain strides in the memory of the outermost one.
  void CopyConcatPieces() {
    c_.concat_of.assign(static_cast<size_t>(g_.size()), kNoNode);
    c_.concat_places.clear();
    MarkOutputs();
    std::map<NodeId, View> places;  // of concatenations inside others
    std::vector<NodeId> order = g_.TopologicalOrder();
    for (size_t i = order.size(); i-- > 0;) {
      NodeId id = order[i];
      if (g_.node(id).op != Op::kConcat) continue;
      auto outer = places.find(id);
      View whole = outer == places.end() ? ir::DenseView(g_.node(id).shape) : outer->second;
      int axis = g_.node(id).As<ir::ConcatAttrs>().axis;
      int64_t start = 0;
      for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
        NodeId piece = g_.node(id).inputs[k];
        const Shape shape = g_.node(piece).shape;
        if (shape.elements() == 0) continue;
        View place = ir::Slice(ir::DenseView(g_.node(id).shape), axis, start, 1, shape[axis]);
        const int64_t first = start;
        start += shape[axis];
        NodeId base = g_.BaseOf(piece);
        View inside = ir::Compose(
            whole, ir::Reshape(place, g_.node(base).shape.elements() == shape.elements() ? g_.node(base).shape
                                                                                         : shape));
        Op op = g_.node(base).op;
        bool own = !c_.IsLeaf(base) && op != Op::kIndexedWrite && op != Op::kIota && op != Op::kCollective &&
                   op != Op::kCall && op != Op::kCallResult && op != Op::kLoopResult && !IsOutput(base) &&
                   c_.concat_of[base] == kNoNode && inside.affine() &&
                   ir::IsDense(g_.ViewOf(piece), g_.node(base).shape.elements());
        if (!own) {
          base = MakeCopy(piece, id);
          g_.SetInput(id, k, base);
          c_.concat_of.resize(static_cast<size_t>(g_.size()), kNoNode);
        } else if (op == Op::kConcat) {
          places[base] = inside;
        }
        c_.concat_of[base] = id;
        c_.concat_places[base] = {first, shape[axis]};
      }
    }
  }

  // Order, readers, homes.
  Status Index() {
    c_.concat_of.resize(static_cast<size_t>(g_.size()), kNoNode);
    g_.RemoveDead();
    c_.order = g_.TopologicalOrder();
    if (c_.order.empty() && g_.size() > 0) {
      return Status::Error(Code::kInternal, "fusion was given a graph with a cycle");
    }
    size_t n = static_cast<size_t>(g_.size());
    c_.position.assign(n, -1);
    c_.readers.assign(n, {});
    c_.stored.assign(n, 0);
    c_.made.resize(n, 0);
    c_.alone.resize(n, 0);
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

  // What must be in memory, whoever reads it.
  void MarkStored() {
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
      if (c_.concat_of[id] != kNoNode) c_.stored[id] = 1;
      // What runs for its own sake.
      for (NodeId before : node.strong_after) {
        if (c_.readers[g_.BaseOf(before)].empty()) c_.stored[g_.BaseOf(before)] = 1;
      }
    }
  }

  Context& c_;
  Graph& g_;
  std::vector<int> state_of_input_, state_of_output_;  // into g_.states, or -1
  std::vector<char> is_output_;                        // by node
  std::vector<char> in_place_;                         // by node: a write in the state's own memory
  std::unordered_map<NodeId, NodeId> storage_;         // of the versions in them, the input
  std::vector<std::vector<NodeId>> chains_;            // the versions of each state that is written in place
};

}  // namespace

Status Prepare(Context* context) {
  context->program.name = context->graph.name;
  RONDO_RETURN_IF_ERROR(Preparation(context).Run());
  FindImages(context);
  return Status::Ok();
}

}  // namespace rondo::fusion
