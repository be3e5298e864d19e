// `--annotate NODE:after=OTHER`: plans keep the requested order, whatever the compiler makes of the nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/streams/compiled_models.h"
#include "tests/streams/ordered_model.h"

namespace rondo {
namespace {

using defects::Results;
using Pairs = std::set<std::pair<int, int>>;

class ControlEdges : public CompiledModels {
 protected:
  // Kernels with other boundaries round at other places.
  static void ExpectNear(const Results& results, const Results& expected) {
    ASSERT_EQ(results.error, expected.error);
    ASSERT_EQ(results.bytes.size(), expected.bytes.size());
    for (size_t at = 0; at + 4 <= expected.bytes.size(); at += 4) {
      float value = 0, other = 0;
      std::memcpy(&value, &results.bytes[at], 4);
      std::memcpy(&other, &expected.bytes[at], 4);
      ASSERT_NEAR(value, other, 1e-5 * std::max(1.0f, std::abs(other))) << "at byte " << at;
    }
  }
  Status StatusOf(const ModelMaker& model, const std::vector<NodeAnnotation>& annotations) {
    CompileOptions options;
    options.annotations = annotations;
    return Compile(model, options).status();
  }
};

// The steps that come from node `name`.
std::vector<uint32_t> StepsOf(const PlanData& plan, const std::string& name) {
  std::vector<uint32_t> steps;
  for (uint32_t s = 0; s < plan.programs[0].steps.size(); ++s) {
    const uint32_t source = plan.programs[0].steps[s].source;
    if (source != kNone && plan.sources[source].find("\"" + name + "\"") != std::string_view::npos)
      steps.push_back(s);
  }
  return steps;
}

TEST_F(ControlEdges, PlansKeepEveryConsistentOrder) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 rng(seed);
    const OrderedModel model(&rng, 4 + static_cast<int>(seed % 16), seed % 3 != 0);
    const Pairs orders = model.Consistent(&rng, static_cast<int>(1 + seed % 9));
    CompileOptions options;
    Result<CompiledPlan> plain = Compile(model.maker, options);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    options.annotations = model.Annotations(orders);
    if (seed % 2 == 1) {
      for (int n = 0; n < static_cast<int>(model.reads.size()); n += 2) {
        if (model.Alive(n)) options.annotations.push_back({model.Name(n), "stream", std::to_string(n % 3)});
      }
    }
    if (seed % 5 == 4) options.tensor_parallel = 2;
    Result<CompiledPlan> ordered = Compile(model.maker, options);
    SCOPED_TRACE(seed);
    ASSERT_TRUE(ordered.ok()) << "seed " << seed << ": " << ordered.status().message();
    EXPECT_EQ(OutOfOrder(ordered->plan, model, model.Effective(orders)), "") << "seed " << seed;
    for (int n = 0; n < static_cast<int>(model.reads.size()); ++n) {
      if (model.Alive(n)) continue;
      EXPECT_TRUE(StepsOf(ordered->plan, model.Name(n)).empty()) << "seed " << seed;
    }
    if (options.tensor_parallel == 0) ExpectNear(Run(*ordered), Run(*plain));
  }
}

// One link of an error's cycle: "A "a" is to run after B "b"; B "b" reads what C "c" makes" becomes {{a, b,
// order}, {b, c, data}}.
struct Link {
  int late = 0, early = 0;
  bool order = false;
};
std::vector<Link> LinksOf(const std::string& message) {
  std::vector<Link> links;
  const std::string head = "asked for: ";
  for (size_t at = message.find(head) + head.size(); at < message.size();) {
    const size_t end = std::min(message.find("; ", at), message.size());
    const std::string text = message.substr(at, end - at);
    const auto number = [&](size_t from) {
      return std::atoi(text.c_str() + text.find_first_of("0123456789", from));
    };
    const size_t middle = std::min(text.find(" is to run after "), text.find(" reads what "));
    EXPECT_NE(middle, std::string::npos) << message;
    if (middle == std::string::npos) return {};
    links.push_back(
        {number(text.find('"')), number(text.find('"', middle)), text.find(" is to run") == middle});
    at = end + 2;
  }
  return links;
}

