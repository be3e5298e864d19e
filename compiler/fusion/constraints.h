// Constraints: what emission has found out that groups must keep to.
//
// A group is formed by what its nodes compute; whether loops exist that read all its operands by plain
// strides shows only when it is emitted. Where there are none, the node at fault is computed alone from then
// on; where even that does not help, what it reads is copied to dense memory. Both are kept in the context,
// never in the model's annotations, and hold until the end. Every call adds at least one of them and there
// are no more of them than nodes and reads, so that fusion ends. Internal to compiler/fusion.
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

  // Makes constraints of what stood in the way of the context's groups. kUnsupported if nothing is left to
  // try for one of them.
  Status Add(const std::vector<Obstacle>& obstacles);
  int copies() const { return copies_; }  // made so far

 private:
  bool Avoid(const Obstacle& obstacle);
  void CopyInput(NodeId reader, int slot);
  NodeId CopyOf(NodeId input);

  Context& c_;
  int rounds_ = 0, copies_ = 0;
  std::map<std::pair<NodeId, int>, int> copied_;                // by reader and slot: how often
  std::multimap<NodeId, std::pair<ir::View, NodeId>> copy_of_;  // by base: what is shown, and its copy
};

}  // namespace rondo::fusion
