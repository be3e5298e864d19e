// Test cases in the layout of the ONNX backend suite: a model and sets of {input,output}_i.pb.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// One set of inputs and outputs, with its model.
struct TestCase {
  std::string model;   // path of the .onnx file
  std::string folder;  // folder with input_i.pb and output_i.pb
};

// The cases of a folder: its own {input,output}_i.pb, those of its test_data_set_*, or, if it has no case
// itself, the cases of its subfolders. `model`: for all of them; "": model.onnx in the case's folder or the
// one above, or X.onnx beside a folder X.test. Sorted by name. A case without a model has an empty `model`.
// kNotFound if the folder does not exist.
Result<std::vector<TestCase>> FindCases(const std::string& folder, const std::string& model);

// The tensors of a case: input_0, input_1, ... while they exist. A sequence's tensors are NAME.0, NAME.1,
// ..., as in plans, and an optional's element has its own name. Empty sequences and optionals are in `empty`.
struct CaseTensors {
  std::vector<Tensor> inputs, outputs;
  std::vector<std::string> empty;
};
// A port of a model's graph, in its order, initializers excluded. Tensors get the ports' names: the files'
// own names if all are distinct and among the ports', otherwise by order. kUnsupported for files without a
// tensor of a known type.
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

// Gives each tensor the name of its port: its own name if all names are distinct and among `names`, otherwise
// by order. kInvalidArgument if there are more tensors than names.
Status NameTensors(const std::vector<std::string>& names, const char* what, std::vector<Tensor>* tensors);

}  // namespace rondo::tools
