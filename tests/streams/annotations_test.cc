// Annotations hold, or the compile fails with a sentence that names the node and the reason.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/streams/annotated_models.h"
#include "tests/streams/annotated_plan.h"

namespace rondo {
namespace {

constexpr int64_t kRows = 6, kColumns = 16;

class Annotations : public AnnotatedModels {
 protected:
  // Expects that all annotations hold, as far as the plan shows.
  void ExpectHold(const ModelMaker& m, const std::vector<std::string>& annotations) {
    const Result<CompiledPlan> compiled = Compile(m, annotations);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    for (const NodeAnnotation& one : options_.annotations)
      EXPECT_EQ(WhyItDoesNotHold(compiled->plan, one), "") << TextOf(one);
  }
};

std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i * 7 % 13 + 1) / 8);
  return numbers;
}

void Set(onnx::NodeProto* node, const char* name, int64_t value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}
void Say(onnx::NodeProto* node, const char* key, const char* value) {
  auto* entry = node->add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

struct Operator {
  const char* op;
  std::vector<std::vector<int64_t>> weights;  // shapes of the inputs after x
  std::vector<int64_t> shape = {kRows, kColumns};
  const char* domain = "";
};
const std::vector<Operator> kOneKernel = {
    {"LayerNormalization", {{kColumns}, {kColumns}}},
    {"RMSNormalization", {{kColumns}}},
    {"Softmax", {}},
    {"LogSoftmax", {}},
    {"Gemm", {{kColumns, kColumns}, {kColumns}}},
    {"MatMul", {{kColumns, kColumns}}},
    {"Gelu", {}},
    {"FastGelu", {}, {kRows, kColumns}, "com.microsoft"},
    {"HardSwish", {}},
    {"Mish", {}},
    {"Softplus", {}},
    {"BatchNormalization", {{3}, {3}, {3}, {3}}, {1, 3, 4, 5}},
    {"InstanceNormalization", {{3}, {3}}, {1, 3, 4, 5}},
    {"Conv", {{4, 3, 1, 1}, {4}}, {1, 3, 4, 5}},
    {"GlobalAveragePool", {}, {1, 3, 4, 5}},
    {"ReduceL2", {}},
    {"ReduceLogSumExp", {}},
    {"Attention", {{1, 4, 16}, {1, 4, 16}}, {1, 4, 16}},
};

// x -> [Tanh before] -> the operator, "op" -> [Tanh after] -> y.
ModelMaker Around(const Operator& o, bool alone) {
  ModelMaker m(23);
  m.proto.add_opset_import()->set_domain("com.microsoft");
  m.proto.mutable_opset_import(1)->set_version(1);
  m.Input("x", o.shape);
  std::vector<std::string> inputs = {alone ? "x" : "a"};
  if (!alone) m.Node("Tanh", {"x"}, {"a"});
  for (const std::vector<int64_t>& shape : o.weights) {
    int64_t count = 1;
    for (int64_t d : shape) count *= d;
    inputs.push_back("w" + std::to_string(inputs.size()));
    m.Floats(inputs.back(), shape, Numbers(count));
  }
  onnx::NodeProto* node = m.Node(o.op, inputs, {alone ? "y" : "b"});
  node->set_name("op");
  node->set_domain(o.domain);
  if (node->op_type() == "Attention") {
    Set(node, "q_num_heads", 2);
    Set(node, "kv_num_heads", 2);
  }
  if (!alone) m.Node("Tanh", {"b"}, {"y"});
  m.Output("y");
  return m;
}

TEST_F(Annotations, FuseOffIsOneKernelForAnOperatorThatIsOneWhenItStandsAlone) {
  for (const Operator& o : kOneKernel) {
    const Result<CompiledPlan> alone = Compile(Around(o, true), {});
    ASSERT_TRUE(alone.ok()) << o.op << ": " << alone.status().message();
    ExpectHold(Around(o, false), {"op:fuse=off"});
    const Result<CompiledPlan> among = Compile(Around(o, false), {"op:fuse=off"});
    ASSERT_TRUE(among.ok()) << o.op;
    EXPECT_EQ(StepsOf(among->plan, "op").size(), 1u) << o.op;
    EXPECT_EQ(among->plan.programs[0].steps.size(), 3u) << o.op;
  }
}

// softmax(a b) c with a scale, which is an attention unless an annotation prevents that.
ModelMaker Attending() {
  ModelMaker m;
  m.Input("q", {2, 4, 8});
  m.Input("k", {2, 8, 4});
  m.Input("v", {2, 4, 8});
  m.Floats("scale", {}, {0.25f});
  m.Node("MatMul", {"q", "k"}, {"s"})->set_name("scores");
  m.Node("Mul", {"s", "scale"}, {"t"})->set_name("scaled");
  m.Node("Softmax", {"t"}, {"p"})->set_name("softmax");
  m.Node("MatMul", {"p", "v"}, {"o"})->set_name("mixed");
  m.Node("Relu", {"o"}, {"y"})->set_name("relu");
  m.Output("y");
  return m;
}

TEST_F(Annotations, HoldOfWhatWouldBeAPartOfAttention) {
  const Result<CompiledPlan> plain = Compile(Attending(), {});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->plan.kernels[0].parts[0].skeleton, Skeleton::kAttention);
  for (const char* node : {"scores", "scaled", "softmax", "mixed", "relu"}) {
    for (const char* said : {":fuse=off", ":graph=off", ":stream=1"})
      ExpectHold(Attending(), {std::string(node) + said});
  }
  ExpectHold(Attending(), {"scores:stream=1", "softmax:stream=2", "mixed:graph=off", "relu:fuse=off"});
}

