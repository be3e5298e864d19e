// write_serve_models FOLDER: writes the models that the server's tests compile, one file each. N is the
// batch.
#include <fstream>
#include <string>
#include <vector>

#include "tests/import/model_maker.h"

namespace rondo {
namespace {

void Save(const ModelMaker& model, const std::string& path) {
  std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
}

// y = x w, row by row, with w[i][j] = i + j / 4.
ModelMaker Rows() {
  ModelMaker m;
  m.Input("x", {-1, 8});
  std::vector<float> weights;
  for (int i = 0; i < 8 * 4; ++i)
    weights.push_back(static_cast<float>(i / 4) + static_cast<float>(i % 4) / 4);
  m.Floats("w", {8, 4}, weights);
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Output("y");
  return m;
}

// y = x - the mean of all rows, so the first dimension is no batch.
ModelMaker Mixed() {
  ModelMaker m;
  m.Input("x", {4, 8});
  m.Ints("axes", {0});
  m.Node("ReduceMean", {"x", "axes"}, {"mean"});
  m.Node("Sub", {"x", "mean"}, {"y"});
  m.Output("y");
  return m;
}

// y = max(x, 0) and the mean over the sequence, for any batch and sequence. With `meet`, the mean is also
// over the batch.
ModelMaker Sequences(bool meet) {
  ModelMaker m;
  DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"batch", "sequence", "2"});
  m.Node("Relu", {"x"}, {"y"});
  m.Ints("axes", {1});
  m.Node("ReduceMean", {"x", "axes"}, {"own"});
  m.Ints("rows", {0});
  if (meet) m.Node("ReduceMean", {"own", "rows"}, {"all"});
  if (meet) m.Node("Sub", {"own", "all"}, {"mean"});
  if (!meet) m.Node("Identity", {"own"}, {"mean"});
  m.Output("y");
  m.Output("mean");
  return m;
}

// Looks up rows of a table; an index may be out of range.
ModelMaker Table() {
  ModelMaker m;
  m.Input("index", {4}, onnx::TensorProto::INT64);
  m.Floats("table", {4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
  m.Node("Gather", {"table", "index"}, {"y"});
  m.Output("y");
  return m;
}

// Passes inputs of several types through.
ModelMaker Types() {
  ModelMaker m;
  const auto add = [&](const char* name, int type) {
    m.Input(name, {3}, type);
    m.Node("Identity", {name}, {std::string("same_") + name});
    m.Output(std::string("same_") + name);
  };
  add("bool", onnx::TensorProto::BOOL);
  add("f16", onnx::TensorProto::FLOAT16);
  add("f64", onnx::TensorProto::DOUBLE);
  add("i8", onnx::TensorProto::INT8);
  add("u64", onnx::TensorProto::UINT64);
  add("i64", onnx::TensorProto::INT64);
  return m;
}

// A chain of matmuls that takes some tenths of a second.
ModelMaker Slow() {
  ModelMaker m;
  m.Input("x", {512, 512});
  std::string last = "x";
  for (int i = 0; i < 20; ++i) {
    const std::string next = i == 19 ? "y" : "h" + std::to_string(i);
    m.Node("MatMul", {last, "x"}, {next});
    last = next;
  }
  m.Output("y");
  return m;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = std::string(argv[1]) + "/";
  rondo::Save(rondo::Rows(), folder + "rows.onnx");
  rondo::Save(rondo::Mixed(), folder + "mixed.onnx");
  rondo::Save(rondo::Sequences(false), folder + "sequences.onnx");
  rondo::Save(rondo::Sequences(true), folder + "meeting.onnx");
  rondo::Save(rondo::Table(), folder + "table.onnx");
  rondo::Save(rondo::Types(), folder + "types.onnx");
  rondo::Save(rondo::Slow(), folder + "slow.onnx");
  return 0;
}
