// The table of passes: the contract of each pass is checked after it, and a violation is found. Targets as
// values.
#include "compiler/pipeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/memory/plan_memory.h"
#include "tests/compile/hand_made.h"
#include "tests/folders.h"

namespace rondo {
namespace {

// A compilation of hand-made programs.
struct Made {
  CompileOptions options;
  Compilation compilation{options};
  Made() { compilation.programs.emplace_back(); }
  ProgramInWork& program() { return compilation.programs[0]; }
  std::string Broken(Invariants invariants) {
    return CheckInvariants(invariants, true, compilation, &program()).message();
  }
};

// Whole models. It leaves out the cases of single attributes, of which some must be refused; and the sources
// of kept plans, of which one has a loop, whose arena may be smaller than the schedule's estimate of its
// rounds.
std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SourceFolder() + "/tests/data")) {
    const std::string path = entry.path().string();
    const bool left_out =
        path.find("/data/plans/") != path.npos || path.find("/data/attributes/") != path.npos;
    if (entry.path().extension() == ".onnx" && !left_out) models.push_back(path);
  }
  return models;
}

// The arena has no gaps between values, and no order of the steps needs less.
Status ArenaIsLeast(const ProgramInWork& program) {
  const MemoryPlan& memory = program.planned.memory;
  if (memory.arena_bytes == memory.lower_bound && memory.lower_bound == program.schedule.least)
    return Status::Ok();
  return Status::Error(Code::kInternal, "%s; %s", program.schedule.text.c_str(), memory.text.c_str());
}

// Runs all passes with every check, except machine code, which needs a vendor's compiler.
Status RunAll(const std::string& model, const std::string& targets, Precision precision) {
  CompileOptions options;
  options.models = {{"main", model}};
  options.targets = *ParseTargets(targets);
  options.precision = precision;
  options.check_passes = true;
  if (model.find("/open_shapes/") != std::string::npos) {
    options.shapes = {{"batch_size", {1}}, {"sequence_length", {1}}};
    options.cache_length = 16;
  }
  Compilation compilation(options);
  compilation.programs.emplace_back();
  compilation.programs[0].source = options.models[0];
  for (const PipelineEntry& entry : Pipeline()) {
    std::string text;
    if (entry.once() && !compilation.options.targets.deciding().is_host() && entry.targets == For::kGpus)
      break;
    ProgramInWork* program = entry.once() ? nullptr : &compilation.programs[0];
    RONDO_RETURN_IF_ERROR(RunPass(entry, &compilation, program, &text).At("%s", entry.name));
    if (std::string_view(entry.name) == "memory") RONDO_RETURN_IF_ERROR(ArenaIsLeast(*program));
  }
  return Status::Ok();
}

TEST(Pipeline, WhatItSaysHoldsAfterEveryPassOnEveryModelAndItsArenaIsLeast) {
  ASSERT_GE(Models().size(), 5u);
  for (const std::string& model : Models()) {
    for (const char* targets : {"host", "cuda:sm_90a"}) {
      for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
        const Status status = RunAll(model, targets, precision);
        EXPECT_TRUE(status.ok()) << model << " for " << targets << ": " << status.message();
      }
    }
  }
}

TEST(Pipeline, EveryPassSaysWhatHoldsAndItsNamesAreDistinct) {
  Invariants said = 0, all = 0;
  for (const PipelineEntry& entry : Pipeline()) {
    EXPECT_NE(NamesOf(entry.holds), "") << entry.name;
    said |= entry.holds;
  }
  for (const Invariant& invariant : AllInvariants()) {
    EXPECT_EQ(all & invariant.bit, 0u) << invariant.name;
    all |= invariant.bit;
  }
  EXPECT_EQ(said, all);
}

TEST(Pipeline, APassForGpusIsLeftOutForTheHost) {
  Made made;
  const Span<const PipelineEntry> table = Pipeline();
  for (const PipelineEntry& entry : table) {
    if (entry.targets != For::kGpus || entry.once()) continue;
    std::string text;
    PipelineEntry never = entry;
    never.run = [](Compilation*, ProgramInWork*, std::string*) {
      return Status::Error(Code::kInternal, "ran");
    };
    EXPECT_TRUE(RunPass(never, &made.compilation, &made.program(), &text).ok()) << entry.name;
    EXPECT_EQ(text, "for GPUs");
    made.options.targets = *ParseTargets("host,cuda:sm_80");
    EXPECT_FALSE(RunPass(never, &made.compilation, &made.program(), &text).ok()) << entry.name;
    made.options.targets = Targets();
  }
}

