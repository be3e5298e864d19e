// Which names of `--shape NAME=dims` are inputs of a model, and which are symbolic dimensions; which inputs
// are bound to numbers.
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

// Puts every entry of `shapes` that names something of `model` into `options` and adds its name to `found`.
// What is given for an input decides its symbolic dimensions wherever they stand, but not those whose name is
// a placeholder ("?"): these are the input's own. A dim of -1 is what the model says. kInvalidArgument for
// several values given to one dimension, for other dims below 1, for -1 where the model leaves the dimension
// open, and for shapes that contradict the model's or one another: but an input and a symbolic dimension of
// it that are both `own`, given for this model by name, may differ, as exporters have one name for two
// lengths. `remarks` gets a sentence for each such dimension.
Status SplitShapes(const onnx::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
                   const std::set<std::string>& own, ImportOptions* options, std::vector<std::string>* found,
                   std::vector<std::string>* remarks);

// The names that SplitShapes knows: inputs and symbolic dimensions of `model`.
std::set<std::string> ShapeNames(const onnx::Model& model);
// Those of symbolic dimensions that no input is called by.
std::set<std::string> LengthNames(const onnx::Model& model);

// Puts every entry of `bound` (--bind) that is an input of `model` into `options`.
void BindInputs(const onnx::Model& model, const BoundValues& bound, ImportOptions* options);

}  // namespace rondo
