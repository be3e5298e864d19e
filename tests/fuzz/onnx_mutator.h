// The structure-aware mutator of ONNX models.
#pragma once

#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// Mostly: parses the model and changes one to three things in it (operators, wires, attributes, tensors,
// shapes, types, opset). Sometimes damages its bytes.
Bytes MutateModel(Span<const uint8_t> model, Random& random);

}  // namespace rondo::fuzz
