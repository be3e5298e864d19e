// An If that is decided at run time: a fault in the branch that is not taken never ends the run, and the
// branch that is taken faults as without the If.
#include <gtest/gtest.h>

#include <functional>

#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

using Dims = std::vector<int64_t>;
// An operator that reads or writes at places that an index input names.
struct Indexed {
  const char* op;
  Dims data, index, updates;  // empty updates: a gather
  Dims result;
  int index_type = kInt64;
  const char* domain = "";
  std::function<void(onnx::NodeProto*)> options = {};
  double bad = 99;
};
std::ostream& operator<<(std::ostream& out, const Indexed& i) { return out << i.op; }

const Indexed kIndexed[] = {
    {"Gather", {64, 3}, {2}, {}, {2, 3}},
    {"GatherElements", {64, 3}, {2, 3}, {}, {2, 3}},
    {"GatherND", {64, 3}, {2, 1}, {}, {2, 3}},
    {"ScatterElements", {64, 3}, {2, 3}, {2, 3}, {64, 3}},
    {"ScatterND", {64, 3}, {2, 1}, {2, 3}, {64, 3}},
    {"ReverseSequence", {5, 3}, {3}, {}, {5, 3}},
    {"TensorScatter", {3, 8, 2}, {3}, {3, 1, 2}, {3, 8, 2}},
    {"RotaryEmbedding", {1, 2, 3, 4}, {1, 3}, {}, {1, 2, 3, 4}, kInt64, "com.microsoft"},
};

// Adds the node to `graph`.
template <typename Owner>
void AddRead(Owner* graph, const Indexed& i, const std::string& y) {
  std::vector<std::string> inputs = {"data", "index"};
  if (!i.updates.empty()) inputs.push_back("updates");
  if (std::string(i.op) == "TensorScatter") inputs = {"data", "updates", "index"};
  if (std::string(i.op) == "RotaryEmbedding") inputs = {"data", "index", "table", "table"};
  onnx::NodeProto* node = ModelMaker::Node(graph, i.op, inputs, {y});
  node->set_name("reader");
  node->set_domain(i.domain);
}

