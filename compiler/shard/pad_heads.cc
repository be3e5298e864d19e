#include "compiler/shard/pad_heads.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/shard/describe.h"
#include "compiler/shard/local_view.h"
#include "compiler/shard/pad_weight.h"
#include "compiler/shard/rules.h"

namespace rondo::shard {
namespace {

using Data = std::shared_ptr<const ir::ConstantData>;

constexpr size_t kMostValues = 4096;  // of one region: some dozens per layer

bool DoesHeadByHead(Op op) {
  return op == Op::kView || op == Op::kPointwise || op == Op::kReduce || op == Op::kMatMul ||
         op == Op::kConcat || op == Op::kAttention || op == Op::kIndexedWrite;
}

class HeadPadding {
 public:
  HeadPadding(const Costs& costs, const std::set<std::string>& leave, bool states, Graph* graph)
      : costs_(costs), leave_(leave), states_(states), g_(*graph), b_(graph), old_(graph->size()) {}

  std::vector<PaddedDim> Run() {
    for (NodeId id : g_.TopologicalOrder()) {
      if (g_.node(id).op == Op::kAttention && taken_.count(id) == 0) PadAttention(id);
    }
    if (!done_.empty()) {
      g_.RemoveDead();
      g_.Compact();
    }
    return std::move(done_);
  }

 private:
  // An input outside the region's values: a weight, or a value that is the same for all heads.
  struct Use {
    NodeId reader;
    size_t slot;
    Sharding sharding;  // of the reader's input
  };
  // All values that are computed head by head, as if key heads were dealt out, one to each of `heads`
  // devices. A value's sharding (sharding.h) shows the dim along which its heads lie.
  struct Region {
    int64_t heads = 0, to = 0;
    int64_t queries = 0;  // query heads
    std::map<NodeId, Sharding> values;
    std::map<NodeId, Rule> rules;     // how each value that is not a view is computed
    std::vector<Use> weights, same;   // `same` are broadcast over the heads
    std::map<NodeId, Sharding> sums;  // matmuls, with the sharding of their weight
    std::deque<NodeId> left;          // values to look at
    std::set<NodeId> constants;
  };

  // ------------------------------------------------------------------------------- what to pad

  void PadAttention(NodeId id) {
    const Node& node = g_.node(id);
    const int64_t devices = costs_.devices(), heads = node.shape[1];
    Region region;
    region.queries = heads;
    region.heads = g_.node(node.inputs[1]).shape[1];
    region.to = (region.heads + devices - 1) / devices * devices;
    // If there are few key heads, each can lie on several devices instead.
    const bool copied = region.heads < devices && devices % region.heads == 0 && heads % devices == 0;
    if (region.heads < 2 || region.heads % devices == 0 || copied ||
        4 * region.to > 3 * region.heads * devices)
      return;
    if (!Add(id, SplitOf(node.shape, 1, heads / region.heads, region.heads), &region)) return;
    for (; !region.left.empty(); region.left.pop_front()) {
      if (!LookAt(region.left.front(), &region)) return;
    }
    if (Agrees(region) && WorthIt(region)) Apply(region);
  }

  // The dim that consists of the heads; none if the dim has more than the heads.
  std::optional<int> HeadsDim(const Shape& shape, Sharding sharding, int64_t heads, int64_t* inner) const {
    const SplitDim split = DimOf(shape, sharding, heads);
    if (split.dim < 0 || shape[split.dim] != heads * split.inner) return std::nullopt;
    *inner = split.inner;
    return split.dim;
  }
  bool LieAlongADim(const Shape& shape, Sharding sharding, const Region& region) const {
    int64_t inner = 0;
    return sharding.is_split() && HeadsDim(shape, sharding, region.heads, &inner).has_value();
  }

  bool Add(NodeId id, Sharding sharding, Region* region) {
    const auto known = region->values.find(id);
    if (known != region->values.end()) return known->second == sharding;
    const Node& node = g_.node(id);
    const size_t twins = TwinsOf(id).size();
    const bool state = node.op == Op::kInput && twins > 0;
    if (id >= old_ || taken_.count(id) != 0 || !(DoesHeadByHead(node.op) || state) ||
        twins != g_.OutputsAt(id).size() + state || !LieAlongADim(node.shape, sharding, *region) ||
        region->values.size() >= kMostValues || std::holds_alternative<ir::PackedAttrs>(node.attrs))
      return false;
    region->values.emplace(id, sharding);
    region->left.push_back(id);
    return true;
  }

