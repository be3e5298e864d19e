// Lowering: what it takes to multiply codes in place of the numbers that they stand for, whatever the codes
// are.
#pragma once

#include <memory>

#include "compiler/quantise/quantised.h"

namespace rondo::passes {

// Of one product, a kMatMul or a kConv. Node references stay valid while it adds nodes.
class Lowering {
 public:
  Lowering(Graph* graph, NodeId id) : g_(*graph), b_(BuilderLike(graph, id)), id_(id) {}

 protected:
  using Data = std::shared_ptr<const ir::ConstantData>;

  // The descriptions of both factors; false if one has none.
  bool ReadFactors(Quantised* a, Quantised* w);
  // Whether scales and zero points can follow the sums: of a matmul they are the same all along k; of a
  // convolution there is one for its input, and one, or one an output, for its weight.
  bool FollowSums(const Quantised& a, const Quantised& w) const;

  // The constant that `codes` show, each element once; null if they are none.
  Data Known(NodeId codes);
  // `data` in place of what `like` shows.
  NodeId Weight(Data data, NodeId like);
  // A constant, the right side of a matmul, with k contiguous, shown as `like`; kNoNode where one row or
  // column stands for all.
  NodeId LinesAlongK(const Data& data, NodeId like);

  // [o, 1, ...] as [1, o, 1, ...]; one number, and kNoNode, stay so.
  NodeId AlongChannels(NodeId x);
  // The sums times both scales, as the product's own type.
  NodeId Scaled(NodeId sums, NodeId a, NodeId w);

  Graph& g_;
  Builder b_;
  const NodeId id_;
};

}  // namespace rondo::passes
