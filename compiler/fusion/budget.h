// Budget: tracks how much of a kernel each group uses, so that none outgrows a kernel's limits.
//
// A tape has at most kMaxTape instructions, and a launch passes a limited number of addresses. A node is
// computed once for each view through which its readers in the group see it, so its cost depends on them: the
// count is exact for views and an upper bound for instructions. The limits are well below the kernel's own,
// since larger kernels gain nothing. Internal to compiler/fusion; lives while groups are formed.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

inline constexpr int kMostInsts = 1024;     // of a group
inline constexpr int kMostRowInsts = 4096;  // of a reduction group, whose stages have a tape each
inline constexpr size_t kMostReads = 256;   // memory reads of a group, or of all parts of a kernel
inline constexpr size_t kMostViews = 64;    // through which the readers of one member see it
// Steps of such a view. Each step that does not fold into the one before splits loops; with more steps a
// kernel would run out of loops.
inline constexpr size_t kMostSteps = 8;

class Budget {
 public:
  // `context` must outlive it.
  explicit Budget(const Context* context) : c_(*context) {}

  // Each returns false, and changes nothing, if the group would become too large. Here, `id` is computed once
  // for each point of the group's domain (or row), however often it is read.
  bool Take(const Group& group, NodeId id);
  // `id` is computed for its readers in the group, which are all members.
  bool TakeProducer(const Group& group, NodeId id);
  // The group's output moves to the last node of `region`, whose nodes read `at` (the sink so far) and each
  // other.
  bool TakeRegion(const Group& group, NodeId at, const std::vector<NodeId>& region);
  // Whether that is impossible anyway.
  bool Exceeds(const Group& group, const std::vector<NodeId>& region, NodeId next);

 private:
  struct Load {
    int insts = 0, reads = 0;
    int most_insts = kMostInsts;
    // For members that are seen through views other than the domain's own order: the views.
    std::unordered_map<NodeId, std::vector<ir::View>> views;
  };

  Load& LoadOf(const Group& group);
  bool Add(NodeId id, std::vector<ir::View> views, int saved, Load* load) const;
  // The views through which readers in the group see `id`, and the number of their reads.
  template <typename Inside>
  std::vector<ir::View> ViewsOf(NodeId id, const Load& load, const Inside& inside, int* reads) const;
  bool ReadsInOrder(NodeId reader, NodeId of) const;
  int InstsOf(NodeId id) const;
  int ReadsOf(NodeId id) const;

  const Context& c_;
  std::vector<Load> loads_;  // by group
};

}  // namespace rondo::fusion