  // The other ends of the states of which `id` is an input or output. None if states are not padded.
  std::vector<NodeId> TwinsOf(NodeId id) const {
    std::vector<NodeId> twins;
    for (const ir::StatePair& pair : g_.states) {
      const NodeId in = g_.inputs[static_cast<size_t>(pair.input)].node,
                   out = g_.outputs[static_cast<size_t>(pair.output)].node;
      if (states_ && id == in) twins.push_back(out);
      if (states_ && id == out) twins.push_back(in);
    }
    return twins;
  }

  bool LookAt(NodeId id, Region* region) {
    const Sharding sharding = region->values.at(id);
    const Node& node = g_.node(id);
    for (NodeId twin : TwinsOf(id)) {
      if (!Add(twin, sharding, region)) return false;
    }
    if (node.op == Op::kView) {
      const int64_t elements = g_.node(node.inputs[0]).shape.elements();
      const Sharding base = ShardingBehind(node.As<ir::ViewAttrs>().view, elements, sharding, region->heads);
      if (!base.is_split() || !Add(node.inputs[0], base, region)) return false;
    } else if (node.op != Op::kInput) {
      const std::vector<Rule> rules = RulesWith(g_, node, -1, sharding, region->heads);
      if (rules.empty()) return false;
      region->rules[id] = rules[0];
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        if (rules[0].inputs[slot].is_split() && !Need({id, slot, rules[0].inputs[slot]}, region))
          return false;
      }
    }
    for (NodeId user : g_.UsersOf(id)) {
      if (!FollowInto(user, id, sharding, region)) return false;
    }
    return true;
  }

  // Adds an input of a value that is computed head by head.
  bool Need(const Use& use, Region* region) {
    const NodeId in = g_.node(use.reader).inputs[use.slot], base = g_.BaseOf(in);
    const Node& node = g_.node(in);
    const int64_t elements = g_.node(base).shape.elements();
    const Sharding behind =
        in == base ? use.sharding : ShardingBehind(g_.ViewOf(in), elements, use.sharding, region->heads);
    if (in != base && !behind.is_split()) {  // the same for all heads?
      int64_t inner = 0;
      const auto dim = HeadsDim(node.shape, use.sharding, region->heads, &inner);
      if (!dim || node.As<ir::ViewAttrs>().view.steps.back().strides[*dim] != 0) return false;
      region->same.push_back(use);
      return true;
    }
    if (!g_.IsConstant(base)) return Add(in, use.sharding, region);
    if (!TakesHeads(base, behind, *region)) return false;
    if (in != base && !Longer(g_.ViewOf(in), elements, behind, *region)) return false;
    region->weights.push_back(use);
    region->constants.insert(base);
    return true;
  }

  // Whether the constant can be padded with more heads.
  bool TakesHeads(NodeId id, Sharding sharding, const Region& region) const {
    int64_t inner = 0;
    const Node& node = g_.node(id);
    const auto dim = HeadsDim(node.shape, sharding, region.heads, &inner);
    const ir::ConstantData& data = *node.As<ir::ConstantAttrs>().data;
    return dim && id < old_ && data.packed == nullptr && CanPad(data, *dim);
  }

  // The reader of a value must also compute head by head, or sum over the heads.
  bool FollowInto(NodeId user, NodeId id, Sharding sharding, Region* region) {
    const Node& node = g_.node(user);
    if (node.op == Op::kView) {
      const Sharding shown =
          ShardingShown(node.As<ir::ViewAttrs>().view, g_.node(id).shape.elements(), sharding, region->heads);
      return shown.is_split() && Add(user, shown, region);
    }
    if (!DoesHeadByHead(node.op)) return false;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      if (node.inputs[slot] != id) continue;
      const std::vector<Rule> rules = RulesWith(g_, node, static_cast<int>(slot), sharding, region->heads);
      if (rules.empty()) return false;
      if (rules[0].output.is_split()) {
        if (!Add(user, rules[0].output, region)) return false;
      } else if (!SumsOver(user, slot, rules[0], region)) {
        return false;
      }
    }
    return true;
  }

  // Accepts a matmul of a value with a weight that sums over the heads.
  bool SumsOver(NodeId user, size_t slot, const Rule& rule, Region* region) {
    const Node& node = g_.node(user);
    if (node.op != Op::kMatMul || slot != 0 || rule.output != kPartial || user >= old_ ||
        taken_.count(user) != 0 || std::holds_alternative<ir::PackedAttrs>(node.attrs))
      return false;
    const NodeId in = node.inputs[1], base = g_.BaseOf(in);
    const int64_t elements = g_.node(base).shape.elements();
    const Sharding behind =
        in == base ? rule.inputs[1] : ShardingBehind(g_.ViewOf(in), elements, rule.inputs[1], region->heads);
    if (!g_.IsConstant(base) || !behind.is_split() || !TakesHeads(base, behind, *region) ||
        (in != base && !Longer(g_.ViewOf(in), elements, behind, *region)))
      return false;
    region->sums[user] = rule.inputs[1];
    region->constants.insert(base);
    return true;
  }

