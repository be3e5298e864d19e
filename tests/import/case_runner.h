// Runs a model case (model.onnx and test_data_set_* folders, the layout of the ONNX backend suite) through
// the importer and the reference evaluator.
#pragma once

#include <string>

#include "core/status.h"

namespace rondo {

struct CaseOptions {
  std::string model;  // path; "" is FOLDER/model.onnx
  double rtol = 1e-3;
  double atol = 1e-5;
};

// Imports the model, evaluates it on the inputs of every data set in `folder` and compares the outputs. OK,
// or an error that names the difference.
Status RunCase(const std::string& folder, const CaseOptions& options);

}  // namespace rondo