TEST_F(ControlEdges, ContradictionsAreRefusedWithTheirCycle) {
  int refused = 0, kept = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    const OrderedModel model(&rng, 5 + static_cast<int>(seed % 12), false);
    Pairs orders;
    const auto any = [&] { return static_cast<int>(rng() % model.reads.size()); };
    for (unsigned i = 0; i < 1 + seed % 4; ++i) orders.insert({any(), any()});
    const Status status = StatusOf(model.maker, model.Annotations(orders));
    ASSERT_EQ(status.ok(), !model.Contradicts(orders)) << "seed " << seed << ": " << status.message();
    ++(status.ok() ? kept : refused);
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    const std::vector<Link> links = LinksOf(status.message());
    ASSERT_FALSE(links.empty()) << status.message();
    const Pairs effective = model.Effective(orders);
    for (size_t i = 0; i < links.size(); ++i) {
      const auto [late, early, order] = links[i];
      EXPECT_EQ(early, links[(i + 1) % links.size()].late) << status.message();
      const auto& reads = model.reads[static_cast<size_t>(late)];
      const bool reads_it = late == early || std::find(reads.begin(), reads.end(), early) != reads.end();
      EXPECT_TRUE(order ? orders.count({late, early}) + effective.count({late, early}) > 0 : reads_it)
          << status.message();
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(kept, 50);
}

TEST_F(ControlEdges, NamesThatNoNodeHasAreNamedWithTheNearest) {
  ModelMaker m;
  m.Input("x", {4});
  m.Node("Tanh", {"x"}, {"first"});
  m.Node("Exp", {"x"}, {"second"});
  m.Output("first");
  m.Output("second");
  EXPECT_TRUE(
      Says(StatusOf(m, {{"Exp_second", "after", "Tanh_frist"}}),
           {"Exp \"Exp_second\" is to run after \"Tanh_frist\"", "the nearest name is \"Tanh_first\""}));
  EXPECT_TRUE(Says(StatusOf(m, {{"Exp_second", "after", ""}}), {"after: NODES"}));
  EXPECT_TRUE(Says(StatusOf(m, {{"Exp_second", "after", "Exp_second"}}),
                   {"Exp \"Exp_second\" is to run after Exp \"Exp_second\""}));
}

// Two independent chains, ordered one after the other: by the model's own metadata, on one stream and on two,
// and by a pattern.
TEST_F(ControlEdges, MetadataAndPatternsSayTheSame) {
  ModelMaker m;
  m.Input("x", {4, 4});
  for (const std::string side : {"a", "b"}) {
    m.Node("Softmax", {"x"}, {side + "1"});
    m.Node("Softmax", {side + "1"}, {side + "2"});
    m.Output(side + "2");
  }
  const auto follows = [&](const CompiledPlan& compiled, const std::string& late, const std::string& early) {
    const std::vector<uint32_t> a = StepsOf(compiled.plan, early), b = StepsOf(compiled.plan, late);
    ASSERT_FALSE(a.empty() || b.empty());
    EXPECT_LT(a.back(), b.front());
  };
  CompileOptions options;
  options.annotations = {{"Softmax_a*", "after", "Softmax_b*"}};
  Result<CompiledPlan> patterns = Compile(m, options);
  ASSERT_TRUE(patterns.ok()) << patterns.status().message();
  follows(*patterns, "Softmax_a1", "Softmax_b2");
  for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
    if (node.name() != "Softmax_a1") continue;
    auto* said = node.add_metadata_props();
    said->set_key("rondo.after");
    said->set_value("Softmax_b1, Softmax_b2");
  }
  Result<CompiledPlan> metadata = Compile(m, {});
  ASSERT_TRUE(metadata.ok()) << metadata.status().message();
  follows(*metadata, "Softmax_a1", "Softmax_b2");
}

