// Small models that demand much work are compiled or refused within 5 s and 1 GB. tools/bench/bombs.py has
// more.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "compiler/compile.h"
#include "core/sanitized.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr double kMostSeconds = 5;
constexpr long kMostKilobytes = 1'000'000;

struct Outcome {
  std::string refusal;  // "": compiled
  double seconds = 0;   // user and system time
  long kilobytes = 0;   // peak memory
};

// Compiles in a separate process with limits, so that it cannot harm the machine.
Outcome CompileApart(const ModelMaker& m) {
  TemporaryFolder folder;
  const std::string model = folder.File("m.onnx"), said = folder.File("said");
  std::ofstream(model, std::ios::binary) << m.proto.SerializeAsString();
  EXPECT_LT(m.proto.ByteSizeLong(), size_t{1'000'000});
  const pid_t child = fork();
  if (child == 0) {
    const rlimit seconds = {20, 20}, addresses = {rlim_t{4} << 30, rlim_t{4} << 30};
    setrlimit(RLIMIT_CPU, &seconds);
    if (!kSanitized) setrlimit(RLIMIT_AS, &addresses);
    CompileOptions options;
    options.models = {{"main", model}};
    const auto compiled = Compile(options, folder.File("m.rondo"));
    if (!compiled.ok()) std::ofstream(said) << compiled.status().message();
    _exit(0);
  }
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  Outcome outcome;
  std::ifstream text(said);
  std::getline(text, outcome.refusal, '\0');
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  outcome.seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  outcome.kilobytes = usage.ru_maxrss;
  return outcome;
}

void ExpectWithinLimits(const Outcome& outcome) {
  if (kSanitized) return;
  EXPECT_LE(outcome.seconds, kMostSeconds);
  EXPECT_LE(outcome.kilobytes, kMostKilobytes);
}

void ExpectCompiles(const ModelMaker& m) {
  const Outcome outcome = CompileApart(m);
  EXPECT_EQ(outcome.refusal, "");
  ExpectWithinLimits(outcome);
}

void ExpectRefused(const ModelMaker& m, const char* what, const char* node) {
  const Outcome outcome = CompileApart(m);
  EXPECT_NE(outcome.refusal.find(what), std::string::npos) << outcome.refusal;
  EXPECT_NE(outcome.refusal.find(node), std::string::npos) << outcome.refusal;
  ExpectWithinLimits(outcome);
}

std::string V(int i) { return "v" + std::to_string(i); }

// Functions f0, f1, ..., each of which calls the next one twice, by nodes with names of `name_bytes` bytes.
ModelMaker Twice(int depth, size_t name_bytes) {
  ModelMaker m;
  m.Input("x", {4});
  m.Output("y");
  m.proto.add_opset_import()->set_domain("f");
  m.proto.mutable_opset_import(1)->set_version(1);
  for (int i = 0; i <= depth; ++i) {
    onnx::FunctionProto* function = m.proto.add_functions();
    function->set_name("f" + std::to_string(i));
    function->set_domain("f");
    function->add_input("x");
    function->add_output("y");
    *function->mutable_opset_import() = m.proto.opset_import();
    const std::string next = "f" + std::to_string(i + 1);
    if (i == depth) {
      ModelMaker::Node(function, "Neg", {"x"}, {"y"});
      continue;
    }
    for (const bool first : {true, false}) {
      onnx::NodeProto* call = ModelMaker::Node(function, next, {first ? "x" : "t"}, {first ? "t" : "y"});
      call->set_domain("f");
      call->set_name(std::string(name_bytes, first ? 'a' : 'b'));
    }
  }
  m.Node("f0", {"x"}, {"y"})->set_domain("f");
  return m;
}

TEST(Bombs, FunctionsThatCallFunctionsTwiceAreCountedAsTheyAreWrittenOut) {
  ExpectRefused(Twice(18, 1), "written out", "f0 \"f0_y\" alone stands for");
  ExpectRefused(Twice(40, 1), "written out", "f0 \"f0_y\" alone stands for");
}

