// `--annotate NODE:keep=together` and `NODE:region=NAME`: the steps of one region's nodes are contiguous, and
// nodes that cannot be kept together are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "compiler/schedule/keep_together.h"
#include "tests/compile/hand_made.h"
#include "tests/streams/compiled_models.h"
#include "tests/streams/ordered_model.h"

namespace rondo {
namespace {

using defects::EffectRunner;
using defects::Results;

// The region number of each node, -1 for none. Kept nodes that read each other form a region.
std::vector<int> RegionsOf(const OrderedModel& model, const std::set<int>& kept) {
  std::vector<int> region(model.reads.size(), -1);
  for (int n : kept) region[static_cast<size_t>(n)] = model.Alive(n) ? n : -1;
  for (size_t again = 0; again < region.size(); ++again) {
    for (size_t n = 0; n < region.size(); ++n) {
      for (int from : model.reads[n]) {
        int &a = region[n], &b = region[static_cast<size_t>(from)];
        if (a >= 0 && b >= 0) a = b = std::min(a, b);
      }
    }
  }
  return region;
}

// Whether regions, each run as one unit, would wait for each other or for nodes that wait for them.
bool Contradicts(const OrderedModel& model, const std::vector<int>& region) {
  const auto unit = [&](size_t n) { return region[n] >= 0 ? region[n] : static_cast<int>(n); };
  const size_t count = region.size();
  std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count, false));
  for (size_t n = 0; n < count; ++n) {
    if (!model.Alive(static_cast<int>(n))) continue;
    for (int from : model.reads[n]) {
      const auto to = static_cast<size_t>(unit(static_cast<size_t>(from)));
      if (unit(n) != static_cast<int>(to)) reaches[static_cast<size_t>(unit(n))][to] = true;
    }
  }
  for (size_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < count; ++j) reaches[i][j] = reaches[i][j] || (reaches[i][k] && reaches[k][j]);
    }
  }
  for (size_t n = 0; n < count; ++n) {
    if (reaches[n][n]) return true;
  }
  return false;
}

class KeptRegions : public CompiledModels {};

bool ComesFrom(const PlanData& plan, const Step& step, const std::string& name) {
  return step.source != kNone && plan.sources[step.source].find("\"" + name + "\"") != std::string_view::npos;
}

// The first and the last step of a region's nodes, and the number of steps.
struct Steps {
  size_t first = SIZE_MAX, last = 0, count = 0;
  std::set<uint32_t> devices;
};
std::map<int, Steps> StepsOf(const PlanData& plan, const OrderedModel& model,
                             const std::vector<int>& region) {
  std::map<int, Steps> steps;
  for (size_t s = 0; s < plan.programs[0].steps.size(); ++s) {
    const Step& step = plan.programs[0].steps[s];
    if (step.kind != StepKind::kLaunch) continue;
    std::set<int> of;
    for (size_t n = 0; n < region.size(); ++n) {
      if (region[n] >= 0 && ComesFrom(plan, step, model.Name(static_cast<int>(n)))) of.insert(region[n]);
    }
    for (int r : of) {
      steps[r].first = std::min(steps[r].first, s);
      steps[r].last = s;
      ++steps[r].count;
      steps[r].devices.insert(step.device);
    }
  }
  return steps;
}

std::set<int> AnyNodes(std::mt19937* rng, const OrderedModel& model, unsigned count) {
  std::set<int> kept;
  for (unsigned i = 0; i < count; ++i) kept.insert(static_cast<int>((*rng)() % model.reads.size()));
  return kept;
}

constexpr std::pair<const char*, const char*> kBoth[] = {{"keep", "together"}, {"region", "r"}};

CompileOptions Keeping(const OrderedModel& model, const std::set<int>& kept,
                       const std::pair<const char*, const char*>& how = kBoth[0]) {
  CompileOptions options;
  for (int n : kept) options.annotations.push_back({model.Name(n), how.first, how.second});
  return options;
}

