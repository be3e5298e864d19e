// `--annotate NODE:assert=finite`: if an output of the node has NaN or infinity, the run ends with an error
// that names the node and the output, whatever kernel the node has become part of. Other runs are unchanged.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/element.h"
#include "core/scalar.h"
#include "formats/plan/assertion_note.h"
#include "tests/e2e/branch_models.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/streams/annotated_models.h"

namespace rondo {
namespace {

constexpr int64_t kAcross = 32;
using Names = std::vector<std::string>;

class Assertions : public AnnotatedModels {
 protected:
  void Open(const ModelMaker& m, const Names& annotations, uint32_t devices = 1) {
    ASSERT_TRUE(StatusWith(m, annotations).ok());
    HostOptions host;
    host.devices = devices;
    model_ = std::make_unique<LiveModel>(options_, host);
  }
  // Runs with `first` in the first element of each float input, and `others` in the rest.
  Status Run(double first, double others) {
    LiveModel::Buffers buffers = model_->MakeBuffers(0);
    for (size_t i = 0; i < buffers.inputs.size(); ++i) {
      const DType dtype = buffers.inputs[i].dtype;
      const auto count = static_cast<int64_t>(buffers.input_bytes[i].size()) / ByteSize(dtype);
      for (int64_t k = 0; k < count && IsFloat(dtype); ++k)
        scalar::Store<double>(dtype, buffers.input_bytes[i].data(), k, k == 0 ? first : others);
      if (dtype == DType::kBool) buffers.input_bytes[i][0] = taken_;
    }
    return model_->session().Run(0, buffers.inputs, buffers.outputs);
  }
  size_t Steps() const { return model_->data().programs[0].steps.size(); }
  bool Has(Skeleton skeleton) const {
    const auto is = [&](const Kernel& kernel) { return kernel.parts[0].skeleton == skeleton; };
    return std::any_of(model_->data().kernels.begin(), model_->data().kernels.end(), is);
  }

