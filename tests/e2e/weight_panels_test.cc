// Constant weights in panels (compiler/codegen/store_panels.h): results, which weights change, and that none
// is stored twice.
#include "core/weight_panels.h"

#include <algorithm>

#include "formats/plan/verifier.h"
#include "tests/e2e/alias_model.h"

namespace rondo {
namespace {

// A model with weights of small numbers.
class WeightModel : public AliasModel {
 public:
  void Weight(const std::string& name, const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 37 + seed_) % 61 - 30) / 64);
    seed_ += 13;
    Floats(name, dims, values);
  }
  void Convolution(const std::string& input, const std::string& weight, const std::string& output,
                   int64_t groups, int64_t pad) {
    Node("Conv", {input, weight}, {output}, "pads", std::vector<int64_t>(4, pad));
    onnx::AttributeProto* group = graph()->mutable_node()->rbegin()->add_attribute();
    group->set_name("group");
    group->set_type(onnx::AttributeProto::INT);
    group->set_i(groups);
  }

  // The constants of the plan that lie in panels: their innermost extent is a panel's.
  int Panels() const {
    int count = 0;
    for (const Buffer& buffer : plan().buffers) {
      count += buffer.kind == BufferKind::kConstant && buffer.shape.rank > 2 &&
               buffer.shape[buffer.shape.rank - 1] == kStoredColumns;
    }
    return count;
  }
  int Constants() const {
    return static_cast<int>(std::count_if(plan().buffers.begin(), plan().buffers.end(),
                                          [](const Buffer& b) { return b.kind == BufferKind::kConstant; }));
  }

 private:
  int64_t seed_ = 0;
};

TEST(WeightPanels, HoldWeightsOfMatmulsAndConvolutions) {
  WeightModel m;
  m.Input("x", {3, 20, 70});
  m.Weight("w", {70, 96});
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Input("image", {2, 13, 9, 11});
  m.Weight("dense", {48, 13, 3, 3});
  m.Weight("point", {160, 48, 1, 1});
  m.Weight("grouped", {160, 16, 3, 3});
  m.Convolution("image", "dense", "a", 1, 1);
  m.Convolution("a", "point", "b", 1, 0);
  m.Convolution("b", "grouped", "c", 10, 1);
  m.Output("y");
  m.Output("c");
  m.Check();
  EXPECT_EQ(m.Panels(), 4);
  EXPECT_EQ(m.Constants(), 4);
}

TEST(WeightPanels, HoldTransposedWeights) {
  WeightModel m;
  m.Input("x", {37, 50});
  m.Weight("w", {64, 50});
  m.Node("Gemm", {"x", "w"}, {"y"}, "transB", 1);
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.Panels(), 1);
}

// Columns that become heads, which are transposed, are several loops.
TEST(WeightPanels, HoldWeightsOfHeads) {
  for (const int64_t heads : {2, 6, 12}) {
    WeightModel m;
    m.Input("x", {2, 24, 40});
    m.Weight("w", {40, 192});
    m.Node("MatMul", {"x", "w"}, {"y"});
    m.Ints("shape", {2, 24, heads, 192 / heads});
    m.Node("Reshape", {"y", "shape"}, {"split"});
    m.Node("Transpose", {"split"}, {"turned"}, "perm", std::vector<int64_t>{0, 2, 1, 3});
    m.Output("turned");
    m.Check();
    EXPECT_EQ(m.Panels(), 1) << heads << " heads";
  }
}

// The guards of an operand of the epilogue run along the columns too.
TEST(WeightPanels, HoldWeightsBesidePaddedTerms) {
  WeightModel m;
  m.Input("x", {20, 64});
  m.Weight("w", {64, 96});
  m.Node("MatMul", {"x", "w"}, {"product"});
  m.Input("term", {20, 80});
  m.Ints("pads", {0, 6, 0, 10});
  m.Node("Pad", {"term", "pads"}, {"padded"});
  m.Node("Add", {"product", "padded"}, {"y"});
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.Panels(), 1);
}

TEST(WeightPanels, AreSharedByReadersThatAgree) {
  WeightModel m;
  m.Input("x", {20, 64});
  m.Weight("w", {64, 64});
  m.Node("MatMul", {"x", "w"}, {"a"});
  m.Node("Tanh", {"a"}, {"b"});
  m.Node("MatMul", {"b", "w"}, {"y"});
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.Panels(), 1);
  EXPECT_EQ(m.Constants(), 1);
}

// Among those that do not: a table of embeddings that is also the last projection, a matmul with one row, and
// one that reads the weight transposed.
TEST(WeightPanels, AreNotForReadersThatDiffer) {
  for (const std::string other : {"Gather", "one row", "transposed", "Add"}) {
    WeightModel m;
    m.Input("x", {20, 64});
    m.Weight("w", {64, 64});
    m.Node("MatMul", {"x", "w"}, {"y"});
    m.Output("y");
    if (other == "Gather") {
      m.Input("places", {20}, onnx::TensorProto::INT64);
      m.Node("Gather", {"w", "places"}, {"z"});
    } else if (other == "one row") {
      m.Input("row", {1, 64});
      m.Node("MatMul", {"row", "w"}, {"z"});
    } else if (other == "transposed") {
      m.Node("Gemm", {"x", "w"}, {"z"}, "transB", 1);
    } else {
      m.Input("term", {64, 64});
      m.Node("Add", {"term", "w"}, {"z"});
    }
    m.Output("z");
    m.Check();
    EXPECT_EQ(m.Panels(), 0) << other;
    EXPECT_EQ(m.Constants(), 1) << other;
  }
}

// Few rows stream the weight as it is; columns that are no whole panels, or have little depth, are packed in
// runs.
TEST(WeightPanels, AreNotForOtherMatmuls) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{8, 64, 64}, {20, 64, 40}, {20, 4, 64}}) {
    WeightModel m;
    m.Input("x", {sizes[0], sizes[1]});
    m.Weight("w", {sizes[1], sizes[2]});
    m.Node("MatMul", {"x", "w"}, {"y"});
    m.Output("y");
    m.Check();
    EXPECT_EQ(m.Panels(), 0) << sizes[0] << " rows, " << sizes[2] << " columns";
  }
}

// A plan whose panels are too small for their reader is refused.
TEST(WeightPanels, TooSmallForTheirReaderAreRefused) {
  WeightModel m;
  m.Input("x", {20, 64});
  m.Weight("w", {64, 96});
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Output("y");
  m.Check();
  ASSERT_EQ(m.Panels(), 1);
  PlanData plan = m.plan();
  std::vector<Buffer> buffers(plan.buffers.begin(), plan.buffers.end());
  for (Buffer& buffer : buffers) {
    if (buffer.kind != BufferKind::kConstant) continue;
    ASSERT_EQ(buffer.shape.rank, 3);
    buffer.shape.dims[0] -= 1;
    buffer.bytes = static_cast<uint64_t>(buffer.shape.elements() * 4);
  }
  plan.buffers = buffers;
  EXPECT_TRUE(Says(VerifyPlan(plan), {"MatMul", "buffer"}));
}

}  // namespace
}  // namespace rondo
