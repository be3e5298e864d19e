// Tiny valid inputs: ONNX models made node by node, and the plans that they compile to.
#pragma once

#include <vector>

#include "core/status.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// One small model for each skeleton of kernels, for state, for work that depends on data, and for control
// flow.
std::vector<Seed> MakeModelSeeds();

// Compiles a model's bytes to a plan's, without files. kAborted: valid, but its graph has more nodes than a
// fuzzer has time for.
Result<Bytes> CompileBytes(Span<const uint8_t> model);

// MakeModelSeeds compiled, and the hand-made sample of tests/plan.
std::vector<Seed> MakePlanSeeds();

// A plan that passes the checks, but whose run would take weeks.
Bytes EndlessPlanBytes();

}  // namespace rondo::fuzz