  uint8_t taken_ = 1;
  std::unique_ptr<LiveModel> model_;
};

ModelMaker ChainOf(int type = onnx::TensorProto::FLOAT) {
  ModelMaker m;
  m.Input("x", {3, kAcross}, type);
  m.Node("Neg", {"x"}, {"less"})->set_name("neg");
  m.Node("Mul", {"less", "less"}, {"square"})->set_name("square");
  m.Node("Tanh", {"square"}, {"t"})->set_name("tanh");
  m.Node("Add", {"t", "less"}, {"y"})->set_name("sum");
  m.Output("y");
  return m;
}

TEST_F(Assertions, OfAFusedChainNameTheNodeAndTheOutputAndTheSessionGoesOn) {
  Open(ChainOf(), {});
  ASSERT_EQ(Steps(), 1u);
  Open(ChainOf(), {"square:assert=finite"});
  EXPECT_EQ(Steps(), 1u);
  EXPECT_TRUE(Run(1, 2).ok());
  const Status struck = Run(1e30, 2);
  EXPECT_EQ(struck.code(), Code::kOutOfRange);
  EXPECT_TRUE(
      Says(struck, {"step 0", "output \"square\" of Mul \"square\" holds infinity", "assert=finite"}));
  EXPECT_NE(std::string(struck.source_node()).find("Mul \"square\""), std::string::npos);
  EXPECT_TRUE(Says(Run(std::nan(""), 2), {"of Mul \"square\" holds NaN"}));
  EXPECT_TRUE(Run(1, 2).ok());
}

// A value that becomes infinite only when it is rounded to its type counts as infinite, fused or not.
TEST_F(Assertions, SeeNumbersAsTheirTypeHasThem) {
  struct {
    int type;
    double most, more;
  } const types[] = {{onnx::TensorProto::FLOAT16, 250, 300},
                     {onnx::TensorProto::BFLOAT16, 1e19, 1e20},
                     {onnx::TensorProto::FLOAT, 1e19, 1e20},
                     {onnx::TensorProto::DOUBLE, 1e150, 1e160}};
  for (const auto& [type, most, more] : types) {
    Open(ChainOf(type), {"square:assert=finite"});
    EXPECT_EQ(Steps(), 1u) << type;
    EXPECT_TRUE(Run(most, 1).ok()) << type;
    EXPECT_TRUE(Says(Run(more, 1), {"of Mul \"square\" holds infinity"})) << type;
  }
}

TEST_F(Assertions, OfAMatmulLieInItsEpilogue) {
  ModelMaker m;
  m.Input("x", {4, kAcross});
  m.Floats("w", {kAcross, kAcross}, std::vector<float>(kAcross * kAcross, 1));
  m.Floats("b", {kAcross}, std::vector<float>(kAcross, 0.5f));
  m.Node("MatMul", {"x", "w"}, {"product"})->set_name("product");
  m.Node("Add", {"product", "b"}, {"biased"})->set_name("bias");
  m.Node("Relu", {"biased"}, {"y"})->set_name("relu");
  m.Output("y");
  Open(m, {"product:assert=finite"});
  EXPECT_EQ(Steps(), 1u);
  EXPECT_TRUE(Run(1, 1).ok());
  EXPECT_TRUE(Says(Run(-3e38, -3e38), {"output \"product\" of MatMul \"product\" holds -infinity"}));
}

TEST_F(Assertions, OfRowsAndOfWhatReductionsRead) {
  ModelMaker m;
  m.Input("x", {4, kAcross});
  m.Floats("g", {kAcross}, std::vector<float>(kAcross, 1));
  m.Node("Sqrt", {"x"}, {"root"})->set_name("root");
  m.Node("LayerNormalization", {"root", "g"}, {"normed"})->set_name("norm");
  m.Node("Softmax", {"normed"}, {"y"})->set_name("softmax");
  m.Output("y");
  for (const std::string node : {"root", "norm", "softmax"}) {
    Open(m, {node + ":assert=finite"});
    EXPECT_TRUE(Run(1, 2).ok()) << node;
    EXPECT_TRUE(Says(Run(-1, 2), {(" \"" + node + "\" holds NaN").c_str()})) << node;
  }
}

// q, k and v come from one input; q is divided by a value that may be 0.
TEST_F(Assertions, OfAttentionsInputLeaveTheAttention) {
  ModelMaker m;
  m.Input("x", {1, 2, 8, 16});
  m.Floats("scale", {}, {0.25f});
  m.Node("Div", {"x", "x"}, {"q"})->set_name("quotient");
  m.Node("Tanh", {"x"}, {"k"})->set_name("k");
  onnx::AttributeProto* order = m.Node("Transpose", {"k"}, {"turned"})->add_attribute();
  order->set_name("perm");
  order->set_type(onnx::AttributeProto::INTS);
  for (int64_t axis : {0, 1, 3, 2}) order->add_ints(axis);
  m.Node("MatMul", {"q", "turned"}, {"scores"})->set_name("scores");
  m.Node("Mul", {"scores", "scale"}, {"scaled"});
  m.Node("Softmax", {"scaled"}, {"weights"});
  m.Node("MatMul", {"weights", "x"}, {"y"})->set_name("mixed");
  m.Output("y");
  Open(m, {"quotient:assert=finite", "mixed:assert=finite"});
  EXPECT_TRUE(Has(Skeleton::kAttention));
  EXPECT_TRUE(Run(1, 2).ok());
  EXPECT_TRUE(Says(Run(0, 2), {"output \"q\" of Div \"quotient\" holds NaN"}));
}

TEST_F(Assertions, KeepWhatNobodyReadsAlive) {
  ModelMaker m;
  m.Input("x", {3, kAcross});
  m.Node("Sqrt", {"x"}, {"root"})->set_name("root");
  m.Node("Log", {"root"}, {"unread"})->set_name("log");
  m.Node("Abs", {"x"}, {"y"});
  m.Output("y");
  Open(m, {"log:assert=finite"});
  EXPECT_TRUE(Run(1, 2).ok());
  EXPECT_TRUE(Says(Run(0, 2), {"output \"unread\" of Log \"log\" holds -infinity"}));
  Open(m, {"*:assert=finite"});
  EXPECT_TRUE(Says(Run(-1, 2), {"output \"root\" of Sqrt \"root\" holds NaN"}));
}

// All elements are checked, even if only a part is read.
TEST_F(Assertions, LookAtAllElements) {
  ModelMaker m;
  m.Input("x", {4, kAcross});
  m.Ints("one", {1});
  m.Ints("two", {2});
  m.Node("Log", {"x"}, {"log"})->set_name("log");
  m.Node("Tanh", {"log"}, {"t"});
  m.Node("Slice", {"t", "one", "two"}, {"part"});
  m.Node("Neg", {"part"}, {"y"});
  m.Output("y");
  Open(m, {"log:assert=finite"});
  EXPECT_TRUE(Run(1, 2).ok());
  EXPECT_TRUE(Says(Run(-1, 2), {"output \"log\" of Log \"log\" holds NaN"}));
}

TEST_F(Assertions, OfEqualNodesAreTwo) {
  ModelMaker m;
  m.Input("x", {3, kAcross});
  m.Node("Log", {"x"}, {"a"})->set_name("one");
  m.Node("Log", {"x"}, {"b"})->set_name("other");
  m.Node("Add", {"a", "b"}, {"y"});
  m.Output("y");
  Open(m, {"*:assert=finite"});
  const std::vector<AssertionNote> notes = AssertionsOf(model_->data(), model_->data().programs[0]);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(model_->data().kernels.size(), 1u);
  EXPECT_FALSE(Run(0, 2).ok());
}

// Assertions are numbered within a kernel, so layers still share kernels.
TEST_F(Assertions, OfLayersShareTheirKernels) {
  ModelMaker m;
  m.Input("x", {4, kAcross});
  m.Floats("w", {kAcross, kAcross}, std::vector<float>(kAcross * kAcross, 0.01f));
  std::string last = "x";
  for (const std::string layer : {"0", "1", "2"}) {
    m.Node("MatMul", {last, "w"}, {"p" + layer})->set_name("layer." + layer + "/product");
    m.Node("Softmax", {"p" + layer}, {"s" + layer})->set_name("layer." + layer + "/softmax");
    last = "s" + layer;
  }
  m.Output(last);
  Open(m, {"*:assert=finite"});
  EXPECT_EQ(model_->data().kernels.size(), 2u);
  EXPECT_EQ(Steps(), 6u);
  EXPECT_TRUE(Run(1, 1).ok());
  EXPECT_TRUE(Says(Run(std::numeric_limits<float>::infinity(), 1), {"\"layer.0/product\""}));
}

TEST_F(Assertions, InABranchCountWhereItIsTaken) {
  ModelMaker m;
  m.Input("condition", {1}, onnx::TensorProto::BOOL);
  m.Input("x", {3, kAcross});
  onnx::NodeProto* branch = m.Node("If", {"condition"}, {"y"});
  branch->set_name("if");
  for (const std::string name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* a = branch->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::GRAPH);
    ModelMaker::Node(a->mutable_g(), name == "then_branch" ? "Log" : "Abs", {"x"}, {name})->set_name(name);
    a->mutable_g()->add_output()->set_name(name);
  }
  m.Output("y");
  Open(m, {"if:assert=finite"});
  EXPECT_TRUE(Says(Run(-1, 2), {"of Log \"then_branch\" holds NaN"}));
  taken_ = 0;
  EXPECT_TRUE(Run(-1, 2).ok());
}

TEST_F(Assertions, OnSeveralDevicesNameTheDevice) {
  ModelMaker m;
  m.Input("x", {4, kAcross});
  for (const std::string w : {"up", "down"})
    m.Floats(w, {kAcross, kAcross}, std::vector<float>(kAcross * kAcross, w == "up" ? 1 : 0));
  m.Node("MatMul", {"x", "up"}, {"wide"})->set_name("up");
  m.Node("Relu", {"wide"}, {"gated"})->set_name("relu");
  m.Node("MatMul", {"gated", "down"}, {"y"})->set_name("down");
  m.Output("y");
  options_.tensor_parallel = 2;
  for (const std::string node : {"up", "relu", "down"}) {
    Open(m, {node + ":assert=finite"}, 2);
    EXPECT_TRUE(Run(1, 1).ok()) << node;
    EXPECT_TRUE(Says(Run(3e38, 3e38), {"device ", (" \"" + node + "\" holds ").c_str()})) << node;
  }
}

// Dimensions that data decide have memory for more elements than exist; only existing ones are checked.
TEST_F(Assertions, LeaveOutWhatIsNotReal) {
  ModelMaker m;
  m.Input("x", {kAcross});
  m.Node("NonZero", {"x"}, {"places"});
  onnx::AttributeProto* to = m.Node("Cast", {"places"}, {"floats"})->add_attribute();
  to->set_name("to");
  to->set_type(onnx::AttributeProto::INT);
  to->set_i(onnx::TensorProto::FLOAT);
  m.Node("Log", {"floats"}, {"logs"})->set_name("log");
  m.Node("ReduceSum", {"logs"}, {"y"});
  m.Output("y");
  Open(m, {"log:assert=finite"});
  EXPECT_TRUE(Run(0, 2).ok());
  EXPECT_TRUE(Says(Run(1, 2), {"of Log \"log\" holds -infinity"}));
}

TEST_F(Assertions, ThatCannotBeMadeAreRefused) {
  ModelMaker m = ChainOf();
  m.Node("Greater", {"t", "less"}, {"more"})->set_name("more");
  m.Output("more");
  m.Floats("c", {2}, {1, 2});
  m.Node("Exp", {"c"}, {"known"})->set_name("known");
  m.Output("known");
  ExpectRefused(m, {"more:assert=finite"}, {"Greater \"more\"", "no output of it is of floats"});
  ExpectRefused(m, {"known:assert=finite"}, {"Exp \"known\"", "constant"});
  ExpectRefused(m, {"sum:assert=positive"}, {"assert: positive", "finite"});
  EXPECT_TRUE(Compile(m, {"*:assert=finite"}).ok());
}

}  // namespace
}  // namespace rondo
