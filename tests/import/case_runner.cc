#include "tests/import/case_runner.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "formats/tensor/tensor.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

Result<Tensor> ReadNumbered(const fs::path& set, const char* kind, size_t index) {
  fs::path pb = set / (std::string(kind) + "_" + std::to_string(index) + ".pb");
  return ReadTensor(fs::exists(pb) ? pb.string() : pb.replace_extension(".npy").string());
}

Status RunSet(const ir::Graph& graph, const fs::path& set, const CaseOptions& options) {
  ir::Values inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(Tensor t, ReadNumbered(set, "input", i));
    inputs.push_back(ir::ConstantData::Own(t.dtype, t.shape, t.bytes));
  }
  RONDO_ASSIGN_OR_RETURN(ir::Values outputs, ir::EvaluateGraph(graph, inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(Tensor want, ReadNumbered(set, "output", i));
    Tensor got{graph.outputs[i].name,
               outputs[i]->dtype,
               outputs[i]->shape,
               {outputs[i]->bytes.begin(), outputs[i]->bytes.end()}};
    auto compared = Compare(got, want, options.rtol, options.atol);
    if (!compared.ok()) return compared.status().At("output %zu \"%s\"", i, got.name.c_str());
    if (compared->mismatches != 0) {
      return Status::Error(Code::kInternal,
                           "output %zu \"%s\": %ld of %ld elements differ; element %ld is %g, not %g", i,
                           got.name.c_str(), compared->mismatches, want.shape.elements(), compared->at,
                           compared->got, compared->want);
    }
  }
  return Status::Ok();
}

}  // namespace

Status RunCase(const std::string& folder, const CaseOptions& options) {
  std::string path = options.model.empty() ? (fs::path(folder) / "model.onnx").string() : options.model;
  RONDO_ASSIGN_OR_RETURN(std::shared_ptr<onnx::Model> model, onnx::Model::Open(path));
  RONDO_ASSIGN_OR_RETURN(ir::Graph graph, ImportModel(model, ImportOptions(), nullptr));
  if (std::string broken = ir::Validate(graph); !broken.empty()) {
    return Status::Error(Code::kInternal, "the graph breaks the IR's rules: %s", broken.c_str());
  }
  int sets = 0;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    bool named = entry.filename().string().rfind("test_data_set_", 0) == 0;
    if (!fs::is_directory(entry) || !(named || !options.model.empty())) continue;
    ++sets;
    RONDO_RETURN_IF_ERROR(RunSet(graph, entry, options));
  }
  if (sets == 0 && fs::exists(fs::path(folder) / "input_0.pb")) {
    ++sets;
    RONDO_RETURN_IF_ERROR(RunSet(graph, folder, options));
  }
  if (sets == 0) return Status::Error(Code::kNotFound, "%s holds no test data", folder.c_str());
  return Status::Ok();
}

}  // namespace rondo
