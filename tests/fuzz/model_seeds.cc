#include <concepts>
#include <string>

#include "tests/fuzz/plan_seeds.h"
#include "tests/import/model_maker.h"

namespace rondo::fuzz {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;

template <std::integral T>
void Attribute(NodeProto* node, const std::string& name, T value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}
void Attribute(NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) a->add_ints(v);
}
void Attribute(NodeProto* node, const std::string& name, const char* value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(value);
}

std::vector<float> Ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 7) % 11) / 8 - 0.5f);
  return values;
}

void Weight(ModelMaker& m, const std::string& name, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  m.Floats(name, dims, Ramp(count));
}

void Pointwise(ModelMaker& m) {
  m.Input("x", {2, 3, 4});
  Weight(m, "b", {4});
  m.Node("Add", {"x", "b"}, {"s"});
  m.Node("Relu", {"s"}, {"r"});
  Attribute(m.Node("Transpose", {"r"}, {"t"}), "perm", std::vector<int64_t>{0, 2, 1});
  m.Node("Exp", {"t"}, {"e"});
  Attribute(m.Node("Concat", {"t", "e"}, {"y"}), "axis", 1);
  m.Node("Greater", {"x", "s"}, {"g"});
  m.Node("Where", {"g", "x", "r"}, {"z"});
  m.Output("y");
  m.Output("z");
}

void Reductions(ModelMaker& m) {
  m.Input("x", {3, 8});
  Weight(m, "scale", {8});
  Weight(m, "bias", {8});
  Attribute(m.Node("Softmax", {"x"}, {"p"}), "axis", -1);
  m.Node("LayerNormalization", {"p", "scale", "bias"}, {"n"});
  m.Ints("axes", {0});
  m.Node("ReduceSum", {"n", "axes"}, {"sum"});
  Attribute(m.Node("ArgMax", {"n"}, {"top"}), "axis", 1);
  for (const char* name : {"n", "sum", "top"}) m.Output(name);
}

void Contraction(ModelMaker& m) {
  m.Input("x", {4, 6});
  Weight(m, "w", {6, 5});
  Weight(m, "b", {5});
  Weight(m, "v", {5, 3});
  m.Node("MatMul", {"x", "w"}, {"h"});
  m.Node("Add", {"h", "b"}, {"hb"});
  m.Node("Gelu", {"hb"}, {"g"});
  Attribute(m.Node("Gemm", {"g", "v"}, {"y"}), "transB", 0);
  m.Output("y");
}

void Convolution(ModelMaker& m) {
  m.Input("x", {1, 4, 6, 5});
  Weight(m, "w", {6, 2, 3, 3});
  Weight(m, "b", {6});
  NodeProto* conv = m.Node("Conv", {"x", "w", "b"}, {"c"});
  Attribute(conv, "group", 2);
  Attribute(conv, "pads", {1, 1, 1, 1});
  Attribute(conv, "strides", {2, 1});
  m.Node("Relu", {"c"}, {"r"});
  NodeProto* max = m.Node("MaxPool", {"r"}, {"p"});
  Attribute(max, "kernel_shape", {2, 2});
  NodeProto* mean = m.Node("AveragePool", {"r"}, {"q"});
  Attribute(mean, "kernel_shape", {3, 3});
  Attribute(mean, "pads", {1, 1, 1, 1});
  m.Node("GlobalAveragePool", {"r"}, {"g"});
  for (const char* name : {"p", "q", "g"}) m.Output(name);
}

void Attention(ModelMaker& m) {
  for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 2, 3, 4});
  m.Input("mask", {3, 3}, TensorProto::BOOL);
  m.Floats("scale", {}, {0.5f});
  m.Floats("low", {}, {-1e9f});
  m.Floats("zero", {}, {0});
  Attribute(m.Node("Transpose", {"k"}, {"kt"}), "perm", {0, 1, 3, 2});
  m.Node("MatMul", {"q", "kt"}, {"s"});
  m.Node("Mul", {"s", "scale"}, {"ss"});
  m.Node("Where", {"mask", "zero", "low"}, {"bias"});
  m.Node("Add", {"ss", "bias"}, {"sb"});
  Attribute(m.Node("Softmax", {"sb"}, {"p"}), "axis", -1);
  m.Node("MatMul", {"p", "v"}, {"y"});
  m.Output("y");
}

// Operators with indices from data: gathers, scatters, sorting.
void Indexing(ModelMaker& m) {
  m.Input("ids", {3}, TensorProto::INT64);
  m.Input("x", {3, 4});
  Weight(m, "table", {5, 4});
  m.Node("Gather", {"table", "ids"}, {"g"});
  m.Ints("shape", {3, 1});
  m.Node("Reshape", {"ids", "shape"}, {"rows"});
  m.Node("ScatterND", {"table", "rows", "x"}, {"s"});
  m.Node("GatherND", {"x", "rows"}, {"n"});
  m.Ints("k", {2});
  m.Node("TopK", {"x", "k"}, {"best", "where"});
  m.Ints("axis", {1});
  m.Node("CumSum", {"x", "axis"}, {"c"});
  for (const char* name : {"g", "s", "n", "best", "where", "c"}) m.Output(name);
}