TEST_F(KeptRegions, StandTogetherOrAreRefused) {
  int refused = 0, together = 0;
  for (unsigned seed = 0; seed < 250; ++seed) {
    std::mt19937 rng(seed);
    const OrderedModel model(&rng, 5 + static_cast<int>(seed % 12), false);
    const std::set<int> kept = AnyNodes(&rng, model, 2 + seed % 5);
    const std::vector<int> region = RegionsOf(model, kept);
    const auto& how = kBoth[seed / 12 % 2];
    Result<CompiledPlan> made = Compile(model.maker, Keeping(model, kept, how));
    if (how.first == kBoth[1].first && *std::max_element(region.begin(), region.end()) < 0) {
      EXPECT_NE(std::string(made.status().message()).find("no output of the model needs it"),
                std::string::npos);
      continue;  // a region whose nodes all run nothing
    }
    ASSERT_EQ(made.ok(), !Contradicts(model, region)) << "seed " << seed << ": " << made.status().message();
    if (!made.ok()) {
      ++refused;
      EXPECT_EQ(made.status().code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(made.status().message()).find("is to run after"), std::string::npos);
      continue;
    }
    for (const auto& [r, steps] : StepsOf(made->plan, model, region)) {
      EXPECT_EQ(steps.last - steps.first + 1, steps.count) << "seed " << seed << ", region of node " << r;
      together += steps.count > 1;
    }
    const Result<CompiledPlan> plain = Compile(model.maker, CompileOptions());
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(Run(*made).bytes.size(), Run(*plain).bytes.size());
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(together, 20);
}

TEST_F(KeptRegions, AreOnOneStage) {
  int checked = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    std::mt19937 rng(seed);
    const OrderedModel model(&rng, 12 + static_cast<int>(seed % 8), false);
    const std::set<int> kept = AnyNodes(&rng, model, 4);
    const std::vector<int> region = RegionsOf(model, kept);
    CompileOptions options = Keeping(model, kept, kBoth[seed % 2]);
    options.pipeline_parallel = 2;
    const Result<CompiledPlan> made = Compile(model.maker, options);
    if (!made.ok()) continue;
    for (const auto& [r, steps] : StepsOf(made->plan, model, region)) {
      if (steps.count < 2) continue;
      EXPECT_EQ(steps.devices.size(), 1u) << "seed " << seed << ", region of node " << r;
      ++checked;
    }
  }
  EXPECT_GT(checked, 10);
}

TEST_F(KeptRegions, OfWhichAGraphEndsAmidAreRefused) {
  ModelMaker model;
  model.Input("x", {8, 8});
  model.Floats("w", {8, 8}, std::vector<float>(64, 0.5f));
  model.Node("MatMul", {"x", "w"}, {"a"});
  model.Node("MatMul", {"a", "w"}, {"y"});
  model.Output("y");
  CompileOptions options;
  for (const onnx::NodeProto& node : model.proto.graph().node())
    options.annotations.push_back({node.name(), "keep", "together"});
  EXPECT_TRUE(Compile(model, options).ok());
  options.break_before = {model.proto.graph().node(1).name()};
  EXPECT_NE(std::string(Compile(model, options).status().message()).find("but a graph ends amid them"),
            std::string::npos);
  options.annotations[0].value = "apart";
  EXPECT_NE(std::string(Compile(model, options).status().message()).find("keep: together"),
            std::string::npos);
}

// A step that must run between two steps of a region joins it; other steps move out.
TEST(KeepTogetherTest, TakesInWhatMustRunBetween) {
  HandMade made;
  const int x = made.Input("x", 8), a = made.Temporary(8), b = made.Temporary(8), other = made.Temporary(8);
  const int first = made.Sum({x}, a, "first");
  made.Sum({x}, other, "beside");
  made.Sum({a}, b, "between");
  const int last = made.Sum({b}, made.Output("y", 8), "last");
  made.Sum({other}, made.Output("z", 8), "end");
  LoweredProgram program = made.Take();
  program.ops[static_cast<size_t>(first)].annotations["region"] = "#0";
  program.ops[static_cast<size_t>(last)].annotations["region"] = "#0";
  EXPECT_NE(RegionParted(program), "");
  EXPECT_EQ(KeepTogether(&program), "2 steps in #0; with 1 between them");
  EXPECT_EQ(RegionParted(program), "");
  std::vector<std::string> order;
  for (const LoweredOp& op : program.ops) {
    order.push_back(op.sources[0]);
    for (int dep : op.deps) EXPECT_LT(dep, static_cast<int>(order.size()) - 1);
  }
  EXPECT_EQ(order, std::vector<std::string>({"Sum \"beside\"", "Sum \"first\"", "Sum \"between\"",
                                             "Sum \"last\"", "Sum \"end\""}));
}

// A region inside another is contiguous within it.
TEST(KeepTogetherTest, OrdersWhatLiesInAPlace) {
  HandMade made;
  const int x = made.Input("x", 8);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) made.Sum({x}, made.Output(name, 8), name);
  LoweredProgram program = made.Take();
  const char* const regions[] = {"r#0/s#0", "", "r#0/s#1", "r#0", "r#0/s#0", "r#0/s#1"};
  for (size_t i = 0; i < 6; ++i) {
    if (*regions[i] != 0) program.ops[i].annotations["region"] = regions[i];
  }
  EXPECT_NE(RegionParted(program), "");
  KeepTogether(&program);
  EXPECT_EQ(RegionParted(program), "");
  std::string order;
  for (const LoweredOp& op : program.ops) order += op.sources[0];
  EXPECT_EQ(order, "Sum \"b\"Sum \"d\"Sum \"a\"Sum \"e\"Sum \"c\"Sum \"f\"");
}

}  // namespace
}  // namespace rondo
