// Constraints: restrictions on groups that emission has found necessary.
//
// Groups are formed by what their nodes compute. Only emission shows whether there are loops that read all
// operands by plain strides. If not, the node at fault is computed alone from then on; if that does not help,
// its input is copied to dense memory. Both are stored in the context, never in the model's annotations, and
// are permanent. Every call adds at least one constraint, and their number is limited by nodes and reads, so
// fusion terminates. Internal to compiler/fusion.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

class Constraints {
 public:
  // `context` must outlive it.
  explicit Constraints(Context* context) : c_(*context) {}

  // Adds constraints for the obstacles of the context's groups. kUnsupported if nothing is left to try for
  // one of them.
  Status Add(const std::vector<Obstacle>& obstacles);
  int copies() const { return copies_; }  // made so far

 private:
  bool Avoid(const Obstacle& obstacle);
  bool CopyInput(NodeId reader, int slot);
  NodeId CopyOf(NodeId input);

  Context& c_;
  int rounds_ = 0, copies_ = 0;
  std::map<std::pair<NodeId, int>, int> copied_;                // by reader and slot: number of copies
  std::multimap<NodeId, std::pair<ir::View, NodeId>> copy_of_;  // by base: the copied view, and its copy
};

}  // namespace rondo::fusion