TEST_F(Annotations, APatternHoldsOfEveryNodeThatRuns) {
  const Result<CompiledPlan> compiled = Compile(Attending(), {"*:fuse=off"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const char* node : {"scores", "scaled", "softmax", "mixed", "relu"}) {
    EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {node, "fuse", "off"}), "");
    EXPECT_EQ(StepsOf(compiled->plan, node).size(), 1u) << node;
  }
  // With all on one stream, attention is one kernel there.
  const Result<CompiledPlan> moved = Compile(Attending(), {"*:stream=1"});
  ASSERT_TRUE(moved.ok()) << moved.status().message();
  EXPECT_EQ(moved->plan.kernels[0].parts[0].skeleton, Skeleton::kAttention);
  EXPECT_EQ(WhyItDoesNotHold(moved->plan, {"softmax", "stream", "1"}), "");
}

TEST_F(Annotations, MetadataSaysTheSame) {
  ModelMaker m = Attending();
  Say(m.graph()->mutable_node(2), "rondo.fuse", "off");
  Say(m.graph()->mutable_node(3), "rondo.stream", "1");
  const Result<CompiledPlan> compiled = Compile(m, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"softmax", "fuse", "off"}), "");
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"mixed", "stream", "1"}), "");
  Say(m.graph()->mutable_node(3), "stream", "2");
  ExpectRefused(m, {},
                {"MatMul \"mixed\"", "stream: 1", "metadata rondo.stream", "stream: 2", "metadata stream"});
  ModelMaker wrong = Attending();
  Say(wrong.graph()->mutable_node(2), "rondo.fuse", "on");
  ExpectRefused(wrong, {}, {"rondo.fuse", "on", "Softmax \"softmax\"", "fuse: off"});
}

TEST_F(Annotations, ThatContradictOneAnotherAreRefusedAndBothAreNamed) {
  ExpectRefused(Attending(), {"softmax:stream=1", "softmax:stream=2"},
                {"Softmax \"softmax\"", "softmax:stream=1", "softmax:stream=2"});
  ExpectRefused(Attending(), {"soft*:stream=1", "*max:stream=2"},
                {"Softmax \"softmax\"", "soft*:stream=1", "*max:stream=2"});
  ExpectRefused(Attending(), {"softmax:stream=1", "value:p:stream=2"},
                {"Softmax \"softmax\"", "softmax:stream=1", "value:p:stream=2"});
}

