// PrecisionFacts: facts about f32 values, derived from how they are computed, for lowering their precision.
#pragma once

#include <vector>

#include "compiler/passes/pass.h"

namespace rondo::passes {

// Facts about one f32 value.
struct ValueFacts {
  bool hot = false;         // an activation: depends on a matmul, a state, a lookup in a large table, ...
  bool positional = false;  // depends on integers: positions, masks; exact only in f32
  bool reduced = false;     // depends on a reduction
  ir::NodeId product = ir::kNoNode;  // the matmul that it depends on by arithmetic alone
  bool huge = false;                 // a sum or product with a constant beyond the 16-bit type: a mask
  bool large = false;  // the same with a positive, finite constant: not a mask; correct in f32 only
};

// The largest finite value of f16 or bf16.
double LargestOf(DType type);

// For a graph that a pass changes from front to back: a node's facts are set once it is done. Keeps a
// reference to the graph; not thread-safe.
class PrecisionFacts {
 public:
  PrecisionFacts(const ir::Graph* graph, DType type) : g_(graph), type_(type) {}

  // `id` or what it shows.
  ValueFacts Of(ir::NodeId id);
  void Set(ir::NodeId id, const ValueFacts& facts);
  // Derives a node's facts from those of its inputs.
  ValueFacts Derive(ir::NodeId id);

  // Whether the 16-bit type can hold all values of a constant; with `finite`, infinities do not count.
  bool Fits(ir::NodeId constant, bool finite);
  // The value of greatest magnitude of a constant.
  double GreatestIn(ir::NodeId constant);
  // Whether all values of a constant are so small that f16 keeps fewer digits of them than bf16, or none.
  bool IsLost(ir::NodeId id);
  bool IsHot(ir::NodeId id) { return Of(id).hot; }
  // Depends on positions alone, or is beyond the 16-bit type.
  bool MustStay(ir::NodeId id);
  // Whether a value stays bounded for any activations, so that what it multiplies does not grow.
  bool IsGate(ir::NodeId id);

 private:
  const ir::Graph* g_;
  DType type_;                     // f16 or bf16
  std::vector<ValueFacts> facts_;  // by node
  std::vector<double> greatest_;   // of constants; NaN: not known yet
};

}  // namespace rondo::passes
