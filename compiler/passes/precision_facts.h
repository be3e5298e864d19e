// PrecisionFacts: what is known of f32 values from how they are computed, for whoever lowers their precision.
#pragma once

#include <vector>

#include "compiler/passes/pass.h"

namespace rondo::passes {

// What is known of an f32 value from how it is computed.
struct ValueFacts {
  bool hot = false;         // an activation: comes from a product, a state, a lookup in a large table, ...
  bool positional = false;  // comes from integers: positions, masks. Exact only in f32
  bool reduced = false;     // comes from a reduction
  ir::NodeId product = ir::kNoNode;  // it comes from this one by arithmetic alone
  bool huge = false;   // a sum or product with a constant that the 16-bit type does not hold: a mask
  bool large = false;  // the same with a positive, finite one: no mask, and right in f32 alone
};

// The largest finite value of f16 or bf16.
double LargestOf(DType type);

// Of the values of a graph that a pass changes from front to back: facts of a node are set once it is done.
// Keeps a reference to the graph; not thread-safe.
class PrecisionFacts {
 public:
  PrecisionFacts(const ir::Graph* graph, DType type) : g_(graph), type_(type) {}

  // `id` or what it shows.
  ValueFacts Of(ir::NodeId id);
  void Set(ir::NodeId id, const ValueFacts& facts);
  // Of a node, from those of its inputs.
  ValueFacts Derive(ir::NodeId id);

  // Whether the 16-bit type has all values of a constant; infinities too, unless `finite`.
  bool Fits(ir::NodeId constant, bool finite);
  // The value of greatest magnitude of a constant.
  double GreatestIn(ir::NodeId constant);
  // Whether all values of a constant are so small that f16 has fewer digits of them than bf16, or none.
  bool IsLost(ir::NodeId id);
  bool IsHot(ir::NodeId id) { return Of(id).hot; }
  // From positions alone, or beyond what the 16-bit type holds.
  bool MustStay(ir::NodeId id);
  // Whether a value stays within bounds whatever the activations are: what it multiplies does not grow.
  bool IsGate(ir::NodeId id);

 private:
  const ir::Graph* g_;
  DType type_;                     // f16 or bf16
  std::vector<ValueFacts> facts_;  // by node
  std::vector<double> greatest_;   // of constants; NaN: not known yet
};

}  // namespace rondo::passes
