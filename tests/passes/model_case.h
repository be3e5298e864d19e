// Imports a model with its test data: for tests that compare graphs after passes with PyTorch's results.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/graph.h"

namespace rondo::passes {

struct ModelCase {
  ir::Graph graph;
  ir::Values inputs;
  ir::Values expected;
};

// `data` is a test_data_set folder. If it is empty, only the graph is loaded, with synthetic weights for
// missing files.
Result<ModelCase> LoadCase(const std::string& model, const std::string& data);

// OK if evaluating the graph gives the expected outputs (relative 1e-3, absolute 1e-5).
Status CheckCase(const ModelCase& c);

}  // namespace rondo::passes
