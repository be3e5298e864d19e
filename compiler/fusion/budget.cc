#include "compiler/fusion/budget.h"

#include <algorithm>

namespace rondo::fusion {

// The views of a member seen in the domain's own order, in any shape: a view without steps.
static const std::vector<View> kInOrder = {View()};

Budget::Load& Budget::LoadOf(const Group& group) {
  if (loads_.size() <= static_cast<size_t>(group.id)) loads_.resize(static_cast<size_t>(group.id) + 1);
  Load& load = loads_[static_cast<size_t>(group.id)];
  if (group.skeleton == Skeleton::kReduction) load.most_insts = kMostRowInsts;
  return load;
}

// The operation, a rounding, its loads, and, for a coordinate, one term for each loop.
int Budget::InstsOf(NodeId id) const {
  const Node& node = c_.node(id);
  int insts = 2;
  for (NodeId input : node.inputs) {
    const Node& base = c_.node(c_.base(input));
    insts += base.op == Op::kIota ? 1 + 3 * 2 * std::max(base.shape.rank, 1) : 1;
  }
  return insts;
}

int Budget::ReadsOf(NodeId id) const {
  const Node& node = c_.node(id);
  return static_cast<int>(std::count_if(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
    const Node& base = c_.node(c_.base(input));
    return base.op != Op::kIota && (base.op != Op::kConstant || base.shape.elements() != 1);
  }));
}

bool Budget::Add(NodeId id, std::vector<View> views, int saved, Load* load) const {
  const int times = static_cast<int>(views.size());
  const int insts = load->insts + times * InstsOf(id), reads = load->reads + times * ReadsOf(id) - saved;
  if (insts > load->most_insts || reads > static_cast<int>(kMostReads) || views.size() > kMostViews)
    return false;
  const auto winds = [](const View& view) { return view.steps.size() > kMostSteps; };
  if (std::any_of(views.begin(), views.end(), winds)) return false;
  load->insts = insts;
  load->reads = reads;
  if (views != kInOrder) load->views[id] = std::move(views);
  return true;
}

bool Budget::Take(const Group& group, NodeId id) {
  const auto& inputs = c_.node(id).inputs;
  const auto inside = [&](NodeId input) { return c_.InGroup(c_.base(input), group.id); };
  return Add(id, kInOrder, static_cast<int>(std::count_if(inputs.begin(), inputs.end(), inside)),
             &LoadOf(group));
}

template <typename Inside>
std::vector<View> Budget::ViewsOf(NodeId id, const Load& load, const Inside& inside, int* reads) const {
  const int64_t elements = c_.node(id).shape.elements();
  std::vector<View> views;
  for (NodeId reader : c_.readers[id]) {
    if (!inside(reader)) continue;
    const auto known = load.views.find(reader);
    for (NodeId input : c_.node(reader).inputs) {
      if (c_.base(input) != id) continue;
      const View shown = c_.graph.ViewOf(input);
      const bool in_order = ir::IsDense(shown, elements);
      for (const View& over : known == load.views.end() ? kInOrder : known->second) {
        ++*reads;
        const bool own = over.steps.empty();
        View view = in_order ? over : own ? shown : ir::Compose(shown, over);
        if (views.size() <= kMostViews && std::find(views.begin(), views.end(), view) == views.end())
          views.push_back(std::move(view));
      }
    }
  }
  return views;
}

bool Budget::TakeProducer(const Group& group, NodeId id) {
  Load& load = LoadOf(group);
  int reads = 0;
  std::vector<View> views = ViewsOf(
      id, load, [&](NodeId reader) { return c_.InGroup(reader, group.id); }, &reads);
  return Add(id, std::move(views), reads, &load);
}

bool Budget::Exceeds(const Group& group, const std::vector<NodeId>& region, NodeId next) {
  const Load& load = LoadOf(group);
  int insts = load.insts + InstsOf(next), reads = load.reads + ReadsOf(next);
  for (NodeId id : region) {
    insts += InstsOf(id);
    reads += ReadsOf(id) - 1;
  }
  return insts > load.most_insts || reads > static_cast<int>(kMostReads);
}

bool Budget::ReadsInOrder(NodeId reader, NodeId of) const {
  const Node& node = c_.node(reader);
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
    return c_.base(input) != of || ir::IsDense(c_.graph.ViewOf(input), c_.node(of).shape.elements());
  });
}

bool Budget::TakeRegion(const Group& group, NodeId at, const std::vector<NodeId>& region) {
  Load& load = LoadOf(group);
  const auto inside = [&](NodeId id) { return std::find(region.begin(), region.end(), id) != region.end(); };
  bool in_order = true;
  for (NodeId reader : region) {
    in_order = in_order && ReadsInOrder(reader, at);
    for (NodeId id : region) in_order = in_order && (id == reader || ReadsInOrder(reader, id));
  }
  if (in_order) {
    Load grown{load.insts, load.reads, load.most_insts, {}};
    for (NodeId id : region) {
      if (!Add(id, kInOrder, 1, &grown)) return false;
    }
    load.insts = grown.insts;
    load.reads = grown.reads;
    return true;
  }
  // Everything is now seen from the new end.
  std::vector<NodeId> nodes = group.nodes;
  nodes.insert(nodes.end(), region.begin(), region.end());
  std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return c_.position[a] > c_.position[b]; });
  Load counted;
  counted.most_insts = load.most_insts;
  for (NodeId id : nodes) {
    int reads = 0;
    std::vector<View> views = kInOrder;
    if (id != region.back()) {
      views = ViewsOf(
          id, counted, [&](NodeId r) { return c_.InGroup(r, group.id) || inside(r); }, &reads);
    }
    if (!Add(id, std::move(views), reads, &counted)) return false;
  }
  load = std::move(counted);
  return true;
}

}  // namespace rondo::fusion