TEST_F(Annotations, ANameGoesBeforeAPatternANarrowerOneBeforeAWiderAndBothBeforeMetadata) {
  ModelMaker m = Attending();
  Say(m.graph()->mutable_node(2), "rondo.stream", "3");
  Result<CompiledPlan> compiled = Compile(m, {"*:stream=1", "s*:stream=0", "softmax:stream=1"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"softmax", "stream", "1"}), "");
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"scores", "stream", "0"}), "");
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"relu", "stream", "1"}), "");
  EXPECT_EQ(compiled->plan.programs[0].num_streams, 2u);
  ExpectHold(Attending(), {"softmax:stream=1"});
  compiled = Compile(Attending(), {"s*:stream=1", "*x*:stream=2", "softmax:stream=0"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"softmax", "stream", "0"}), "");
  ExpectRefused(Attending(), {"soft*:stream=1", "softmax:stream=2"}, {"soft*:stream=1", "holds of no node"});
}

TEST_F(Annotations, NodesAreNamedWhateverTheirNamesHold) {
  for (const char* name :
       {"a=b", "a:b", "a,b", "a:stream=2", "*", "a\\b", "value:x", "m/a:0", "a b", "=", ":"}) {
    ModelMaker m;
    m.Input("x", {4});
    m.Node("Relu", {"x"}, {"r"})->set_name(name);
    m.Node("Exp", {"r"}, {"y"})->set_name("other");
    m.Output("y");
    const std::string escaped = Escaped(name);
    const Result<CompiledPlan> compiled = Compile(m, {escaped + ":stream=1", "other:after=" + escaped});
    ASSERT_TRUE(compiled.ok()) << name << ": " << compiled.status().message();
    EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {name, "stream", "1"}), "") << name;
    EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"other", "stream", "0"}), "") << name;
  }
  ModelMaker m;  // the node has no name
  m.Input("x", {4});
  m.Node("Relu", {"x"}, {"r"})->clear_name();
  m.Node("Exp", {"r"}, {"y"})->set_name("other");
  m.Output("y");
  const Result<CompiledPlan> compiled = Compile(m, {"value:r:stream=1", "other:after=value:r"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"r", "stream", "1"}), "");
  ExpectRefused(m, {"value:none:stream=1"}, {"value:none", "no model has a node"});
  ExpectRefused(m, {"r:colour=red"}, {"colour: red", "r", "none of stream"});
}

// All ways in which a node can vanish, so that nothing is left to hold its annotation.
ModelMaker Vanishing() {
  ModelMaker m;
  m.Input("x", {4, 4});
  m.Floats("one", {4, 4}, std::vector<float>(16, 1));
  m.Floats("w", {4, 4}, Numbers(16));
  m.Node("Exp", {"w"}, {"c"})->set_name("folded");
  m.Node("Transpose", {"x"}, {"t"})->set_name("turned");
  m.Node("Identity", {"t"}, {"i"})->set_name("same");
  m.Node("Relu", {"x"}, {"nobody"})->set_name("dead");
  m.Node("Mul", {"i", "one"}, {"by_one"})->set_name("by one");
  m.Node("Tanh", {"by_one"}, {"a"})->set_name("first");
  m.Node("Tanh", {"by_one"}, {"b"})->set_name("again");
  m.Node("Add", {"a", "b"}, {"ab"})->set_name("sum");
  m.Node("Add", {"ab", "c"}, {"y"})->set_name("last");
  m.Output("y");
  return m;
}

TEST_F(Annotations, ThatNothingIsLeftToHoldAreRefusedWithTheReason) {
  for (const char* said : {":fuse=off", ":graph=off", ":stream=1"}) {
    const auto of = [&](const char* node) { return std::vector<std::string>{std::string(node) + said}; };
    ExpectRefused(Vanishing(), of("folded"), {"Exp \"folded\"", "constant"});
    ExpectRefused(Vanishing(), of("dead"), {"Relu \"dead\"", "no output"});
    // Annotated nodes stay that a pass would remove, and equal nodes with different annotations are not
    // merged. A node that would be a view of its input, or pass it on, copies it.
    for (const char* node : {"turned", "same", "by one", "first", "again", "sum", "last"})
      ExpectHold(Vanishing(), of(node));
    const Result<CompiledPlan> all = Compile(Vanishing(), of("*"));
    EXPECT_TRUE(all.ok()) << all.status().message();
  }
  ExpectHold(Vanishing(), {"first:stream=1", "again:stream=0"});
}

