// The structure-aware mutator of ONNX models.
#ifndef RONDO_TESTS_FUZZ_ONNX_MUTATOR_H_
#define RONDO_TESTS_FUZZ_ONNX_MUTATOR_H_

#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// Mostly: parses the model and changes one to three things in it (operators, wires, attributes, tensors,
// shapes, types, opset). Sometimes damages its bytes.
Bytes MutateModel(Span<const uint8_t> model, Random& random);

}  // namespace rondo::fuzz

#endif  // RONDO_TESTS_FUZZ_ONNX_MUTATOR_H_
