// Quantised: the one description of what was quantised, and how a value says so.
#pragma once

#include <optional>

#include "compiler/passes/match.h"

namespace rondo::passes {

// A value that is (codes - zero) * scale, as DequantizeLinear and ONNX's integer operators are imported.
// Zero and scale are shown once along each dimension in which they do not change: so their shapes say whether
// they are of the whole value, of an axis or of blocks of one (BlockAlong).
struct Quantised {
  NodeId codes = kNoNode;    // 8-bit integers or FP8, or a packed constant, in the value's shape
  NodeId zero = kNoNode;     // integers; kNoNode: 0
  NodeId scale = kNoNode;    // floats; kNoNode: 1
  DType type = DType::kF64;  // the narrowest float type that a step of the arithmetic rounds to
};

// The description of `id`, read from its steps: casts, a scale, a zero point, casts, and views between them.
std::optional<Quantised> QuantisedOf(Builder& b, NodeId id);

inline bool Is8BitInteger(DType t) { return t == DType::kI8 || t == DType::kU8; }
bool IsPackedConstant(const Node& node);

}  // namespace rondo::passes
