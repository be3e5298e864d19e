// Lowering: helpers for multiplying codes instead of the numbers that they represent, for all kinds of codes.
#pragma once

#include <memory>

#include "compiler/quantise/quantised.h"

namespace rondo::passes {

// For one kMatMul or kConv. Node references stay valid while it adds nodes.
class Lowering {
 public:
  Lowering(Graph* graph, NodeId id) : g_(*graph), b_(BuilderLike(graph, id)), id_(id) {}

 protected:
  using Data = std::shared_ptr<const ir::ConstantData>;

  // The descriptions of both inputs; false if one has none.
  bool ReadFactors(Quantised* a, Quantised* w);
  // Whether scales and zero points can be applied to the sums: for a matmul they are constant along k; for a
  // convolution there is one for its input, and one, or one for each output channel, for its weight.
  bool FollowSums(const Quantised& a, const Quantised& w) const;

  // The constant that `codes` shows, each element once; null if it is something else.
  Data Known(NodeId codes);
  // A constant with `data`, in the view of `like`.
  NodeId Weight(Data data, NodeId like);
  // A constant rhs of a matmul with contiguous k, in the view of `like`; kNoNode if one row or column stands
  // for all.
  NodeId LinesAlongK(const Data& data, NodeId like);

  // [o, 1, ...] as [1, o, 1, ...]; a single number, and kNoNode, are unchanged.
  NodeId AlongChannels(NodeId x);
  // The sums times both scales, in the type of the original matmul.
  NodeId Scaled(NodeId sums, NodeId a, NodeId w);

  Graph& g_;
  Builder b_;
  const NodeId id_;
};

}  // namespace rondo::passes
