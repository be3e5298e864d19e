#include "tools/rondo/cases.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/files.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/onnx_data.pb.h"
#include "formats/onnx/reader.h"
#include "formats/tensor/tensor_proto.h"

namespace rondo::tools {
namespace {

namespace fs = std::filesystem;

std::string FileOf(const fs::path& folder, const char* kind, size_t i) {
  return (folder / (std::string(kind) + "_" + std::to_string(i) + ".pb")).string();
}

bool HoldsTensors(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(FileOf(folder, "output", 0), ignored) || fs::exists(FileOf(folder, "input", 0), ignored);
}

// The model in `folder`, beside it, or with its name; "" if there is none.
std::string ModelAt(fs::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();
  std::error_code ignored;
  for (const fs::path& at : {folder, folder.parent_path()}) {
    if (fs::exists(at / "model.onnx", ignored)) return (at / "model.onnx").string();
    if (at.extension() == ".test") {
      fs::path model = at;
      model.replace_extension(".onnx");
      if (fs::exists(model, ignored)) return model.string();
    }
  }
  return "";
}

// The model of a case if none was named; "" if there is none. Files beside a link take precedence over files
// beside the folder to which it leads.
std::string ModelBeside(const fs::path& folder) {
  std::error_code ignored;
  const std::string model = ModelAt(fs::absolute(folder, ignored).lexically_normal());
  return model.empty() ? ModelAt(fs::weakly_canonical(folder, ignored)) : model;
}

std::vector<fs::path> SubfoldersOf(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void AddCases(const fs::path& folder, const std::string& model, int depth, std::vector<TestCase>* cases) {
  if (HoldsTensors(folder)) {
    cases->push_back({model.empty() ? ModelBeside(folder) : model, folder.string()});
    return;
  }
  if (depth == 0) return;
  for (const fs::path& below : SubfoldersOf(folder)) AddCases(below, model, depth - 1, cases);
}

// Adds the tensors of a sequence called `name`, or adds the name to the empty ones.
Status AddSequence(const onnx::SequenceProto& sequence, const std::string& name, std::vector<Tensor>* tensors,
                   std::vector<std::string>* empty) {
  if (sequence.tensor_values().empty()) empty->push_back(name);
  for (int k = 0; k < sequence.tensor_values_size(); ++k) {
    const std::string bytes = sequence.tensor_values(k).SerializeAsString();
    RONDO_ASSIGN_OR_RETURN(Tensor tensor, ParseTensorProto({bytes.begin(), bytes.end()}));
    tensor.name = name + "." + std::to_string(k);
    tensors->push_back(std::move(tensor));
  }
  return Status::Ok();
}

// Adds the value in file `path` for a port that is no plain tensor.
Status AddValue(const std::string& path, const ModelPort& port, std::vector<Tensor>* tensors,
                std::vector<std::string>* empty) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> file, ReadInputFile(path));
  const int size = static_cast<int>(file.size());
  onnx::OptionalProto optional;
  onnx::SequenceProto sequence;
  bool parsed = true;
  if (port.is_optional) {
    parsed = optional.ParseFromArray(file.data(), size);
    sequence = optional.sequence_value();
  } else {
    parsed = sequence.ParseFromArray(file.data(), size);
  }
  if (!parsed) return Status::Error(Code::kCorrupt, "%s: it is no sequence or optional", path.c_str());
  if (!port.is_optional || optional.has_sequence_value())
    return AddSequence(sequence, port.name, tensors, empty);
  if (!optional.has_tensor_value()) {
    empty->push_back(port.name);
    return Status::Ok();
  }
  const std::string bytes = optional.tensor_value().SerializeAsString();
  RONDO_ASSIGN_OR_RETURN(Tensor tensor, ParseTensorProto({bytes.begin(), bytes.end()}));
  tensor.name = port.name;
  tensors->push_back(std::move(tensor));
  return Status::Ok();
}

Status ReadTensors(const std::string& folder, const char* kind, const std::vector<ModelPort>& ports,
                   std::vector<Tensor>* tensors, std::vector<std::string>* empty) {
  std::vector<std::string> names;
  std::error_code ignored;
  bool plain = true;
  for (size_t i = 0; fs::exists(FileOf(folder, kind, i), ignored); ++i) {
    const std::string path = FileOf(folder, kind, i);
    if (i < ports.size() && (ports[i].is_sequence || ports[i].is_optional)) {
      plain = false;
      RONDO_RETURN_IF_ERROR(AddValue(path, ports[i], tensors, empty).At("%s", path.c_str()));
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(path));
    if (!plain && i < ports.size()) tensor.name = ports[i].name;
    tensors->push_back(std::move(tensor));
  }
  const bool all_plain = std::none_of(
      ports.begin(), ports.end(), [](const ModelPort& port) { return port.is_sequence || port.is_optional; });
  for (const ModelPort& port : ports) names.push_back(port.name);
  return all_plain ? NameTensors(names, kind, tensors) : Status::Ok();
}

bool IsOpen(const onnx::ValueInfoProto& value) {
  if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) return true;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return true;
  }
  return false;
}

ModelPort PortOf(const onnx::ValueInfoProto& value) {
  const bool optional = value.type().has_optional_type();
  const onnx::TypeProto& held = optional ? value.type().optional_type().elem_type() : value.type();
  return {value.name(), IsOpen(value), held.has_sequence_type(), optional};
}

}  // namespace

Result<std::vector<TestCase>> FindCases(const std::string& folder, const std::string& model) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return Status::Error(Code::kNotFound, "%s: there is no such folder", folder.c_str());
  }
  std::vector<TestCase> cases;
  AddCases(folder, model, /*depth=*/3, &cases);
  return cases;
}

Result<CaseTensors> ReadCase(const TestCase& test, const ModelPorts& ports) {
  CaseTensors tensors;
  std::vector<std::string> none;  // nothing is reported about outputs
  RONDO_RETURN_IF_ERROR(ReadTensors(test.folder, "input", ports.inputs, &tensors.inputs, &tensors.empty));
  RONDO_RETURN_IF_ERROR(ReadTensors(test.folder, "output", ports.outputs, &tensors.outputs, &none));
  return tensors;
}

Result<ModelPorts> ReadModelPorts(const std::string& model) {
  RONDO_ASSIGN_OR_RETURN(const std::shared_ptr<onnx::Model> file, onnx::Model::Open(model));
  const onnx::GraphProto& graph = file->proto().graph();
  std::set<std::string> initializers;
  for (const auto& initializer : graph.initializer()) initializers.insert(initializer.name());
  ModelPorts ports;
  for (const auto& input : graph.input()) {
    if (initializers.count(input.name()) == 0) ports.inputs.push_back(PortOf(input));
  }
  for (const auto& output : graph.output()) ports.outputs.push_back(PortOf(output));
  return ports;
}

Status NameTensors(const std::vector<std::string>& names, const char* what, std::vector<Tensor>* tensors) {
  if (tensors->size() > names.size()) {
    return Status::Error(Code::kInvalidArgument, "there are %zu %s files and the model has %zu %ss",
                         tensors->size(), what, names.size(), what);
  }
  const std::set<std::string> known(names.begin(), names.end());
  std::set<std::string> own;
  for (const Tensor& tensor : *tensors) {
    if (known.count(tensor.name) != 0) own.insert(tensor.name);
  }
  if (own.size() == tensors->size()) return Status::Ok();
  for (size_t i = 0; i < tensors->size(); ++i) (*tensors)[i].name = names[i];
  return Status::Ok();
}

}  // namespace rondo::tools
