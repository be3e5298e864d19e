// Test cases in the layout of the ONNX backend suite: a model and sets of {input,output}_i.pb.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// One set of inputs and outputs, with the model they belong to.
struct TestCase {
  std::string model;   // path of the .onnx file
  std::string folder;  // that holds input_i.pb and output_i.pb
};

// The cases of a folder: its own {input,output}_i.pb, or those of its test_data_set_*, or, when it holds no
// case itself, the cases of its subfolders. `model`: for all of them; "": model.onnx in the case's folder or
// in the one above, or X.onnx beside a folder X.test. Sorted by name. A case whose model was not found has
// an empty `model`. kNotFound when the folder does not exist.
Result<std::vector<TestCase>> FindCases(const std::string& folder, const std::string& model);

// Tensors of a case: input_0, input_1, ... as far as they go. A sequence's are NAME.0, NAME.1, ... as they
// are in plans, and what an optional holds is its own. Those that hold nothing are in `empty`.
struct CaseTensors {
  std::vector<Tensor> inputs, outputs;
  std::vector<std::string> empty;
};
// The names are those of the model's ports: the files' own if all have different names among them, else by
// order. kUnsupported for files that hold no tensor of a known type. What a model's graph takes and gives, in
// its order, initializers aside.
struct ModelPort {
  std::string name;
  bool open = false;  // the model leaves its shape, or part of it, open
  bool is_sequence = false, is_optional = false;
};
struct ModelPorts {
  std::vector<ModelPort> inputs, outputs;
};
Result<ModelPorts> ReadModelPorts(const std::string& model);

Result<CaseTensors> ReadCase(const TestCase& test, const ModelPorts& ports);

// Gives each tensor the name of the port it is for: its own if all have different names among `names`, else
// by order. kInvalidArgument when there are more tensors than names.
Status NameTensors(const std::vector<std::string>& names, const char* what, std::vector<Tensor>* tensors);

}  // namespace rondo::tools
