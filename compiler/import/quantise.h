// Linear quantisation, shared by several operators.
#pragma once

#include "compiler/ir/builder.h"

namespace rondo::importer {

// Least and greatest value of an integer type of at most 16 bits; of `bits` bits if that is not 0.
void IntegerRange(DType dtype, double* low, double* high, int bits = 0);

// saturate(round(x / scale) + zero) as `dtype` (8 or 16 bits, of which `bits` are used if that is not 0); x
// and scale are f32, `zero` an integer tensor or kNoNode; scale and zero broadcast to x.
ir::NodeId Quantise(ir::Builder& b, ir::NodeId x, ir::NodeId scale, ir::NodeId zero, DType dtype,
                    int bits = 0);

// x (f32, not empty) quantised to u8 over the range of its values and 0: x is about (numbers - zero) * scale.
struct DynamicallyQuantised {
  ir::NodeId numbers = ir::kNoNode, scale = ir::kNoNode, zero = ir::kNoNode;  // u8, f32 [], u8 []
};
DynamicallyQuantised QuantiseDynamically(ir::Builder& b, ir::NodeId x);

}  // namespace rondo::importer