// A cache in which a run writes one row in place.
void State(ModelMaker& m) {
  m.Input("cache", {4, 2});
  m.Input("row", {1, 2});
  m.Input("at", {1, 1}, TensorProto::INT64);
  m.Node("ScatterND", {"cache", "at", "row"}, {"cache_out"});
  m.Ints("axes", {0});
  m.Node("ReduceMean", {"cache_out", "axes"}, {"y"});
  m.Output("cache_out");
  m.Output("y");
}

void Shapes(ModelMaker& m) {
  m.Input("x", {-1, 6});
  m.Node("Shape", {"x"}, {"dims"});
  m.Ints("first", {0});
  m.Ints("one", {1});
  m.Node("Slice", {"dims", "first", "one"}, {"n"});
  m.Ints("rest", {3, 2});
  Attribute(m.Node("Concat", {"n", "rest"}, {"to"}), "axis", 0);
  m.Node("Reshape", {"x", "to"}, {"r"});
  m.Ints("pads", {0, 1, 0, 0, 0, 2});
  m.Node("Pad", {"r", "pads"}, {"p"});
  m.Ints("wide", {2, 2, 4, 4});
  m.Node("Expand", {"p", "wide"}, {"e"});
  m.Ints("steps", {2});
  m.Ints("end", {99});
  m.Node("Slice", {"e", "first", "end", "one", "steps"}, {"s"});
  m.Floats("scales", {3}, {1, 2, 1.5f});
  Attribute(m.Node("Resize", {"r", "", "scales"}, {"z"}), "mode", "linear");
  Attribute(m.Node("Split", {"x"}, {"left", "right"}), "axis", 1);
  Attribute(m.graph()->mutable_node(m.graph()->node_size() - 1), "num_outputs", 2);
  Attribute(m.Node("Einsum", {"left", "right"}, {"o"}), "equation", "ij,ik->jk");
  m.Output("s");
  m.Output("z");
  m.Output("o");
}

onnx::GraphProto* Subgraph(NodeProto* node, const std::string& name) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::GRAPH);
  return a->mutable_g();
}

void Control(ModelMaker& m) {
  m.Input("x", {2, 2});
  m.Bool("yes", true);
  NodeProto* branch = m.Node("If", {"yes"}, {"b"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto* g = Subgraph(branch, name);
    ModelMaker::Node(g, name[0] == 't' ? "Neg" : "Abs", {"x"}, {std::string("o_") + name});
    g->add_output()->set_name(std::string("o_") + name);
  }
  onnx::TensorProto* trips = m.graph()->add_initializer();
  trips->set_name("trips");
  trips->set_data_type(TensorProto::INT64);
  trips->add_int64_data(3);
  NodeProto* loop = m.Node("Loop", {"trips", "yes", "b"}, {"y", "all"});
  onnx::GraphProto* g = Subgraph(loop, "body");
  for (const char* name : {"i", "c", "v"}) g->add_input()->set_name(name);
  ModelMaker::Node(g, "Identity", {"c"}, {"c2"});
  ModelMaker::Node(g, "Add", {"v", "x"}, {"v2"});
  ModelMaker::Node(g, "Mul", {"v2", "v2"}, {"scan"});
  for (const char* name : {"c2", "v2", "scan"}) g->add_output()->set_name(name);
  m.Output("y");
  m.Output("all");
}

void Quantised(ModelMaker& m) {
  m.Input("x", {2, 4});
  m.Floats("scale", {}, {0.25f});
  onnx::TensorProto* zero = m.graph()->add_initializer();
  zero->set_name("zero");
  zero->set_data_type(TensorProto::UINT8);
  zero->add_int32_data(3);
  m.Node("QuantizeLinear", {"x", "scale", "zero"}, {"q"});
  Attribute(m.Node("Transpose", {"q"}, {"t"}), "perm", {1, 0});
  m.Node("MatMulInteger", {"q", "t", "zero", "zero"}, {"i"});
  Attribute(m.Node("Cast", {"i"}, {"h"}), "to", static_cast<int64_t>(TensorProto::FLOAT16));
  m.Node("DequantizeLinear", {"q", "scale", "zero"}, {"d"});
  m.Output("h");
  m.Output("d");
}

void Recurrent(ModelMaker& m) {
  m.Input("x", {2, 1, 3});
  Weight(m, "w", {1, 8, 3});
  Weight(m, "r", {1, 8, 2});
  Weight(m, "b", {1, 16});
  Attribute(m.Node("LSTM", {"x", "w", "r", "b"}, {"y", "h"}), "hidden_size", 2);
  m.Output("y");
  m.Output("h");
}

}  // namespace

std::vector<Seed> MakeModelSeeds() {
  struct Entry {
    const char* name;
    void (*make)(ModelMaker&);
  };
  constexpr Entry kEntries[] = {
      {"pointwise", Pointwise}, {"reductions", Reductions},
      {"matmul", Contraction},  {"convolution", Convolution},
      {"attention", Attention}, {"indexing", Indexing},
      {"state", State},         {"shapes", Shapes},
      {"control", Control},     {"quantised", Quantised},
      {"recurrent", Recurrent},
  };
  std::vector<Seed> seeds;
  for (const Entry& entry : kEntries) {
    ModelMaker maker;
    entry.make(maker);
    const std::string bytes = maker.proto.SerializeAsString();
    seeds.push_back({std::string(entry.name) + ".onnx", Bytes(bytes.begin(), bytes.end())});
  }
  return seeds;
}

}  // namespace rondo::fuzz