TEST(Pipeline, APassThatBreaksItsPromiseIsNamedInTheError) {
  Made made;
  PipelineEntry entry = Pipeline()[0];
  entry.holds = kWellFormed | kTidy;
  entry.run = [](Compilation*, ProgramInWork* program, std::string*) {
    ir::Builder b(&program->graph);
    b.Input("x", DType::kF32, Shape({2}));
    b.Scalar(DType::kF32, 1);  // nothing reads it
    return Status::Ok();
  };
  std::string text;
  made.options.check_passes = false;
  EXPECT_TRUE(RunPass(entry, &made.compilation, &made.program(), &text).ok());
  made.program().graph = ir::Graph();
  made.options.check_passes = true;
  const Status status = RunPass(entry, &made.compilation, &made.program(), &text);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(std::string(status.message()).find("tidy: node %1 (constant) is not needed"), std::string::npos)
      << status.message();
}

// A graph y = x + x over a state x -> y, then changed by `change`.
std::string BrokenGraph(Invariants invariants, const std::function<void(ir::Graph*)>& change) {
  Made made;
  ir::Graph& graph = made.program().graph;
  ir::Builder b(&graph);
  const ir::NodeId x = b.Input("x", DType::kF32, Shape({2})), y = b.Add(x, x);
  graph.outputs.push_back({"y", y});
  graph.states.push_back({0, 0});
  EXPECT_EQ(made.Broken(kWellFormed | kTidy | kStatesNamed), "");
  change(&graph);
  return made.Broken(invariants);
}

TEST(Invariants, OfGraphs) {
  const auto has = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  has(BrokenGraph(kWellFormed, [](ir::Graph* g) { g->node(1).shape = Shape({3}); }), "well-formed: node %1");
  has(BrokenGraph(kTidy, [](ir::Graph* g) { g->node(1).dead = true; }), "is dead");
  has(BrokenGraph(kTidy, [](ir::Graph* g) { ir::Builder(g).Add(0, 0); }),
      "node %2 (pointwise) is not needed");
  has(BrokenGraph(kTidy,
                  [](ir::Graph* g) {
                    const ir::NodeId late = ir::Builder(g).Add(0, 0);
                    g->SetInput(1, 0, late);
                  }),
      "stands before what it comes after");
  has(BrokenGraph(kStatesNamed, [](ir::Graph* g) { g->states.push_back({0, 0}); }), "is two states");
  has(BrokenGraph(kStatesNamed, [](ir::Graph* g) { g->states[0].output = 1; }), "output 1");
  has(BrokenGraph(kStatesNamed, [](ir::Graph* g) { g->node(1).dtype = DType::kF16; }),
      "another shape or type");
}

// x -> t -> y in two ops, planned and in one partition, then changed by `change`.
std::string BrokenProgram(Invariants invariants, const std::function<void(PlannedProgram*)>& change) {
  Made made;
  HandMade m;
  const int x = m.Input("x", 64), t = m.Temporary(64, "t"), u = m.Temporary(64, "u"), y = m.Output("y", 64);
  m.Sum({x}, t);
  m.Sum({x, t}, u);
  m.Sum({t, u}, y);
  PlannedProgram& planned = made.program().planned;
  planned.lowered = m.Take();
  planned.memory = PlanMemory(planned.lowered);
  planned.partitions = PartitionSteps(std::vector<SeamStep>(planned.lowered.ops.size()));
  EXPECT_EQ(made.Broken(kLowered | kOrdered | kNoLoops | kPartitioned | kPlaced), "");
  change(&planned);
  return made.Broken(invariants);
}

