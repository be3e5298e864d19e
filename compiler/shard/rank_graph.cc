#include "compiler/shard/rank_graph.h"

#include <map>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/versions.h"
#include "compiler/shard/conversions.h"
#include "compiler/shard/cut_weight.h"
#include "compiler/shard/local_view.h"

namespace rondo::shard {
namespace {

class Rewriter {
 public:
  Rewriter(const Graph& graph, const Candidates& candidates, const Costs& costs, int64_t rank,
           StageNumber stage, WeightShardings* held)
      : g_(graph),
        c_(candidates),
        costs_(costs),
        devices_(costs.devices()),
        rank_(rank),
        stage_(stage),
        held_(held),
        there_(static_cast<size_t>(graph.size())),
        runs_(static_cast<size_t>(graph.size()), kNoNode) {}

  Result<Graph> Run(const Assignment& assignment) {
    out_.name = g_.name;
    out_.ordered = g_.ordered;
    out_.states = g_.states;
    std::vector<Sharding> taken(g_.inputs.size(), kWhole);
    for (const Step& step : assignment.steps) {
      const Node& node = g_.node(step.node);
      if (node.op != Op::kInput) continue;
      taken[static_cast<size_t>(node.As<ir::InputAttrs>().index)] =
          c_.shardings[static_cast<size_t>(step.node)][static_cast<size_t>(step.choice)];
    }
    for (size_t i = 0; i < g_.inputs.size(); ++i) MakeInput(i, taken[i]);
    std::vector<NodeId> outputs(g_.outputs.size(), kNoNode);
    for (const Step& step : assignment.steps) {
      const Op op = g_.node(step.node).op;
      if (op == Op::kView) {
        MakeView(step);
      } else if (op != Op::kInput) {
        MakeNode(step);
      }
      BeAsGiven(step.node);
      for (size_t o : outputs_of_[step.node]) outputs[o] = MakeOutput(o, taken);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == kNoNode) outputs[o] = MakeOutput(o, taken);
      out_.outputs.push_back({g_.outputs[o].name, outputs[o]});
    }
    // Readers that were added here must also run before the state that they read is replaced.
    const std::string late = ir::OrderStates(&out_);
    if (!late.empty()) return Status::Error(Code::kInternal, "%s", late.c_str());
    out_.RemoveDead();
    out_.Compact();
    return std::move(out_);
  }

  void NoteOutputs() {
    for (size_t o = 0; o < g_.outputs.size(); ++o) outputs_of_[g_.outputs[o].node].push_back(o);
  }

 private:
  std::map<Sharding, NodeId>& There(NodeId id) { return there_[static_cast<size_t>(id)]; }

  // A value whose sharding the model gives exists in that sharding alone.
  void BeAsGiven(NodeId id) {
    const Sharding given = c_.GivenTo(id);
    const Node& node = g_.node(id);
    if (given == kUnknown || (node.op == Op::kInput && There(id).count(given) != 0)) return;
    const NodeId made = Get(id, given);
    There(id) = {{given, made}};
  }

  NodeId MakeOutput(size_t o, const std::vector<Sharding>& taken) {
    const int pair = PairOfOutput(g_, o);
    const Sharding sharding =
        pair < 0 ? kWhole : taken[static_cast<size_t>(g_.states[static_cast<size_t>(pair)].input)];
    return Get(g_.outputs[o].node, sharding);
  }

  void MakeInput(size_t i, Sharding sharding) {
    const NodeId id = g_.inputs[i].node;
    Node node = g_.node(id);
    node.shape = LocalShape(node.shape, sharding, devices_);
    const NodeId made = out_.Add(std::move(node));
    out_.inputs.push_back({g_.inputs[i].name, made});
    There(id)[sharding] = made;
  }

  // ------------------------------------------------------------------------- what a node becomes

