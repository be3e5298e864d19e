#include "compiler/shard/stage_graph.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/versions.h"

namespace rondo::shard {
namespace {

class Stage {
 public:
  Stage(const Graph& graph, const StageCut& cut, const std::vector<Transfer>& transfers, int stage,
        const ir::Users& users)
      : g_(graph), cut_(cut), transfers_(transfers), users_(users), stage_(stage) {
    for (size_t i = 0; i < cut.states.size(); ++i) {
      for (size_t v = 0; v < cut.states[i].versions.size(); ++v) version_[cut.states[i].versions[v]] = {i, v};
    }
    state_of_output_.assign(graph.outputs.size(), -1);
    for (size_t i = 0; i < graph.states.size(); ++i)
      state_of_output_[static_cast<size_t>(graph.states[i].output)] = static_cast<int>(i);
    for (size_t i = 0; i < cut.states.size(); ++i) rows_.push_back(RowsOn(cut, i, stage));
    out_.name = graph.name;
  }

  Result<Graph> Run() {
    for (const Transfer& transfer : transfers_) {
      if (transfer.to == stage_) Receive(transfer);
    }
    auto next = transfers_.begin();
    for (NodeId id : cut_.order) {
      if (cut_.stage_of[static_cast<size_t>(id)] != stage_) continue;
      Made(id);
      while (next != transfers_.end() && (next->from != stage_ || next->after == id)) {
        if (next->from == stage_) Send(*next);
        ++next;
      }
    }
    MakePorts();
    const std::string late = ir::OrderStates(&out_);
    if (!late.empty()) return Status::Error(Code::kInternal, "%s", late.c_str());
    out_.RemoveDead();
    out_.Compact();
    return std::move(out_);
  }

 private:
  struct Version {
    size_t state, number;
  };

  // ------------------------------------------------------------------------------------ values

  // The node of this stage for `id`.
  NodeId Made(NodeId id) {
    const auto known = made_.find(id);
    if (known != made_.end()) return known->second;
    const NodeId made = Make(id);
    made_[id] = made;
    return made;
  }

  NodeId Make(NodeId id) {
    const Node& node = g_.node(id);
    const auto version = version_.find(id);
    if (version != version_.end() && Before(version->second, id) != id)
      return Made(Before(version->second, id));
    if (node.op == Op::kInput) return MakeInput(id);
    if (node.op == Op::kView) return MakeView(node);
    const int stage = cut_.stage_of[static_cast<size_t>(id)];
    if (stage != kNoStage && stage != stage_) return Empty(node);
    Node copy = node;
    for (NodeId& in : copy.inputs) in = Made(in);
    copy.weak_after = Edges(node, node.weak_after);
    copy.strong_after = Edges(node, node.strong_after);
    if (!node.inputs.empty() && (node.op == Op::kIndexedRead || node.op == Op::kIndexedWrite))
      Shift(node.inputs[0], &copy.As<ir::IndexedAttrs>().map);
    if (version != version_.end()) copy.shape = ShapeHere(version->second.state, copy.shape);
    return out_.Add(std::move(copy));
  }

  // The newest version of a state, up to `id`, on this stage: one that it writes, or the input.
  NodeId Before(const Version& version, NodeId id) const {
    const std::vector<NodeId>& all = cut_.states[version.state].versions;
    for (size_t v = version.number; v > 0; --v) {
      const NodeId writes = ir::VersionStepOf(g_, all[v]).runs;
      if (cut_.stage_of[static_cast<size_t>(writes)] == stage_) return all[v];
    }
    return version.number == 0 ? id : all[0];
  }

  NodeId MakeInput(NodeId id) {
    Node copy = g_.node(id);
    const auto version = version_.find(id);
    if (version != version_.end()) copy.shape = ShapeHere(version->second.state, copy.shape);
    return out_.Add(std::move(copy));
  }

  Shape ShapeHere(size_t state, Shape shape) const {
    const RowRange rows = rows_[state];
    const StateRows& of = cut_.states[state];
    if (shape.rank > 0 && rows.end - rows.first != of.rows) shape[of.axis] = rows.end - rows.first;
    return shape;
  }

  NodeId MakeView(const Node& node) {
    Node copy = node;
    const NodeId made = Made(node.inputs[0]);
    copy.inputs[0] = out_.BaseOf(made);  // a picture sent with channels last is a view here
    ir::View& view = copy.As<ir::ViewAttrs>().view;
    Shift(node.inputs[0], &view);
    view = ir::Compose(out_.ViewOf(made), view);
    copy.weak_after = Edges(node, node.weak_after);
    copy.strong_after = Edges(node, node.strong_after);
    return out_.Add(std::move(copy));
  }

  // If `of` is a state, makes a map over its storage count from the first row on this stage.
  void Shift(NodeId of, ir::View* map) const {
    const auto version = version_.find(of);
    if (version == version_.end()) return;
    const StateRows& state = cut_.states[version->second.state];
    map->steps[0].offset -= rows_[version->second.state].first * state.row_elements;
  }

  // Replaces a value without elements, which is not sent.
  NodeId Empty(const Node& node) {
    ir::Builder b(&out_);
    b.SetSources(node.sources);
    return b.Constant(ir::ConstantData::Own(node.dtype, node.shape, {}));
  }

  // Control edges to nodes on this stage. Edges to other stages are transfers.
  std::vector<NodeId> Edges(const Node& node, const std::vector<NodeId>& before) {
    std::vector<NodeId> edges;
    for (NodeId id : before) {
      const NodeId base = g_.BaseOf(id);
      const int stage = cut_.stage_of[static_cast<size_t>(base)];
      const auto sent = received_.find(base);
      if (stage == stage_ || (stage == kNoStage && made_.count(base) != 0)) {
        edges.push_back(Made(base));
      } else if (sent != received_.end() && node.op != Op::kView) {
        edges.push_back(sent->second);
      }
    }
    return edges;
  }