  // Whether the inputs of each value have the shardings of its rule, and its views can be lengthened.
  bool Agrees(const Region& region) const {
    if (region.sums.empty()) return false;
    for (const auto& [id, rule] : region.rules) {
      const Node& node = g_.node(id);
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        const auto value = region.values.find(node.inputs[slot]);
        if (value != region.values.end() && value->second != rule.inputs[slot]) return false;
      }
    }
    for (const auto& [id, sharding] : region.values) {
      const Node& node = g_.node(id);
      if (node.op == Op::kView && !LongerShown(node, region)) return false;
      if (node.op == Op::kIndexedWrite && !LongerWritten(node, sharding, region)) return false;
    }
    return true;
  }
  std::optional<View> LongerShown(const Node& view, const Region& region) const {
    const NodeId base = view.inputs[0];
    return Longer(view.As<ir::ViewAttrs>().view, g_.node(base).shape.elements(), region.values.at(base),
                  region);
  }

  // A write into a storage of `sharding` that gets more heads. None if an index could leave a head.
  std::optional<ir::IndexedAttrs> LongerWritten(const Node& node, Sharding sharding,
                                                const Region& region) const {
    ir::IndexedAttrs attrs = node.As<ir::IndexedAttrs>();
    const auto map = Longer(attrs.map, node.shape.elements(), sharding, region);
    const int64_t run = sharding.run;
    if (!map || !attrs.map.affine()) return std::nullopt;
    const ir::ViewStep& step = map->steps[0];
    int64_t within = step.offset % run;  // how far an access reaches inside a head
    for (int d = 0; d < step.shape.rank; ++d) {
      if (step.strides[d] < 0) return std::nullopt;
      within += step.strides[d] % run * (step.shape[d] - 1);
    }
    for (ir::IndexedDim& dim : attrs.dims) {
      const auto wide = Widened(dim.stride, run, region.heads, region.to);
      if (!wide) return std::nullopt;
      within += *wide % run * (dim.extent - 1);
      dim.stride = *wide;
    }
    if (within >= run) return std::nullopt;
    attrs.map = *map;
    return attrs;
  }

  // The view of a storage in which more heads follow those of `sharding` along one dim.
  std::optional<View> Longer(const View& view, int64_t elements, Sharding sharding,
                             const Region& region) const {
    View longer;
    for (const ir::ViewStep& step : view.steps) {
      const View alone{{step}};
      const Sharding shown = ShardingShown(alone, elements, sharding, region.heads);
      int64_t inner = 0;
      const auto dim = HeadsDim(step.shape, shown, region.heads, &inner);
      if (!shown.is_split() || !dim || step.strides[*dim] * inner != sharding.run) return std::nullopt;
      const auto wide = Widen(alone, *dim, step.strides[*dim], region.heads * inner, region.to * inner);
      if (!wide) return std::nullopt;
      longer.steps.push_back(wide->steps[0]);
      elements = step.shape.elements();
      sharding = shown;
    }
    return longer;
  }

  bool WorthIt(const Region& region) const {
    int64_t weights = 0, states = 0;
    for (NodeId id : region.constants) weights += BytesOf(g_.node(id));
    for (const auto& [id, sharding] : region.values) {
      if (g_.node(id).op == Op::kInput) states += BytesOf(g_.node(id));
    }
    if (!costs_.PaysAMessage(weights) || leave_.count(NameFor(region)) != 0) return false;
    if (region.queries % costs_.devices() != 0) return true;
    // Without padding, the query heads divide, and every device holds all keys and values.
    const auto devices = static_cast<double>(costs_.devices()), all = static_cast<double>(weights);
    const double keys =
        all * static_cast<double>(region.heads) / static_cast<double>(region.heads + region.queries);
    const double whole = (all - keys) / devices + keys + static_cast<double>(states);
    const double share = static_cast<double>(region.to) / (static_cast<double>(region.heads) * devices);
    return share * (all + static_cast<double>(states)) < whole;
  }
  std::string NameFor(const Region& region) const { return NameOf(g_.node(*region.constants.begin())); }

  // -------------------------------------------------------------------------------------- doing it

  void Apply(const Region& region) {
    PaddedDim done{NameFor(region), region.heads, region.to, {}, true};
    // The inputs' replacements are made from the graph before any change.
    std::vector<std::tuple<NodeId, size_t, NodeId>> inputs;
    for (const Use& use : region.weights)
      inputs.emplace_back(use.reader, use.slot, LongerWeight(use, region, &done));
    for (const Use& use : region.same)
      inputs.emplace_back(use.reader, use.slot, LongerBroadcast(use, region));
    for (const auto& [id, sharding] : region.sums)
      inputs.emplace_back(id, 1, LongerWeight({id, 1, sharding}, region, &done));
    std::map<NodeId, ir::Attrs> maps;
    for (const auto& [id, sharding] : region.values) {
      const Node& node = g_.node(id);
      if (node.op == Op::kView) maps[id] = ir::ViewAttrs{*LongerShown(node, region)};
      if (node.op == Op::kIndexedWrite) maps[id] = *LongerWritten(node, sharding, region);
    }
    for (const auto& [id, sharding] : region.values) {
      Node& node = g_.node(id);
      int64_t inner = 0;
      const int dim = *HeadsDim(node.shape, sharding, region.heads, &inner);
      node.shape[dim] = region.to * inner;
      taken_.insert(id);
      const auto map = maps.find(id);
      if (map != maps.end()) node.attrs = map->second;
      if (node.op != Op::kInput) continue;
      const auto input = static_cast<size_t>(node.As<ir::InputAttrs>().index);
      done.states.push_back({g_.inputs[input].name, dim, region.heads, region.to, inner});
    }
    for (const auto& [id, slot, input] : inputs) g_.SetInput(id, slot, input);
    for (const auto& [id, sharding] : region.sums) SumOverOldHeads(id, region);
    done_.push_back(std::move(done));
  }

  NodeId LongerWeight(const Use& use, const Region& region, PaddedDim* done) {
    const NodeId in = g_.node(use.reader).inputs[use.slot], base = g_.BaseOf(in);
    const View view = g_.ViewOf(in);
    const int64_t elements = g_.node(base).shape.elements();
    const Sharding sharding =
        in == base ? use.sharding : ShardingBehind(view, elements, use.sharding, region.heads);
    int64_t inner = 0;
    const int dim = *HeadsDim(g_.node(base).shape, sharding, region.heads, &inner);
    NodeId& longer = constants_.try_emplace({base, dim, region.to * inner}, ir::kNoNode).first->second;
    if (longer == ir::kNoNode) {
      Node node = g_.node(base);
      const Data data = Pad(node.As<ir::ConstantAttrs>().data, dim, region.to * inner);
      node.shape = data->shape;
      node.attrs = ir::ConstantAttrs{data};
      longer = g_.Add(std::move(node));
    }
    const Data& data = g_.node(longer).As<ir::ConstantAttrs>().data;
    if (std::find(done->weights.begin(), done->weights.end(), data) == done->weights.end())
      done->weights.push_back(data);
    if (in == base) return longer;
    const NodeId weight = longer;
    Speak(in);
    return b_.ViewNode(weight, *Longer(view, elements, sharding, region));
  }

  NodeId LongerBroadcast(const Use& use, const Region& region) {
    const NodeId in = g_.node(use.reader).inputs[use.slot];
    View view = g_.ViewOf(in);
    int64_t inner = 0;
    const int dim = *HeadsDim(view.shape(), use.sharding, region.heads, &inner);
    view.steps.back().shape[dim] = region.to * inner;
    Speak(in);
    return b_.ViewNode(g_.BaseOf(in), view);
  }

  // Makes the matmul read zeros in place of the padded heads.
  void SumOverOldHeads(NodeId id, const Region& region) {
    const NodeId in = g_.node(id).inputs[0];
    const int64_t all = g_.node(in).shape[g_.node(in).shape.rank - 1];
    std::vector<int64_t> inside(static_cast<size_t>(all), 0);
    std::fill_n(inside.begin(), all / region.to * region.heads, 1);
    Speak(id);
    const NodeId old = b_.Ints(DType::kBool, Shape({all}), inside);
    g_.SetInput(id, 0, b_.Select(old, in, b_.Scalar(b_.dtype(in), 0)));
    taken_.insert(id);
  }

  void Speak(NodeId id) {
    b_.SetSources(g_.node(id).sources);
    b_.SetAnnotations(g_.node(id).annotations);
  }

  const Costs& costs_;
  const std::set<std::string>& leave_;
  const bool states_;
  Graph& g_;
  ir::Builder b_;
  const NodeId old_;        // nodes before it are from the original graph
  std::set<NodeId> taken_;  // already padded
  std::map<std::tuple<NodeId, int, int64_t>, NodeId> constants_;
  std::vector<PaddedDim> done_;
};

}  // namespace

std::vector<PaddedDim> PadHeads(const Costs& costs, const std::set<std::string>& leave, bool states,
                                Graph* graph) {
  return HeadPadding(costs, leave, states, graph).Run();
}

}  // namespace rondo::shard