  void MakeNode(const Step& step) {
    const Node& from = g_.node(step.node);
    const Rule& rule = c_.rules[static_cast<size_t>(step.node)][static_cast<size_t>(step.choice)];
    Node node = from;
    for (size_t i = 0; i < from.inputs.size(); ++i) node.inputs[i] = Get(from.inputs[i], rule.inputs[i]);
    node.shape = LocalShape(from.shape, rule.output, devices_);
    if (from.op == Op::kConv && rule.inputs[0].is_split() && rule.output.is_split() &&
        from.As<ir::ConvAttrs>().groups > 1 && rule.inputs[1].is_split()) {
      node.As<ir::ConvAttrs>().groups /= rule.output.parts(devices_);
    }
    if (from.op == Op::kAttention && rule.inputs[1] == kWhole &&
        DimOf(from.shape, rule.output, devices_).dim == 1) {
      for (size_t i : {size_t{1}, size_t{2}}) node.inputs[i] = HeadsOf(node.inputs[i], from);
    }
    bool summand = false;
    if (from.op == Op::kIndexedRead || from.op == Op::kIndexedWrite) summand = Localise(from, rule, &node);
    Runs(from, &node);
    const std::vector<std::string> sources = node.sources;
    const NodeId first = out_.size();
    const NodeId index = summand ? OwnIndex(from, &node) : kNoNode;
    if (from.op == Op::kCollective) Address(&node);
    const NodeId made = out_.Add(std::move(node));
    if (from.op == Op::kCollective) last_collective_ = made;
    const NodeId result = summand ? OnlyOwn(made, index, sources) : made;
    runs_[static_cast<size_t>(step.node)] = g_.ordered ? out_.BaseOf(result) : made;
    There(step.node)[rule.output] = result;
    for (NodeId id = first; id < out_.size() && g_.ordered; ++id) {
      const Op op = out_.node(id).op;
      if (id != made && op != Op::kConstant && op != Op::kView && op != Op::kIota) Runs(from, &out_.node(id));
    }
  }

  // Addresses a send between stages: its devices are those of this rank, and it joins the order of
  // collectives.
  void Address(Node* send) const {
    for (uint32_t& device : send->As<ir::CollectiveAttrs>().group)
      device = device * static_cast<uint32_t>(devices_) + static_cast<uint32_t>(rank_);
    if (last_collective_ != kNoNode) send->weak_after.push_back(last_collective_);
  }

  // The heads of whole keys or values that this device's query heads use: one head if all share it, otherwise
  // one per query head.
  NodeId HeadsOf(NodeId all, const Node& attention) {
    ir::Builder b(&out_);
    b.SetSources(attention.sources);
    Bind(&b, attention);
    const Shape shape = b.shape(all);
    const int64_t shared = attention.shape[1] / shape[1], own = attention.shape[1] / devices_;
    if (shared % own == 0) return b.Slice(all, 1, own * rank_ / shared, 1, 1);
    const Shape repeated({shape[0], shape[1], shared, shape[2], shape[3]});
    const NodeId each = b.Expand(b.Unsqueeze(all, 2), repeated);
    const NodeId heads = b.Reshape(each, Shape({shape[0], attention.shape[1], shape[2], shape[3]}));
    return b.Slice(heads, 1, own * rank_, 1, own);
  }

  // New nodes of `b` are parts of `from`, so they get its annotations.
  void Bind(ir::Builder* b, const Node& from) const {
    if (g_.annotated) b->SetAnnotations(from.annotations);
  }

  // Redirects control edges to the new nodes.
  void Runs(const Node& from, Node* node) const {
    const auto follow = [&](const std::vector<NodeId>& before, std::vector<NodeId>* list) {
      list->clear();
      for (NodeId id : before) {
        const NodeId now = runs_[static_cast<size_t>(g_.BaseOf(id))];
        if (now != kNoNode) list->push_back(now);
      }
    };
    follow(from.weak_after, &node->weak_after);
    follow(from.strong_after, &node->strong_after);
  }

  // Makes the access local to this device. True if an index may only find this device's values.
  bool Localise(const Node& from, const Rule& rule, Node* node) {
    auto& attrs = node->As<ir::IndexedAttrs>();
    const Sharding data = rule.inputs[0];
    const Sharding accessed = from.op == Op::kIndexedRead && rule.output != kPartial ? rule.output
                              : from.op == Op::kIndexedWrite                         ? rule.inputs[1]
                                                                                     : kWhole;
    const int64_t elements = g_.node(from.inputs[0]).shape.elements();
    const auto local = LocaliseIndexed(attrs, elements, data, accessed, devices_, rank_);
    attrs.map = local->map;
    for (size_t k = 0; k < attrs.dims.size(); ++k) attrs.dims[k].stride = local->strides[k];
    over_ = local->over;
    return over_ >= 0;
  }

