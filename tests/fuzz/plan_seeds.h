// Tiny valid inputs: ONNX models made node by node, and the plans that they compile to.
#pragma once

#include <vector>

#include "core/status.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// One small model for each skeleton of kernels, for state, for what depends on data, and for control flow.
std::vector<Seed> MakeModelSeeds();

// The compiler without its files: a model's bytes to a plan's. kAborted: valid, but a graph of more nodes
// than a fuzzer has time for.
Result<Bytes> CompileBytes(Span<const uint8_t> model);

// MakeModelSeeds compiled, and the hand-made sample of tests/plan.
std::vector<Seed> MakePlanSeeds();

// A plan that passes, and whose run would take weeks.
Bytes EndlessPlanBytes();

}  // namespace rondo::fuzz