// Three units of gathered weights, all in use by one op.
TEST(Invariants, NoMoreThanTwoUnitsOfGatheredWeights) {
  Made made;
  HandMade m;
  const int x = m.Input("x", 64), t = m.Temporary(64, "t"), u = m.Temporary(64, "u"), y = m.Output("y", 64);
  m.Sum({x}, t);
  m.Sum({x}, u);
  m.Sum({t, u}, y);
  made.program().planned.lowered = m.Take();
  made.program().gathered.units = {{{t}, 256}, {{u}, 256}};
  EXPECT_EQ(made.Broken(kTwoUnits), "");
  made.program().gathered.units = {{{t}, 256}, {}, {{u}, 256}};
  EXPECT_NE(
      made.Broken(kTwoUnits).find("\"t\" of unit 0 may still be in use when \"u\" of unit 2 is gathered"),
      std::string::npos);
}

TEST(Invariants, OfLoweredPrograms) {
  const auto has = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  has(BrokenProgram(kLowered, [](PlannedProgram* p) { p->lowered.ops[0].params[0].value = 9; }), "value 9");
  has(BrokenProgram(kOrdered, [](PlannedProgram* p) { p->lowered.ops[2].deps.clear(); }),
      "ordered: op 2 (Sum \"n2\") reads \"t\", and nothing that it depends on writes it");
  has(BrokenProgram(kOrdered, [](PlannedProgram* p) { p->lowered.ops.erase(p->lowered.ops.begin()); }),
      "\"t\"");
  has(BrokenProgram(kNoLoops, [](PlannedProgram* p) { p->lowered.ops[1].kind = LoweredKind::kLoop; }),
      "op 1");
  has(BrokenProgram(kPartitioned, [](PlannedProgram* p) { p->partitions[0].num_steps = 2; }), "2 ops of 3");
  has(BrokenProgram(kPartitioned, [](PlannedProgram* p) { p->partitions[0].first_step = 1; }),
      "begins at op 1");
  has(BrokenProgram(kPartitioned,
                    [](PlannedProgram* p) {
                      p->lowered.ops[2].kind = LoweredKind::kCollectiveWait;
                      p->lowered.ops[2].collective = 0;
                    }),
      "waits for a collective that another partition starts");
  has(BrokenProgram(kPartitioned,
                    [](PlannedProgram* p) {
                      p->lowered.ops[2].kind = LoweredKind::kCollectiveStart;
                      p->lowered.ops[2].collective = 0;
                    }),
      "outlives its partition");
  has(BrokenProgram(kPlaced, [](PlannedProgram* p) { p->memory.offsets[1] = p->memory.offsets[0]; }),
      "share memory");
  has(BrokenProgram(kPlaced, [](PlannedProgram* p) { p->memory.offsets[1] = 32; }), "lies at 32");
  has(BrokenProgram(kPlaced, [](PlannedProgram* p) { p->memory.arena_bytes = 64; }), "an arena of 64 bytes");
}

TEST(Targets, AreValuesThatSayThemselves) {
  const std::string all = "cuda:sm_80,host,cuda:sm_90a";
  const Result<Targets> targets = ParseTargets(all);
  ASSERT_TRUE(targets.ok());
  EXPECT_EQ(targets->text(), all);
  EXPECT_STREQ(targets->deciding().gpu->architecture, "sm_80");
  EXPECT_TRUE(ParseTargets("host")->deciding().is_host());
  EXPECT_STREQ(ParseTargets("host,cuda:sm_90a")->deciding().gpu->architecture, "sm_90a");
  EXPECT_EQ(Targets().text(), "host");
  for (const char* unknown : {"abacus", "", "host,", "cuda:", "cuda:sm_91", "cuda", "HOST"})
    EXPECT_EQ(ParseTargets(unknown).status().code(), Code::kUnsupported) << unknown;
  EXPECT_EQ(ParseTargets("host,cuda:sm_80,host").status().code(), Code::kInvalidArgument);
  const TargetKinds kinds = KindsOfTargets("cuda:sm_999,host");  // a GPU that only a later build knows
  EXPECT_TRUE(kinds.gpu && kinds.host);
  EXPECT_FALSE(KindsOfTargets("hostile,barracuda:x").host || KindsOfTargets("hostile,barracuda:x").gpu);
}

}  // namespace
}  // namespace rondo