  // Replaces index `over_` of `node` by an index into this device's values: 0 if another device holds the
  // value, out of range if no device does. Returns the difference from this device's first value.
  NodeId OwnIndex(const Node& from, Node* node) {
    ir::Builder b(&out_);
    b.SetSources(from.sources);
    Bind(&b, from);
    const auto slot = static_cast<size_t>(over_) + 1;
    ir::IndexedDim& dim = node->As<ir::IndexedAttrs>().dims[static_cast<size_t>(over_)];
    const int64_t own = dim.extent / devices_;
    NodeId index = b.Cast(node->inputs[slot], DType::kI64);
    const NodeId zero = b.Scalar(DType::kI64, 0), end = b.Scalar(DType::kI64, static_cast<double>(own));
    if (dim.wrap) {
      const NodeId wrapped = b.BinaryScalar(TapeOp::kAdd, index, static_cast<double>(dim.extent));
      index = b.Select(b.Binary(TapeOp::kLess, index, zero), wrapped, index);
    }
    const NodeId known = InRange(&b, index, dim.extent, zero, end);
    const NodeId place = b.BinaryScalar(TapeOp::kSub, index, static_cast<double>(own * rank_));
    node->inputs[slot] = b.Expand(InRange(&b, place, own, place, known), out_.node(node->inputs[slot]).shape);
    dim.extent = own;
    dim.wrap = false;
    return place;
  }

  // `inside` where 0 <= x < extent, otherwise `outside`.
  static NodeId InRange(ir::Builder* b, NodeId x, int64_t extent, NodeId inside, NodeId outside) {
    const NodeId below = b->Binary(TapeOp::kLess, x, b->Scalar(DType::kI64, 0));
    const NodeId fits = b->Binary(TapeOp::kLess, x, b->Scalar(DType::kI64, static_cast<double>(extent)));
    return b->Select(below, outside, b->Select(fits, inside, outside));
  }

  // The value read if `place` is on this device; otherwise a value that leaves any number unchanged when
  // added.
  NodeId OnlyOwn(NodeId read, NodeId place, const std::vector<std::string>& sources) {
    ir::Builder b(&out_);
    b.SetSources(sources);
    Bind(&b, out_.node(read));
    const NodeId nothing = b.Scalar(b.dtype(read), -0.0);  // -0 keeps a sum of -0, too
    const int64_t own = out_.node(read).As<ir::IndexedAttrs>().dims[static_cast<size_t>(over_)].extent;
    return InRange(&b, place, own, read, nothing);
  }

  // ------------------------------------------------------------------------------------ views

  void MakeView(const Step& step) {
    const NodeId base = g_.node(step.node).inputs[0];
    const std::vector<Rule>& rules = c_.rules[static_cast<size_t>(step.node)];
    if (step.choice > 0) Get(base, rules[static_cast<size_t>(step.choice - 1)].inputs[0]);
    for (const Rule& rule : rules) {
      if (There(base).count(rule.inputs[0]) != 0 && There(step.node).count(rule.output) == 0) {
        There(step.node)[rule.output] = ShowLocal(step.node, There(base)[rule.inputs[0]], rule);
      }
    }
  }

  NodeId ShowLocal(NodeId id, NodeId base, const Rule& rule) {
    const Node& from = g_.node(id);
    const int64_t elements = g_.node(from.inputs[0]).shape.elements();
    const auto view =
        LocalView(from.As<ir::ViewAttrs>().view, elements, rule.inputs[0], rule.output, devices_, rank_);
    return Show(from, base, *view);
  }

  NodeId Show(const Node& from, NodeId x, const ir::View& view) {
    ir::Builder b(&out_);
    b.SetSources(from.sources);
    b.SetAnnotations(from.annotations);
    return b.ViewNode(x, view);
  }

  // ------------------------------------------------------------------------------ conversions

  // `id` in the sharding `wanted`. Weights are cut; other values are converted from what exists.
  NodeId Get(NodeId id, Sharding wanted) {
    auto& there = There(id);
    const auto found = there.find(wanted);
    if (found != there.end()) return found->second;
    if (IsWeight(g_, id)) return there[wanted] = GetWeight(id, wanted);
    ShardingSet shardings = 0;
    const std::vector<Sharding>& known = c_.shardings[static_cast<size_t>(id)];
    for (size_t f = 0; f < known.size(); ++f) {
      if (there.count(known[f]) != 0) shardings = static_cast<ShardingSet>(shardings | 1u << f);
    }
    for (const Conversion& c : PathTo(wanted, known, shardings)) {
      const NodeId made = c.from == kWhole     ? FromWhole(id, there[kWhole], c.to)
                          : c.from == kPartial ? Reduce(id, there[kPartial])
                                               : Gather(id, there[c.from], c.from);
      there[c.to] = made;
    }
    return there[wanted];
  }

  NodeId GetWeight(NodeId id, Sharding wanted) {
    const NodeId base = g_.BaseOf(id);
    ShardingSet shardings = 0;
    const std::vector<Sharding>& known = c_.shardings[static_cast<size_t>(base)];
    for (size_t f = 0; f < known.size(); ++f) {
      if (There(base).count(known[f]) != 0) shardings = static_cast<ShardingSet>(shardings | 1u << f);
    }
    const WeightChoice choice = ChooseWeight(g_, c_, costs_, id, wanted, shardings);
    const NodeId constant = Constant(base, choice.base);
    NodeId shown = constant;
    if (base != id) {
      const Rule rule{{choice.base}, choice.shown};
      shown = ShowLocal(id, constant, rule);
    }
    return choice.shown == wanted ? shown : FromWhole(id, shown, wanted);
  }