// A function F(x) = Exp(Relu(x)), called by nodes "f" and "g".
ModelMaker Calling() {
  ModelMaker m;
  m.proto.add_opset_import()->set_domain("own");
  m.proto.mutable_opset_import(1)->set_version(1);
  onnx::FunctionProto* f = m.proto.add_functions();
  f->set_name("F");
  f->set_domain("own");
  f->add_input("x");
  f->add_output("y");
  f->add_opset_import()->set_version(20);
  ModelMaker::Node(f, "Relu", {"x"}, {"r"})->set_name("relu");
  ModelMaker::Node(f, "Exp", {"r"}, {"y"})->set_name("exp");
  m.Input("x", {4});
  for (const char* name : {"f", "g"}) {
    onnx::NodeProto* call = m.Node("F", {name[0] == 'f' ? "x" : "of_f"}, {name[0] == 'f' ? "of_f" : "of_g"});
    call->set_domain("own");
    call->set_name(name);
  }
  m.Node("Tanh", {"of_g"}, {"y"})->set_name("last");
  m.Output("y");
  return m;
}

TEST_F(Annotations, OfACallHoldOfWhatItCallsUnlessThatSaysOtherwise) {
  Result<CompiledPlan> compiled = Compile(Calling(), {"f:stream=1"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const char* node : {"f/relu", "f/exp", "f"})
    EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {node, "stream", "1"}), "");
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"g/exp", "stream", "0"}), "");
  compiled = Compile(Calling(), {"f:stream=1", "f/exp:stream=0"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"f/relu", "stream", "1"}), "");
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"f/exp", "stream", "0"}), "");
  ExpectRefused(Calling(), {"f:stream=1", "*exp:stream=2"}, {"f/exp", "f:stream=1", "*exp:stream=2"});
  // With fuse=off a call, which is one operator of the model, is one kernel.
  compiled = Compile(Calling(), {"f:fuse=off"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->plan.programs[0].steps.size(), 2u);
  compiled = Compile(Calling(), {"f/exp:fuse=off"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->plan.programs[0].steps.size(), 3u);
}

// A loop s = Tanh(Relu(s) + x) with `rounds` rounds.
ModelMaker Looping(int64_t rounds) {
  ModelMaker m;
  m.Input("x", {4});
  m.Ints("rounds", {});
  onnx::TensorProto* trips = m.graph()->mutable_initializer(0);
  trips->clear_dims();
  trips->clear_int64_data();
  trips->add_int64_data(rounds);
  m.Bool("yes", true);
  onnx::NodeProto* loop = m.Node("Loop", {"rounds", "yes", "x"}, {"end"});
  loop->set_name("loop");
  onnx::AttributeProto* a = loop->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto* body = a->mutable_g();
  for (const char* input : {"i", "go", "s"}) {
    onnx::ValueInfoProto* info = body->add_input();
    info->set_name(input);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(input[0] == 's'   ? onnx::TensorProto::FLOAT
                          : input[0] == 'i' ? onnx::TensorProto::INT64
                                            : onnx::TensorProto::BOOL);
    tensor->mutable_shape();
    if (input[0] == 's') tensor->mutable_shape()->add_dim()->set_dim_value(4);
  }
  ModelMaker::Node(body, "Identity", {"go"}, {"goes"});
  ModelMaker::Node(body, "Relu", {"s"}, {"r"})->set_name("relu");
  ModelMaker::Node(body, "Add", {"r", "x"}, {"a"})->set_name("add");
  ModelMaker::Node(body, "Tanh", {"a"}, {"t"})->set_name("tanh");
  body->add_output()->set_name("goes");
  body->add_output()->set_name("t");
  m.Node("Exp", {"end"}, {"y"})->set_name("last");
  m.Output("y");
  return m;
}

TEST_F(Annotations, HoldInTheBodyOfALoopOrAreRefused) {
  for (const int64_t rounds : {3, 40}) {
    for (const char* said : {":fuse=off", ":stream=1", ":graph=off"}) {
      const Result<CompiledPlan> whole = Compile(Looping(rounds), {std::string("loop") + said});
      if (rounds == 3 || whole.ok()) {
        ASSERT_TRUE(whole.ok()) << said << ": " << whole.status().message();
        const NodeAnnotation one = options_.annotations[0];
        const std::string why = WhyItDoesNotHold(whole->plan, {"add", one.key, one.value});
        EXPECT_TRUE(why.empty() || one.key == "fuse") << why;
      } else {
        EXPECT_TRUE(Says(whole.status(), {"loop"}));
      }
      const Result<CompiledPlan> inner = Compile(Looping(rounds), {std::string("relu") + said});
      if (inner.ok()) {
        EXPECT_EQ(WhyItDoesNotHold(inner->plan, options_.annotations[0]), "") << rounds;
      } else {
        EXPECT_TRUE(Says(inner.status(), {"relu", "loop"}));
      }
    }
  }
  ExpectRefused(Looping(40), {"tanh:stream=1"}, {"Tanh \"tanh\"", "one stream: annotate the loop"});
}

TEST_F(Annotations, HoldOfNodesThatAreOneOperatorAgainByTheirNames) {
  // A norm as separate operators, one of which must not be fused.
  ModelMaker m;
  m.Input("x", {4, 8});
  m.Floats("eps", {}, {1e-5f});
  m.Floats("g", {8}, Numbers(8));
  m.Ints("axes", {-1});
  m.Node("Mul", {"x", "x"}, {"xx"})->set_name("square");
  m.Node("ReduceMean", {"xx", "axes"}, {"mean"})->set_name("mean");
  m.Node("Add", {"mean", "eps"}, {"plus"})->set_name("plus");
  m.Node("Sqrt", {"plus"}, {"root"})->set_name("root");
  m.Node("Div", {"x", "root"}, {"n"})->set_name("div");
  m.Node("Mul", {"n", "g"}, {"y"})->set_name("gain");
  m.Output("y");
  for (const char* node : {"square", "mean", "plus", "root", "div", "gain"}) {
    for (const char* said : {":fuse=off", ":graph=off", ":stream=1"})
      ExpectHold(m, {std::string(node) + said});
  }
}

TEST_F(Annotations, AConcatenationComputesItsOwnWhereItIsAnnotated) {
  ModelMaker m;
  m.Input("x", {4});
  m.Node("Relu", {"x"}, {"a"})->set_name("relu");
  m.Node("Exp", {"a"}, {"b"})->set_name("exp");
  Set(m.Node("Concat", {"a", "b"}, {"c"}), "axis", 0);
  m.graph()->mutable_node(2)->set_name("both");
  m.Node("Tanh", {"c"}, {"y"})->set_name("last");
  m.Output("y");
  for (const char* said : {"both:fuse=off", "both:graph=off", "both:stream=1"}) ExpectHold(m, {said});
  const Result<CompiledPlan> compiled = Compile(m, {"both:fuse=off"});
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(StepsOf(compiled->plan, "both").size(), 1u);
}

TEST_F(Annotations, HoldOfWholeModelsOnEveryDeviceAndInEveryPrecision) {
  struct Case {
    const char* model;
    uint32_t tensor_parallel, pipeline_parallel;
    Precision precision;
  };
  constexpr Case kCases[] = {{"bert_ts17", 0, 0, Precision::kF32},
                             {"bert_ts17", 2, 0, Precision::kBF16},
                             {"llama_decode_op23", 2, 0, Precision::kF32},
                             {"llama_decode_op23", 0, 2, Precision::kF32},
                             {"unet_op23", 0, 0, Precision::kF16}};
  for (const Case& c : kCases) {
    CompileOptions options;
    options.models = {{"main", SourceFolder() + "/tests/data/fixtures/" + c.model + "/model.onnx"}};
    options.annotations = {{"*", "fuse", "off"}, {"*", "stream", "1"}};
    options.tensor_parallel = c.tensor_parallel;
    options.pipeline_parallel = c.pipeline_parallel;
    options.precision = c.precision;
    const Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << c.model << ": " << compiled.status().message();
    for (const Step& step : compiled->plan.programs[0].steps) {
      if (step.kind != StepKind::kLaunch || step.source == kNone) continue;
      EXPECT_LE(NodesOf(compiled->plan, step).size(), 1u)
          << c.model << ": " << compiled->plan.sources[step.source];
    }
  }
}

}  // namespace
}  // namespace rondo
