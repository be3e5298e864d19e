#include "tests/passes/model_case.h"

#include "compiler/import/import.h"
#include "formats/tensor/tensor.h"

namespace rondo::passes {

Result<ModelCase> LoadCase(const std::string& model, const std::string& data) {
  RONDO_ASSIGN_OR_RETURN(std::shared_ptr<onnx::Model> file, onnx::Model::Open(model));
  ImportOptions options;
  options.allow_synthetic = data.empty();
  ModelCase c;
  RONDO_ASSIGN_OR_RETURN(c.graph, ImportModel(file, options, nullptr));
  if (data.empty()) return c;
  auto read = [&](const char* kind, size_t count, ir::Values* values) {
    for (size_t i = 0; i < count; ++i) {
      Result<Tensor> t = ReadTensor(data + "/" + kind + "_" + std::to_string(i) + ".pb");
      if (!t.ok()) return t.status();
      values->push_back(ir::ConstantData::Own(t->dtype, t->shape, t->bytes));
    }
    return Status::Ok();
  };
  RONDO_RETURN_IF_ERROR(read("input", c.graph.inputs.size(), &c.inputs));
  RONDO_RETURN_IF_ERROR(read("output", c.graph.outputs.size(), &c.expected));
  return c;
}

Status CheckCase(const ModelCase& c) {
  RONDO_ASSIGN_OR_RETURN(ir::Values got, ir::EvaluateGraph(c.graph, c.inputs));
  for (size_t i = 0; i < got.size(); ++i) {
    auto tensor = [&](const ir::ConstantData& d) {
      return Tensor{c.graph.outputs[i].name, d.dtype, d.shape, {d.bytes.begin(), d.bytes.end()}};
    };
    Result<Comparison> compared = Compare(tensor(*got[i]), tensor(*c.expected[i]), 1e-3, 1e-5);
    if (!compared.ok()) return compared.status().At("output %zu", i);
    if (compared->mismatches != 0) {
      return Status::Error(
          Code::kInternal, "output %zu \"%s\": %ld elements differ; element %ld is %g, not %g", i,
          c.graph.outputs[i].name.c_str(), compared->mismatches, compared->at, compared->got, compared->want);
    }
  }
  return Status::Ok();
}

}  // namespace rondo::passes
