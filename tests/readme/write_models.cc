// write_readme_models FOLDER: writes the models and tensors that the READMEs' commands name. Each section
// that uses a different model.onnx gets a folder.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/tensor/tensor.h"
#include "tests/import/model_maker.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOps = "com.example";

Tensor Ones(const std::string& name, const Shape& shape) {
  Tensor tensor{name, DType::kF32, shape, std::vector<uint8_t>(static_cast<size_t>(shape.elements()) * 4)};
  for (size_t i = 0; i < tensor.bytes.size() / 4; ++i) reinterpret_cast<float*>(tensor.bytes.data())[i] = 1;
  return tensor;
}

void Save(const ModelMaker& model, const fs::path& path) {
  std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
}

bool Write(const Tensor& tensor, const fs::path& path) { return WriteTensor(tensor, path.string()).ok(); }

// y = relu(x w). The matmul gives `rondo tune` something to tune.
ModelMaker Product() {
  ModelMaker m;
  m.Input("x", {16, 64});
  m.Floats("w", {64, 64}, std::vector<float>(64 * 64, 1));
  m.Node("MatMul", {"x", "w"}, {"h"});
  m.Node("Relu", {"h"}, {"y"});
  m.Output("y");
  return m;
}

bool WriteProduct(const fs::path& folder) {
  const fs::path data = folder / "my_case" / "test_data_set_0";
  fs::create_directories(data);
  Save(Product(), folder / "model.onnx");
  Save(Product(), folder / "my_case" / "model.onnx");
  Tensor y = Ones("y", Shape({16, 64}));
  for (size_t i = 0; i < 16 * 64; ++i) reinterpret_cast<float*>(y.bytes.data())[i] = 64;
  return Write(Ones("x", Shape({16, 64})), folder / "x.npy") &&
         Write(Ones("x", Shape({16, 64})), data / "input_0.pb") && Write(y, data / "output_0.pb");
}

// The sum of x over four devices, as one model and as one file for each device.
bool WriteCollective(const fs::path& folder) {
  fs::create_directories(folder);
  ModelMaker m;
  auto* domain = m.proto.add_opset_import();
  domain->set_domain("com.microsoft");
  domain->set_version(1);
  m.Input("x", {4, 8});
  m.Node("AllReduce", {"x"}, {"y"})->set_domain("com.microsoft");
  m.Output("y");
  Save(m, folder / "model.onnx");
  for (int rank = 0; rank < 4; ++rank) Save(m, folder / ("model_" + std::to_string(rank) + ".onnx"));
  return Write(Ones("x", Shape({4, 8})), folder / "x.npy");
}

// The model of tools/examples/custom_ops/make_model.py.
bool WriteOps(const fs::path& folder) {
  fs::create_directories(folder);
  ModelMaker m;
  auto* domain = m.proto.add_opset_import();
  domain->set_domain(kOps);
  domain->set_version(1);
  m.Input("x", {2, 4});
  m.Input("total", {2, 4});
  const auto call = [&](const char* op, std::vector<std::string> in, const char* out) {
    auto* node = m.Node(op, in, {out});
    node->set_domain(kOps);
    return node;
  };
  const auto number = [](onnx::NodeProto* node, const char* name, float value) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  };
  auto* affine = call("Affine", {"x"}, "scaled");
  number(affine, "scale", 2);
  number(affine, "shift", 1);
  number(call("DecayedSum", {"total", "scaled"}, "total_out"), "decay", 0.5f);
  auto* trace = call("Trace", {"total_out"}, "traced");
  for (const auto& [name, text] : {std::pair("label", "total"), std::pair("path", "trace.txt")}) {
    auto* attribute = trace->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(text);
  }
  m.Node("Relu", {"traced"}, {"y"});
  m.Output("y");
  m.Output("total_out");
  Save(m, folder / "model.onnx");
  return Write(Ones("x", Shape({2, 4})), folder / "x.npy");
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_readme_models FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const bool written = rondo::WriteProduct(folder / "product") &&
                       rondo::WriteCollective(folder / "collective") && rondo::WriteOps(folder / "ops");
  if (!written) std::fprintf(stderr, "write_readme_models: %s cannot be written\n", argv[1]);
  return written ? 0 : 1;
}
