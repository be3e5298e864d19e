// Quantised: the description of a quantised value, and how it is read from a graph.
#pragma once

#include <optional>

#include "compiler/passes/match.h"

namespace rondo::passes {

// A value (codes - zero) * scale, as DequantizeLinear and ONNX's integer operators are imported. Zero and
// scale have extent 1 along each dimension in which they are constant, so their shapes say whether they are
// for the whole value, for an axis or for blocks of one (BlockAlong).
struct Quantised {
  NodeId codes = kNoNode;    // 8-bit integers or FP8, or a packed constant, in the value's shape
  NodeId zero = kNoNode;     // integers; kNoNode: 0
  NodeId scale = kNoNode;    // floats; kNoNode: 1
  DType type = DType::kF64;  // the narrowest float type to which a step of the arithmetic rounds
};

// The description of `id`, read from its steps: casts, a scale, a zero point, casts, and views in between.
std::optional<Quantised> QuantisedOf(Builder& b, NodeId id);

inline bool Is8BitInteger(DType t) { return t == DType::kI8 || t == DType::kU8; }
bool IsPackedConstant(const Node& node);

}  // namespace rondo::passes