TEST(Bombs, NamesWithinNamesCountInBytes) {
  ExpectRefused(Twice(13, 20'000), "bytes of names and lists", "f0 \"f0_y\" alone stands for");
}

// Nested Loops of 16 rounds each.
void AddLoop(onnx::GraphProto* graph, const std::string& x, const std::string& y, int depth) {
  onnx::NodeProto* loop = ModelMaker::Node(graph, "Loop", {"n", "go", x}, {y});
  onnx::AttributeProto* attribute = loop->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto* body = attribute->mutable_g();
  const std::string level = std::to_string(depth);
  for (const char* name : {"i", "c", "x"}) body->add_input()->set_name(name + level);
  ModelMaker::Node(body, "Identity", {"c" + level}, {"d" + level});
  if (depth > 1) {
    AddLoop(body, "x" + level, "y" + level, depth - 1);
  } else {
    ModelMaker::Node(body, "Neg", {"x" + level}, {"y" + level});
  }
  for (const char* name : {"d", "y"}) body->add_output()->set_name(name + level);
}

TEST(Bombs, LoopsWithinLoopsAreCountedAsTheyAreWrittenOut) {
  for (const int64_t rounds : {16, 17}) {
    ModelMaker m;
    m.Input("x", {4});
    m.Ints("n", {rounds});
    m.Bool("go", true);
    AddLoop(m.graph(), "x", "y", 8);
    m.Output("y");
    ExpectRefused(m, "written out, with its functions, loops", "Loop \"Loop_y\" alone stands for");
  }
}

TEST(Bombs, OutputsOfWhatManyNodesBecameTakeMemoryInProportion) {
  ModelMaker m;
  m.Input("v0", {1});
  for (int i = 0; i < 15'000; ++i) {
    m.Node("Neg", {V(i)}, {V(i + 1)});
    m.Output(V(i + 1));
  }
  ExpectCompiles(m);
}

TEST(Bombs, ViewsThatDoNotComposeCountInBytes) {
  ModelMaker m;
  m.Input("v0", {2, 3, 4});
  m.Ints("flat", {24});
  m.Ints("deep", {4, 3, 2});
  for (int i = 0; i < 4'000; ++i) {
    m.Node("Transpose", {V(i)}, {"t" + V(i)});
    m.Node("Reshape", {"t" + V(i), "flat"}, {"f" + V(i)});
    m.Node("Reshape", {"f" + V(i), "deep"}, {V(i + 1)});
  }
  m.Output(V(4'000));
  ExpectRefused(m, "bytes of names and lists", "alone stands for");
}

// Rows of a tensor are replaced again and again, each row of the updates anywhere by its index: the pairs of
// updates and places are far more than the elements.
TEST(Bombs, RowsWrittenByIndexTakeTimeInProportionToTheWrites) {
  ModelMaker m;
  m.Input("x", {25'089, 96});
  m.Input("rows", {25'088, 1}, onnx::TensorProto::INT64);
  m.Ints("first", {1});
  m.Ints("end", {25'089});
  m.Ints("zero", {0});
  m.Node("Neg", {"x"}, {"v0"});
  for (int i = 0; i < 32; ++i) {
    m.Node("Slice", {V(i), "first", "end", "zero"}, {"slice" + V(i)});
    m.Node("Exp", {"slice" + V(i)}, {"update" + V(i)});
    m.Node("ScatterND", {V(i), "rows", "update" + V(i)}, {V(i + 1)});
  }
  m.Output(V(32));
  ExpectCompiles(m);
}

// A chain of computed constants: folded up to the budget for a model of that size, and computed in each run
// from there on.
TEST(Bombs, ConstantsAreWorkedOutWithinABudget) {
  ModelMaker m;
  m.Input("x", {1});
  m.Ints("shape", {128, 128});
  m.Ints("axis", {0});
  m.Node("ConstantOfShape", {"shape"}, {"zeros"});
  m.Node("CumSum", {"zeros", "axis"}, {"v0"});
  for (int i = 0; i < 4'000; ++i) m.Node("MatMul", {V(i), "v0"}, {V(i + 1)});
  m.Node("ReduceSum", {V(4'000)}, {"sum"});
  m.Node("Add", {"x", "sum"}, {"y"});
  m.Output("y");
  ExpectCompiles(m);
}

// The same number is read again and again, and each time computed from the beginning.
TEST(Bombs, ReadingConstantsIsWithinTheBudgetAsWell) {
  ModelMaker m;
  m.Input("x", {4});
  m.Ints("shape", {20'000});
  m.Ints("one", {1});
  m.Ints("zero", {0});
  m.Node("ConstantOfShape", {"shape"}, {"zeros"});
  m.Node("CumSum", {"zeros", "zero"}, {"v0"});
  std::string x = "x";
  for (int i = 0; i < 3'000; ++i) {
    m.Node("Add", {V(i), V(i)}, {V(i + 1)});
    onnx::AttributeProto* to = m.Node("Cast", {V(i + 1)}, {"i" + V(i)})->add_attribute();
    to->set_name("to");
    to->set_type(onnx::AttributeProto::INT);
    to->set_i(onnx::TensorProto::INT64);
    m.Node("Slice", {"i" + V(i), "zero", "one"}, {"s" + V(i)});
    onnx::AttributeProto* axis = m.Node("Concat", {"s" + V(i), "s" + V(i)}, {"p" + V(i)})->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    m.Node("Pad", {x, "p" + V(i)}, {"x" + V(i)});
    x = "x" + V(i);
  }
  m.Output(x);
  ExpectRefused(m, "takes more work than a model of this size may ask for", "Pad");
}

}  // namespace
}  // namespace rondo
