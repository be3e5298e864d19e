// Sparse initializers and values of Constant.
#include "tests/import/imported.h"

namespace rondo {
namespace {

void Fill(onnx::SparseTensorProto* tensor, const std::string& name, const std::vector<float>& values,
          const std::vector<int64_t>& index_shape, const std::vector<int64_t>& indices) {
  tensor->mutable_values()->set_name(name);
  tensor->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  tensor->mutable_values()->add_dims(static_cast<int64_t>(values.size()));
  for (float value : values) tensor->mutable_values()->add_float_data(value);
  tensor->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  for (int64_t dim : index_shape) tensor->mutable_indices()->add_dims(dim);
  for (int64_t index : indices) tensor->mutable_indices()->add_int64_data(index);
  for (int64_t dim : {2, 3}) tensor->add_dims(dim);
}

TEST(SparseConstants, AreDenseOnesWithZeros) {
  for (const bool rows : {false, true}) {
    const std::vector<int64_t> shape = rows ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{2};
    const std::vector<int64_t> indices = rows ? std::vector<int64_t>{1, 2, 0, 1} : std::vector<int64_t>{5, 1};
    ModelMaker m;
    m.Input("x", {2, 3});
    Fill(m.graph()->add_sparse_initializer(), "w", {7, 8}, shape, indices);
    onnx::AttributeProto* attribute = m.Node("Constant", {}, {"v"})->add_attribute();
    attribute->set_name("sparse_value");
    attribute->set_type(onnx::AttributeProto::SPARSE_TENSOR);
    Fill(attribute->mutable_sparse_tensor(), "", {70, 80}, shape, indices);
    m.Node("Add", {"x", "w"}, {"sum"});
    m.Node("Add", {"sum", "v"}, {"y"});
    m.Output("y");
    const auto graph = Import(m);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(Evaluate(*graph, {1, 1, 1, 1, 1, 1}), (std::vector<double>{1, 89, 1, 1, 1, 78}));
  }
}

TEST(SparseConstants, PlacesThatAreNoneAreRefused) {
  const auto said = [](const std::vector<int64_t>& shape, const std::vector<int64_t>& indices) {
    ModelMaker m;
    m.Input("x", {2, 3});
    Fill(m.graph()->add_sparse_initializer(), "w", {7, 8}, shape, indices);
    m.Node("Add", {"x", "w"}, {"y"});
    m.Output("y");
    return Import(m).status();
  };
  EXPECT_TRUE(Says(said({2}, {1, 6}), {"sparse tensor \"w\"", "outside of its dimensions"}));
  EXPECT_TRUE(Says(said({2, 2}, {0, 1, 0, 3}), {"outside of its dimensions"}));
  EXPECT_TRUE(Says(said({2}, {4, 4}), {"two numbers have one place"}));
  EXPECT_TRUE(Says(said({1}, {4}), {"[numbers] or [numbers, dimensions]"}));
}

}  // namespace
}  // namespace rondo
