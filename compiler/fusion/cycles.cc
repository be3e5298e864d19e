// Whether a group would wait for itself.
#include <algorithm>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

using ir::Node;

bool WouldCycle(const Context& context, const std::vector<NodeId>& members, NodeId candidate) {
  const Context& c = context;
  std::vector<char> target(c.group_of.size(), 0), seen(c.group_of.size(), 0);
  for (NodeId id : members) target[id] = 1;
  target[candidate] = 1;
  std::vector<NodeId> stack;
  // From what the candidate and the members read outside, back through whole groups, to any of them.
  auto push_inputs = [&](NodeId id) {
    const Node& node = c.node(id);
    auto push = [&](NodeId from) {
      if (target[from] || seen[from]) return;
      seen[from] = 1;
      stack.push_back(from);
    };
    for (NodeId input : node.inputs) push(c.base(input));  // views are looked through: they compute nothing
    for (NodeId from : node.weak_after) push(c.base(from));
    for (NodeId from : node.strong_after) push(c.base(from));
  };
  push_inputs(candidate);
  for (NodeId id : members) push_inputs(id);
  while (!stack.empty()) {
    NodeId at = stack.back();
    stack.pop_back();
    int group = c.group_of[at];
    auto reaches = [&](NodeId id) {
      const Node& node = c.node(id);
      auto hit = [&](const std::vector<NodeId>& list) {
        return std::any_of(list.begin(), list.end(), [&](NodeId from) { return target[c.base(from)] != 0; });
      };
      return hit(node.inputs) || hit(node.weak_after) || hit(node.strong_after);
    };
    if (group >= 0) {
      for (NodeId id : c.groups[group].nodes) {
        if (target[id]) continue;
        if (reaches(id)) return true;
        push_inputs(id);
      }
    } else {
      if (reaches(at)) return true;
      push_inputs(at);
    }
  }
  return false;
}

}  // namespace rondo::fusion