  // ----------------------------------------------------------------------------------- transfers

  Node Exchange(const Transfer& transfer) const {
    Node node;
    node.op = Op::kCollective;
    node.dtype = transfer.value == kNoNode ? DType::kU8 : g_.node(transfer.value).dtype;
    node.attrs = ir::CollectiveAttrs{
        CollectiveOp::kSend, 2, {static_cast<uint32_t>(transfer.from), static_cast<uint32_t>(transfer.to)}};
    node.sources = {transfer.source};
    if (last_ != kNoNode) node.weak_after.push_back(last_);
    return node;
  }

  // The permutation from [n, c, spatial...] to [n, spatial..., c]; its inverse leads back.
  static std::vector<int> ChannelsLast(int rank) {
    std::vector<int> order = {0};
    for (int d = 2; d < rank; ++d) order.push_back(d);
    order.push_back(1);
    return order;
  }
  static std::vector<int> ChannelsFirst(int rank) {
    std::vector<int> order = {0, rank - 1};
    for (int d = 1; d + 1 < rank; ++d) order.push_back(d);
    return order;
  }

  void Receive(const Transfer& transfer) {
    Node node = Exchange(transfer);
    ir::Builder b(&out_);
    b.SetSources(node.sources);
    node.shape = transfer.value == kNoNode ? Shape({1}) : g_.node(transfer.value).shape;
    const std::vector<int> order = ChannelsLast(node.shape.rank), back = ChannelsFirst(node.shape.rank);
    if (transfer.channels_last) node.shape = ir::Transpose(ir::DenseView(node.shape), order).shape();
    if (transfer.value != kNoNode) node.name = g_.node(transfer.value).name;
    last_ = out_.Add(std::move(node));
    if (transfer.value != kNoNode)
      made_[transfer.value] = transfer.channels_last ? b.Transpose(last_, back) : last_;
    received_[transfer.after] = last_;
  }

  void Send(const Transfer& transfer) {
    Node node = Exchange(transfer);
    node.shape = Shape({0});
    ir::Builder b(&out_);
    b.SetSources(node.sources);
    if (transfer.value != kNoNode) {
      node.inputs = {Made(transfer.value)};
      if (transfer.channels_last)
        node.inputs[0] = b.Transpose(node.inputs[0], ChannelsLast(g_.node(transfer.value).shape.rank));
    } else {
      node.inputs = {b.Ints(DType::kU8, Shape({1}), {1})};
      (transfer.strong ? node.strong_after : node.weak_after).push_back(Made(transfer.after));
    }
    last_ = out_.Add(std::move(node));
  }

  // --------------------------------------------------------------------------------------- ports

  bool HasState(size_t state) const {
    const RowRange rows = rows_[state];
    return rows.end > rows.first;
  }
  bool HasInput(size_t i) const {
    const NodeId id = g_.inputs[i].node;
    const auto version = version_.find(id);
    if (version != version_.end()) return HasState(version->second.state);
    return made_.count(id) != 0 || (stage_ == 0 && users_[static_cast<size_t>(id)].empty());
  }
  // The stage of an output: the first stage if every stage could make it.
  int StageOf(NodeId base) const {
    const auto version = version_.find(base);
    if (version != version_.end()) return cut_.row_stages[version->second.state][0];
    return std::max(cut_.stage_of[static_cast<size_t>(base)], 0);
  }

  void MakePorts() {
    std::map<int, int> output_of;  // by state
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      const int state = state_of_output_[o];
      if (state < 0 ? StageOf(g_.BaseOf(g_.outputs[o].node)) != stage_
                    : !HasState(static_cast<size_t>(state)))
        continue;
      if (state >= 0) output_of[state] = static_cast<int>(out_.outputs.size());
      out_.outputs.push_back({g_.outputs[o].name, Made(g_.outputs[o].node)});
    }
    std::map<int, int> new_input;
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      if (!HasInput(i)) continue;
      const NodeId made = Made(g_.inputs[i].node);
      new_input[static_cast<int>(i)] = static_cast<int>(out_.inputs.size());
      out_.node(made).As<ir::InputAttrs>().index = static_cast<int>(out_.inputs.size());
      out_.inputs.push_back({g_.inputs[i].name, made});
    }
    for (size_t i = 0; i < g_.states.size(); ++i) {
      if (!HasState(i)) continue;
      out_.states.push_back({new_input.at(g_.states[i].input), output_of.at(static_cast<int>(i))});
    }
  }

  const Graph& g_;
  const StageCut& cut_;
  const std::vector<Transfer>& transfers_;
  const ir::Users& users_;
  const int stage_;
  Graph out_;
  std::vector<int> state_of_output_;             // by output; -1: none
  std::vector<RowRange> rows_;                   // by state: the rows on this stage
  std::unordered_map<NodeId, Version> version_;  // by node: the version of a state
  std::unordered_map<NodeId, NodeId> made_;      // by node of the whole graph
  std::unordered_map<NodeId, NodeId> received_;  // by the node that ran before: the receive
  NodeId last_ = kNoNode;                        // the last transfer
};

}  // namespace

Result<std::vector<Graph>> StageGraphs(const Graph& graph, const StageCut& cut,
                                       const std::vector<Transfer>& transfers) {
  const ir::Users users = graph.AllUsers();
  std::vector<Graph> stages;
  for (int stage = 0; stage < cut.stages; ++stage) {
    RONDO_ASSIGN_OR_RETURN(Graph made, Stage(graph, cut, transfers, stage, users).Run());
    stages.push_back(std::move(made));
  }
  return stages;
}

}  // namespace rondo::shard