// A node of a recognised pattern runs in the pattern's kernel. An order that leads out of the pattern's
// middle and back into it keeps the pattern from being recognised.
TEST_F(ControlEdges, RecognisedPatternsStandForTheirPieces) {
  ModelMaker m;
  for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 2, 4, 8});
  onnx::NodeProto* turn = m.Node("Transpose", {"k"}, {"kt"});
  onnx::AttributeProto* perm = turn->add_attribute();
  perm->set_name("perm");
  perm->set_type(onnx::AttributeProto::INTS);
  for (int64_t p : {0, 1, 3, 2}) perm->add_ints(p);
  m.Node("MatMul", {"q", "kt"}, {"scores"});
  m.Node("Softmax", {"scores"}, {"weights"});
  m.Node("MatMul", {"weights", "v"}, {"out"});
  m.Node("Softmax", {"v"}, {"other"});
  m.Output("out");
  m.Output("other");
  CompileOptions options;
  Result<CompiledPlan> plain = Compile(m, options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  const size_t steps = plain->plan.programs[0].steps.size();
  ASSERT_EQ(StepsOf(plain->plan, "MatMul_scores"), StepsOf(plain->plan, "MatMul_out"));
  const auto last = [](const CompiledPlan& plan, const std::string& name) {
    return StepsOf(plan.plan, name).back();
  };

  for (const bool later : {false, true}) {
    options.annotations = {later ? NodeAnnotation{"Softmax_other", "after", "MatMul_scores"}
                                 : NodeAnnotation{"MatMul_scores", "after", "Softmax_other"}};
    Result<CompiledPlan> ordered = Compile(m, options);
    ASSERT_TRUE(ordered.ok()) << ordered.status().message();
    EXPECT_EQ(ordered->plan.programs[0].steps.size(), steps);
    EXPECT_EQ(last(*ordered, "MatMul_scores") < last(*ordered, "Softmax_other"), later);
    EXPECT_EQ(Run(*ordered), Run(*plain));
  }
  options.annotations = {{"Softmax_other", "after", "MatMul_scores"},
                         {"MatMul_out", "after", "Softmax_other"}};
  Result<CompiledPlan> between = Compile(m, options);
  ASSERT_TRUE(between.ok()) << between.status().message();
  EXPECT_LT(last(*between, "MatMul_scores"), last(*between, "Softmax_other"));
  EXPECT_LT(last(*between, "Softmax_other"), StepsOf(between->plan, "MatMul_out").front());
}

// A dead node is removed if it is only ordered, and kept if another node needs it.
TEST_F(ControlEdges, OnlyWhatIsNeededIsKeptAlive) {
  ModelMaker m;
  m.Input("x", {4, 4});
  m.Node("Tanh", {"x"}, {"unread"});
  m.Node("Exp", {"x"}, {"out"});
  m.Output("out");
  for (const bool needs : {false, true}) {
    CompileOptions options;
    options.annotations = {{"Exp_out", needs ? "needs" : "after", "Tanh_unread"}};
    Result<CompiledPlan> plan = Compile(m, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::vector<uint32_t> unread = StepsOf(plan->plan, "Tanh_unread");
    ASSERT_EQ(unread.size(), needs ? 1u : 0u);
    if (!needs) continue;
    EXPECT_LT(unread[0], StepsOf(plan->plan, "Exp_out")[0]);
  }
}

TEST_F(ControlEdges, LoopsAndConcatenationsTakePart) {
  ModelMaker m(14);
  const int64_t steps = 40, hidden = 8;
  const auto some = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n), 0.25f); };
  m.Input("x", {steps, 1, 4});
  m.Input("z", {steps, 1, 4});
  m.Floats("w", {1, 4 * hidden, 4}, some(16 * hidden));
  m.Floats("r", {1, 4 * hidden, hidden}, some(4 * hidden * hidden));
  onnx::AttributeProto* size = m.Node("LSTM", {"x", "w", "r"}, {"y"})->add_attribute();
  size->set_name("hidden_size");
  size->set_type(onnx::AttributeProto::INT);
  size->set_i(hidden);
  m.Node("Tanh", {"x"}, {"before"});
  onnx::AttributeProto* axis = m.Node("Concat", {"x", "z"}, {"twice"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  for (const char* name : {"y", "before", "twice"}) m.Output(name);
  CompileOptions options;
  options.annotations = {{"LSTM_y", "after", "Tanh_before"}, {"Concat_twice", "after", "LSTM_y"}};
  Result<CompiledPlan> one = Compile(m, options);
  options.annotations = {{"Tanh_before", "after", "LSTM_y"}, {"LSTM_y", "after", "Concat_twice"}};
  Result<CompiledPlan> other = Compile(m, options);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status().message() << other.status().message();
  for (const char* name : {"Tanh_before", "LSTM_y", "Concat_twice"}) {
    ASSERT_FALSE(StepsOf(one->plan, name).empty()) << name;
    ASSERT_FALSE(StepsOf(other->plan, name).empty()) << name;
  }
  const auto first = [](const CompiledPlan& c, const char* name) { return StepsOf(c.plan, name).front(); };
  const auto last = [](const CompiledPlan& c, const char* name) { return StepsOf(c.plan, name).back(); };
  ASSERT_FALSE(one->plan.programs[0].loops.empty());
  EXPECT_LT(last(*one, "Tanh_before"), first(*one, "LSTM_y"));
  EXPECT_LT(last(*one, "LSTM_y"), first(*one, "Concat_twice"));
  EXPECT_LT(last(*other, "Concat_twice"), first(*other, "LSTM_y"));
  EXPECT_LT(last(*other, "LSTM_y"), first(*other, "Tanh_before"));
}

}  // namespace
}  // namespace rondo
