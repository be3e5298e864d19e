// Large models: no recursion as deep as the model, no kernel beyond the kernels' limits, no exception.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "core/sanitized.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// Calls `f` on a thread with a stack of 1 MiB, as some services give their workers.
void OnASmallStack(std::function<void()> f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kSanitized ? 8 << 20 : 1 << 20);
  pthread_t thread;
  const auto run = [](void* call) -> void* {
    (*static_cast<std::function<void()>*>(call))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &f), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::string V(int i) { return "v" + std::to_string(i); }

class LargeModels : public ::testing::Test {
 protected:
  CompileOptions OptionsFor(ModelMaker* m) {
    std::ofstream out(path_, std::ios::binary);
    out << m->proto.SerializeAsString();
    CompileOptions options;
    options.models = {{"main", path_}};
    return options;
  }

  // Compiles (which also verifies and checks) on a small stack, and expects a number of steps in this range.
  void Compiles(ModelMaker* m, size_t least_steps, size_t most_steps) {
    const CompileOptions options = OptionsFor(m);
    OnASmallStack([&] {
      auto compiled = CompileToMemory(options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const PlanData& plan = compiled->plan;
      const size_t steps = compiled->report.programs[0].steps;
      EXPECT_GE(steps, least_steps);
      EXPECT_LE(steps, most_steps);
      for (const Kernel& kernel : plan.kernels) {
        EXPECT_LE(kernel.num_params, 512) << kernel.name;
        for (const Part& part : kernel.parts) EXPECT_LE(part.body.size(), static_cast<size_t>(kMaxTape));
      }
    });
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("m.onnx");
};

void Chain(ModelMaker* m, int nodes) {
  m->Input("v0", {64});
  const char* kOps[] = {"Neg", "Abs", "Exp", "Tanh"};
  for (int i = 0; i < nodes; ++i) m->Node(kOps[i % 4], {V(i)}, {V(i + 1)});
  m->Output(V(nodes));
}

TEST_F(LargeModels, AChainOfPointwiseNodesNeedsNoDeepStack) {
  ModelMaker m;
  Chain(&m, 30'000);
  Compiles(&m, 30'000 * 2 / 1024, 30'000 / 64);
}

void AddConstants(ModelMaker* m, int nodes) {
  m->Input("v0", {2});
  for (int i = 0; i < nodes; ++i) {
    m->Floats("c" + std::to_string(i), {2}, {static_cast<float>(i), 0.5f});
    m->Node("Add", {V(i), "c" + std::to_string(i)}, {V(i + 1)});
  }
  m->Output(V(nodes));
}

TEST_F(LargeModels, AdditionsOfConstantsAreSplitBeforeATapeIsFull) {
  for (int nodes : {2'048, 10'000}) {
    ModelMaker m;
    AddConstants(&m, nodes);
    Compiles(&m, static_cast<size_t>(nodes / 512), static_cast<size_t>(nodes / 16));
  }
}

// Every level reads the one below twice, through different views. As one kernel that would be 2^n
// evaluations.
TEST_F(LargeModels, ValuesSeenThroughManyViewsAreStored) {
  ModelMaker m;
  m.Input("v0", {8, 8});
  for (int i = 0; i < 64; ++i) {
    const std::string n = std::to_string(i);
    m.Ints("start" + n, {1 + i % 3});
    m.Ints("end" + n, {8});
    m.Ints("head" + n, {i % 3 + 1});
    m.Ints("zero" + n, {0});
    m.Ints("axis" + n, {i % 2});
    m.Node("Slice", {V(i), "start" + n, "end" + n, "axis" + n}, {"a" + n});
    m.Node("Slice", {V(i), "zero" + n, "head" + n, "axis" + n}, {"b" + n});
    m.Node("Concat", {"a" + n, "b" + n}, {"r" + n})->add_attribute()->set_name("axis");
    auto* axis = m.graph()->mutable_node(m.graph()->node_size() - 1)->mutable_attribute(0);
    axis->set_i(i % 2);
    axis->set_type(onnx::AttributeProto::INT);
    m.Node("Transpose", {V(i)}, {"t" + n});
    m.Node("Add", {"t" + n, V(i)}, {"s" + n});
    m.Node("Add", {"r" + n, "s" + n}, {V(i + 1)});
  }
  m.Output("v64");
  Compiles(&m, 8, 1'000);
}

TEST_F(LargeModels, ReshapesAndTransposesWithoutEnd) {
  ModelMaker m;
  m.Input("v0", {2, 3, 4});
  m.Ints("flat", {24});
  m.Ints("deep", {4, 3, 2});
  int last = 0;
  for (int i = 0; i < 300; ++i) {
    auto* node = m.Node("Transpose", {V(last)}, {V(last + 1)});
    auto* perm = node->add_attribute();
    perm->set_name("perm");
    perm->set_type(onnx::AttributeProto::INTS);
    for (int d : {1, 2, 0}) perm->add_ints(d);
    m.Node("Reshape", {V(last + 1), "flat"}, {V(last + 2)});
    m.Node("Reshape", {V(last + 2), "deep"}, {V(last + 3)});
    m.Node(i % 3 == 0 ? "Tanh" : "Neg", {V(last + 3)}, {V(last + 4)});
    last += 4;
  }
  m.Output(V(last));
  Compiles(&m, 1, 1'000);
}

TEST_F(LargeModels, ManyOutputs) {
  ModelMaker m;
  m.Input("v0", {16});
  for (int i = 0; i < 5'000; ++i) {
    m.Floats("c" + std::to_string(i), {}, {static_cast<float>(i)});
    m.Node("Mul", {"v0", "c" + std::to_string(i)}, {V(i + 1)});
    m.Output(V(i + 1));
  }
  Compiles(&m, 5'000 / 16, 5'000);
}

TEST_F(LargeModels, ConcatenationsWithinOneAnother) {
  ModelMaker m;
  m.Input("v0", {1});
  for (int i = 0; i < 1'000; ++i) {
    const std::string n = std::to_string(i);
    m.Floats("c" + n, {1}, {static_cast<float>(i)});
    m.Node("Add", {"v0", "c" + n}, {"p" + n});
    auto* axis = m.Node("Concat", {V(i), "p" + n}, {V(i + 1)})->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    axis->set_i(0);
  }
  m.Output("v1000");
  Compiles(&m, 1, 5'000);
}

// One state a layer: one row is written, and the state is read once. Every second state is also an output
// before its write.
void Caches(ModelMaker* m, int states) {
  m->Input("v0", {1, 8});
  m->Input("row", {1, 1}, onnx::TensorProto::INT64);
  m->Ints("axes", {0});
  for (int i = 0; i < states; ++i) {
    const std::string cache = "cache" + std::to_string(i);
    m->Input(cache, {4, 8});
    m->Node("ScatterND", {cache, "row", V(i)}, {cache + "_out"});
    m->Output(cache + "_out");
    m->Node("ReduceSum", {cache + "_out", "axes"}, {V(i + 1)});
    if (i % 2 == 0) continue;
    m->Node("Identity", {cache}, {cache + "_before"});
    m->Output(cache + "_before");
  }
  m->Output(V(states));
}

// CPU seconds of this thread.
double Now() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST_F(LargeModels, ManyStatesTakeTimeInProportion) {
  double seconds[2] = {1e9, 1e9};
  for (int size : {0, 1, 0}) {
    ModelMaker m;
    Caches(&m, size == 0 ? 500 : 4'000);
    const CompileOptions options = OptionsFor(&m);
    const double start = Now();
    auto compiled = CompileToMemory(options);
    seconds[size] = std::min(seconds[size], Now() - start);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(compiled->plan.programs[0].outputs.size(), static_cast<size_t>(size == 0 ? 751 : 6'001));
  }
  // Eight times as many states; quadratic growth would take sixty-four times as long.
  EXPECT_LT(seconds[1], 24 * seconds[0]) << seconds[0] << " s and " << seconds[1] << " s";
}

// Compiles in a separate process whose address space may grow by `room` bytes.
int CompileWithin(const CompileOptions& options, const std::string& plan, size_t room) {
  const pid_t child = fork();
  if (child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  statm >> pages;
  const rlim_t limit = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + room;
  const rlimit limits = {limit, limit};
  setrlimit(RLIMIT_AS, &limits);
  auto compiled = Compile(options, plan);
  if (compiled.ok()) _exit(0);
  // With hardly any memory not even the model's file can be mapped.
  const Code code = compiled.status().code();
  _exit(code == Code::kOutOfMemory || code == Code::kIo ? 1 : 2);
}

TEST_F(LargeModels, RunningOutOfMemoryIsAnError) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more addresses than this test allows";
  ModelMaker m;
  AddConstants(&m, 3'000);
  const CompileOptions options = OptionsFor(&m);
  const std::string plan = path_ + ".rondo";
  int errors = 0, done = 0;
  for (size_t room = 64 << 10; room < (size_t{256} << 20) && done == 0; room = room * 5 / 4) {
    const int status = CompileWithin(options, plan, room);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " with " << room << " bytes of room";
    ASSERT_LE(WEXITSTATUS(status), 1) << "another error with " << room << " bytes of room";
    (WEXITSTATUS(status) == 0 ? done : errors) += 1;
  }
  fs::remove(plan);
  EXPECT_GT(errors, 2);
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace rondo