  NodeId Constant(NodeId id, Sharding sharding) {
    auto& there = There(id);
    const auto found = there.find(sharding);
    if (found != there.end()) return found->second;
    Node node = g_.node(id);
    const auto data = ShareOf(node.As<ir::ConstantAttrs>().data, sharding, devices_, rank_);
    node.shape = data->shape;
    node.attrs = ir::ConstantAttrs{data};
    const std::string key = held_ == nullptr ? "" : WeightKey(*g_.node(id).As<ir::ConstantAttrs>().data);
    if (!key.empty()) (*held_)[key].push_back(sharding);
    return there[sharding] = out_.Add(std::move(node));
  }

  // This device's share of a whole value; or, as its summand, all of it on device 0 and zeros elsewhere.
  NodeId FromWhole(NodeId id, NodeId whole, Sharding to) {
    const Node& from = g_.node(id);
    if (to.is_split()) {
      return Show(from, whole,
                  *LocalView(ir::DenseView(from.shape), from.shape.elements(), kWhole, to, devices_, rank_));
    }
    ir::Builder b(&out_);
    b.SetSources(from.sources);
    Bind(&b, from);
    const NodeId here = b.Ints(DType::kBool, Shape(), {rank_ == 0 ? 1 : 0});
    return b.Select(here, whole, b.Scalar(from.dtype, 0));
  }

  NodeId Reduce(NodeId id, NodeId summand) {
    return Exchange(CollectiveOp::kAllReduce, "summands of ", id, summand, out_.node(summand).shape);
  }

  NodeId Gather(NodeId id, NodeId share, Sharding sharding) {
    const Node& from = g_.node(id);
    const int64_t parts = sharding.parts(devices_), own = from.shape.elements() / parts;
    ir::Builder b(&out_);
    b.SetSources(from.sources);
    Bind(&b, from);
    const NodeId flat = b.Reshape(share, Shape({own}));
    const NodeId all = Exchange(CollectiveOp::kAllGather, "shares of ", id, flat, Shape({devices_, own}));
    const NodeId each = b.Slice(all, 0, 0, sharding.copies, parts);
    const NodeId runs = b.Reshape(each, Shape({parts, own / sharding.run, sharding.run}));
    return b.Reshape(b.Transpose(runs, {1, 0, 2}), from.shape);
  }

  NodeId Exchange(CollectiveOp op, const char* what, NodeId id, NodeId x, const Shape& shape) {
    const Node& from = g_.node(id);
    Node node;
    node.op = Op::kCollective;
    node.dtype = from.dtype;
    node.shape = shape;
    ir::CollectiveAttrs attrs{op, devices_};
    for (int64_t r = 0; r < devices_ && stage_.count > 1; ++r)
      attrs.group.push_back(static_cast<uint32_t>(stage_.number * devices_ + r));
    node.attrs = attrs;
    node.inputs = {x};
    const std::string name = op == CollectiveOp::kAllReduce ? "AllReduce" : "AllGather";
    const NodeId base = g_.BaseOf(id);
    const std::string source = !from.sources.empty()            ? from.sources[0]
                               : !g_.node(base).sources.empty() ? g_.node(base).sources[0]
                                                                : "node " + std::to_string(id);
    node.sources = {name + " of the " + what + source};
    if (last_collective_ != kNoNode) node.weak_after.push_back(last_collective_);
    return last_collective_ = out_.Add(std::move(node));
  }

  const Graph& g_;
  const Candidates& c_;
  const Costs& costs_;
  const int64_t devices_, rank_;
  const StageNumber stage_;
  WeightShardings* held_;
  Graph out_;
  std::vector<std::map<Sharding, NodeId>> there_;  // by node of the old graph
  std::vector<NodeId> runs_;  // by node of the old graph: the new node that does its work
  std::map<NodeId, std::vector<size_t>> outputs_of_;
  NodeId last_collective_ = kNoNode;
  int over_ = -1;
};

}  // namespace

Result<Graph> RankGraph(const Graph& graph, const Candidates& candidates, const Costs& costs,
                        const Assignment& assignment, int64_t rank, StageNumber stage,
                        WeightShardings* held) {
  Rewriter rewriter(graph, candidates, costs, rank, stage, held);
  rewriter.NoteOutputs();
  return rewriter.Run(assignment);
}

}  // namespace rondo::shard