ModelMaker Ports(const Indexed& i) {
  ModelMaker m(24);
  onnx::OperatorSetIdProto* contrib = m.proto.add_opset_import();
  contrib->set_domain("com.microsoft");
  contrib->set_version(1);
  m.Input("condition", {1}, kBool);
  m.Input("data", i.data);
  m.Input("index", i.index, i.index_type);
  if (!i.updates.empty()) m.Input("updates", i.updates);
  if (std::string(i.op) == "RotaryEmbedding") m.Floats("table", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  m.Input("other", i.result);
  return m;
}

class BranchFaults : public testing::TestWithParam<Indexed> {};

TEST_P(BranchFaults, CountWhereTheBranchIsTaken) {
  const Indexed& i = GetParam();
  for (const bool in_then : {true, false}) {
    ModelMaker m = Ports(i);
    const Branch reads = [&](onnx::GraphProto* g) { AddRead(g, i, in_then ? "y_yes" : "y_no"); };
    const Branch other = Of("Neg", {"other"}, in_then ? "y_no" : "y_yes");
    If(m.graph(), "condition", "y", in_then ? reads : other, in_then ? other : reads);
    m.Output("y");
    const auto live = Live(m);
    std::map<std::string, std::vector<double>> in = {{"condition", {in_then ? 0.0 : 1.0}},
                                                     {"data", {1, 2, 3, 5, 8, 13, 21}},
                                                     {"index", {i.bad}},
                                                     {"updates", {7, 4}},
                                                     {"other", {10, 20, 30}}};
    Ran ran = RunWith(*live, in);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    for (size_t k = 0; k < ran.y.size(); ++k) ASSERT_EQ(ran.y[k], -10 * (1 + static_cast<double>(k % 3)));
    in["condition"] = {in_then ? 1.0 : 0.0};
    EXPECT_TRUE(Says(RunWith(*live, in).status, {"index 9", "outside [0, ", "reader"}));
    // The branch is taken with valid indices: the result is that without the If.
    in["index"] = {2, 1};
    ran = RunWith(*live, in);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    ModelMaker plain = Ports(i);
    AddRead(plain.graph(), i, "y");
    plain.Output("y");
    const Ran want = RunWith(*Live(plain), in);
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    EXPECT_EQ(ran.y, want.y);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BranchFaults, testing::ValuesIn(kIndexed),
                         [](const auto& info) { return std::string(info.param.op); });

// Both branches of both Ifs read with their own index: y = a ? (b ? t[0] : t[1]) : (b ? t[2] : t[3]).
TEST(BranchFaultsTest, NestedBranchesFaultWhereAllAroundThemAreTaken) {
  ModelMaker m;
  for (const char* name : {"a", "b"}) m.Input(name, {}, kBool);
  m.Input("data", {10});
  for (const char* name : {"i0", "i1", "i2", "i3"}) m.Input(name, {1}, kInt64);
  If(
      m.graph(), "a", "y",
      [](onnx::GraphProto* g) {
        If(g, "b", "y_yes", Of("Gather", {"data", "i0"}, "y_yes_yes"),
           Of("Gather", {"data", "i1"}, "y_yes_no"));
      },
      [](onnx::GraphProto* g) {
        If(g, "b", "y_no", Of("Gather", {"data", "i2"}, "y_no_yes"), Of("Gather", {"data", "i3"}, "y_no_no"));
      });
  m.Output("y");
  const auto live = Live(m);
  for (int taken = 0; taken < 4; ++taken) {
    std::map<std::string, std::vector<double>> in = {{"a", {taken < 2 ? 1.0 : 0.0}},
                                                     {"b", {taken % 2 == 0 ? 1.0 : 0.0}},
                                                     {"data", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}};
    for (int k = 0; k < 4; ++k) in["i" + std::to_string(k)] = {k == taken ? 4.0 + k : 1000.0 + k};
    const Ran ran = RunWith(*live, in);
    ASSERT_TRUE(ran.status.ok()) << taken << ": " << ran.status.message();
    EXPECT_EQ(ran.y[0], 4 + taken);
    in["i" + std::to_string(taken)] = {-11};
    const char* names[] = {"Gather_y_yes_yes", "Gather_y_yes_no", "Gather_y_no_yes", "Gather_y_no_no"};
    EXPECT_TRUE(Says(RunWith(*live, in).status, {"index -", names[taken]})) << taken;
  }
}

// Round r takes data[index[r]] if index[r] < 10, else -1. The body is kept as a loop, or unrolled.
void TryRounds(int64_t rounds, bool scan) {
  ModelMaker m;
  m.Input("data", {10});
  m.Input("index", {rounds}, kInt64);
  m.Ints("ten", {10});
  m.Floats("none", {1}, {-1});
  m.Ints("rounds", {rounds});
  m.Bool("go", true);
  const auto add_body = [&](onnx::GraphProto* body) {
    if (scan) {
      body->add_input()->set_name("i");
    } else {
      for (const char* name : {"r", "go_in"}) body->add_input()->set_name(name);
      ModelMaker::Node(body, "Identity", {"go_in"}, {"go_out"});
      ModelMaker::Node(body, "Gather", {"index", "r"}, {"i"});
      body->add_output()->set_name("go_out");
    }
    ModelMaker::Node(body, "Less", {"i", "ten"}, {"fits"});
    If(body, "fits", "one", Of("Gather", {"data", "i"}, "scalar"), Of("Identity", {"none"}, "one_no"));
    onnx::GraphProto* yes = body->mutable_node(body->node_size() - 1)->mutable_attribute(0)->mutable_g();
    ModelMaker::Node(yes, "Reshape", {"scalar", "one_dim"}, {"one_yes"});
    body->add_output()->set_name("one");
  };
  m.Ints("one_dim", {1});
  onnx::NodeProto* node =
      m.Node(scan ? "Scan" : "Loop",
             scan ? std::vector<std::string>{"index"} : std::vector<std::string>{"rounds", "go"}, {"y"});
  if (scan) SetInt(node, "num_scan_inputs", 1);
  add_body(Subgraph(node, "body"));
  m.Output("y");
  const auto live = Live(m);
  EXPECT_EQ(live->data().programs[0].loops.size(), rounds > 16 ? 1u : 0u);
  std::vector<double> index;
  for (int64_t r = 0; r < rounds; ++r)
    index.push_back(r % 3 == 1 ? 1e6 + static_cast<double>(r) : double(r % 10));
  std::map<std::string, std::vector<double>> in = {{"data", {0, 10, 20, 30, 40, 50, 60, 70, 80, 90}},
                                                   {"index", index}};
  const Ran ran = RunWith(*live, in);
  ASSERT_TRUE(ran.status.ok()) << ran.status.message();
  for (size_t r = 0; r < index.size(); ++r) EXPECT_EQ(ran.y[r], r % 3 == 1 ? -1 : 10.0 * double(r % 10)) << r;
  in["index"][2] = -11;  // out of range, but below ten, so the branch is taken
  EXPECT_TRUE(Says(RunWith(*live, in).status, {"index -", "Gather_scalar"}));
}
TEST(BranchFaultsTest, CountByRoundOfALoop) { TryRounds(20, false); }
TEST(BranchFaultsTest, CountByRoundOfALoopWrittenOut) { TryRounds(5, false); }
TEST(BranchFaultsTest, CountByRoundOfAScan) { TryRounds(20, true); }
TEST(BranchFaultsTest, CountByRoundOfAScanWrittenOut) { TryRounds(5, true); }

// A loop within a branch: faults of its body count only if the branch is taken.
TEST(BranchFaultsTest, CountInALoopWithinABranch) {
  ModelMaker m;
  m.Input("c", {}, kBool);
  m.Input("data", {10});
  m.Input("index", {20}, kInt64);
  m.Input("other", {20});
  If(
      m.graph(), "c", "y",
      [](onnx::GraphProto* g) {
        onnx::NodeProto* scan = ModelMaker::Node(g, "Scan", {"index"}, {"y_yes"});
        SetInt(scan, "num_scan_inputs", 1);
        onnx::GraphProto* body = Subgraph(scan, "body");
        body->add_input()->set_name("i");
        ModelMaker::Node(body, "Gather", {"data", "i"}, {"x"});
        body->add_output()->set_name("x");
      },
      Of("Identity", {"other"}, "y_no"));
  m.Output("y");
  const auto live = Live(m);
  std::map<std::string, std::vector<double>> in = {
      {"c", {0}}, {"data", {5}}, {"index", {1, 2, 3, 1e9}}, {"other", {4}}};
  const Ran ran = RunWith(*live, in);
  ASSERT_TRUE(ran.status.ok()) << ran.status.message();
  EXPECT_EQ(ran.y, std::vector<float>(20, 4));
  in["c"] = {1};
  EXPECT_TRUE(Says(RunWith(*live, in).status, {"index 1000000000", "Gather_x"}));
}

// Constant indices, none of which is valid, are a fault only if the branch is taken.
TEST(BranchFaultsTest, BadConstantIndicesFaultWhereTheyAreTaken) {
  for (const bool empty : {false, true}) {
    ModelMaker m;
    m.Input("c", {}, kBool);
    m.Input("data", {empty ? 0 : 10, 2});
    m.Input("other", {1, 2});
    m.Ints("bad", {64});
    If(m.graph(), "c", "y", Of("Gather", {"data", "bad"}, "y_yes"), Of("Identity", {"other"}, "y_no"));
    m.Output("y");
    const auto live = Live(m);
    std::map<std::string, std::vector<double>> in = {{"c", {0}}, {"data", {5}}, {"other", {4}}};
    const Ran ran = RunWith(*live, in);
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    EXPECT_EQ(ran.y, std::vector<float>(2, 4));
    in["c"] = {1};
    EXPECT_TRUE(Says(RunWith(*live, in).status, {"index ", "outside [0, ", "Gather_y_yes"})) << empty;
  }
}

}  // namespace
}  // namespace rondo
