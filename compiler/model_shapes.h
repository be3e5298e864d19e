// Decides which names of `--shape NAME=dims` are inputs of a model, which are symbolic dimensions, and which
// inputs are bound to numbers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "core/status.h"
#include "formats/onnx/reader.h"

namespace rondo {

// Puts every entry of `shapes` that names something in `model` into `options`, and adds its name to `found`.
// The shape of an input sets its symbolic dimensions everywhere, except placeholders ("?"), which belong to
// this input alone. -1 stands for the model's own dimension. kInvalidArgument for several values for one
// dimension, for other dimensions below 1, for -1 where the model leaves the dimension open, and for shapes
// that contradict the model or one another. Exception: an input and one of its symbolic dimensions that are
// both `own` (given for this model by name) may differ, since exporters use one name for two lengths;
// `remarks` gets a sentence for each such dimension.
Status SplitShapes(const onnx::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
                   const std::set<std::string>& own, ImportOptions* options, std::vector<std::string>* found,
                   std::vector<std::string>* remarks);

// The names that SplitShapes knows: inputs and symbolic dimensions of `model`.
std::set<std::string> ShapeNames(const onnx::Model& model);
// The names of symbolic dimensions that are not names of inputs.
std::set<std::string> LengthNames(const onnx::Model& model);

// Puts every entry of `bound` (--bind) that is an input of `model` into `options`.
void BindInputs(const onnx::Model& model, const BoundValues& bound, ImportOptions* options);

}  // namespace rondo
