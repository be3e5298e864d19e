// Budget: how much of a kernel each group takes, so that none outgrows what a kernel may hold.
//
// A tape has at most kMaxTape instructions and a launch passes a limited number of addresses. A node is
// computed once for each view by which its readers in the group show it, so what it costs depends on them:
// the count is exact for views and an upper bound of instructions. The limits are well below the kernel's
// own, since nothing is gained by kernels so long. Internal to compiler/fusion; lives as long as the forming
// of groups.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

inline constexpr int kMostInsts = 1024;     // of a group
inline constexpr int kMostRowInsts = 4096;  // of one of rows, whose stages have a tape each
inline constexpr size_t kMostReads = 256;   // of memory, by a group or by all parts of a kernel
inline constexpr size_t kMostViews = 64;    // by which the readers of one member show it
// Of such a view. Each step that does not fold into the one before splits loops: after these, no kernel has
// enough of them.
inline constexpr size_t kMostSteps = 8;

class Budget {
 public:
  // `context` must outlive it.
  explicit Budget(const Context* context) : c_(*context) {}

  // Each returns false, and changes nothing, where the group would become too large. `id` is computed once a
  // point of the group's domain (or row), however often it is read.
  bool Take(const Group& group, NodeId id);
  // `id` is computed for its readers in the group, which are all members.
  bool TakeProducer(const Group& group, NodeId id);
  // The group's value leaves by the last of `region`, whose nodes read `at` (the sink so far) and each other.
  bool TakeRegion(const Group& group, NodeId at, const std::vector<NodeId>& region);
  // Whether that is out of the question.
  bool Exceeds(const Group& group, const std::vector<NodeId>& region, NodeId next);

 private:
  struct Load {
    int insts = 0, reads = 0;
    int most_insts = kMostInsts;
    // By members that are shown otherwise than in the domain's own order: the views.
    std::unordered_map<NodeId, std::vector<ir::View>> views;
  };

  Load& LoadOf(const Group& group);
  bool Add(NodeId id, std::vector<ir::View> views, int saved, Load* load) const;
  // The views by which readers in the group show `id`, and how many of their reads that are.
  template <typename Inside>
  std::vector<ir::View> ViewsOf(NodeId id, const Load& load, const Inside& inside, int* reads) const;
  bool ReadsInOrder(NodeId reader, NodeId of) const;
  int InstsOf(NodeId id) const;
  int ReadsOf(NodeId id) const;

  const Context& c_;
  std::vector<Load> loads_;  // by group
};

}  // namespace rondo::fusion
