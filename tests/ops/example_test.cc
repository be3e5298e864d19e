// The example of tools/examples/custom_ops used as users do: through the command, and through the C
// interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "drivers/capi/rondo_host.h"
#include "runtime/rondo.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace {

namespace fs = std::filesystem;

using rondo::Outcome;

Outcome Rondo(const std::string& arguments) {
  return rondo::Shell(std::string(RONDO_COMMAND) + " " + arguments);
}

class Example : public testing::Test {
 protected:
  void SetUp() override { MakeModel(); }
  std::string In(const std::string& name) const { return folder_.File(name); }
  std::string Trace() const {
    std::ifstream file(In("trace.txt"));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  // The model of the example's make_model.py: y = Relu(Trace(DecayedSum(total, Affine(x)))).
  void MakeModel() {
    rondo::ModelMaker model;
    auto* opset = model.proto.add_opset_import();
    opset->set_domain("com.example");
    opset->set_version(1);
    model.Input("x", {2, 4});
    model.Input("total", {2, 4});
    const auto call = [&](const char* op, const std::vector<std::string>& inputs, const char* output) {
      auto* node = model.Node(op, inputs, {output});
      node->set_domain("com.example");
      return node;
    };
    const auto set = [](auto* node, const char* name, float value) {
      auto* a = node->add_attribute();
      a->set_name(name);
      a->set_type(rondo::onnx::AttributeProto::FLOAT);
      a->set_f(value);
    };
    const auto set_text = [](auto* node, const char* name, const std::string& value) {
      auto* a = node->add_attribute();
      a->set_name(name);
      a->set_type(rondo::onnx::AttributeProto::STRING);
      a->set_s(value);
    };
    auto* affine = call("Affine", {"x"}, "scaled");
    set(affine, "scale", 2);
    set(affine, "shift", 1);
    set(call("DecayedSum", {"total", "scaled"}, "total_out"), "decay", 0.5f);
    auto* trace = call("Trace", {"total_out"}, "traced");
    set_text(trace, "label", "total");
    set_text(trace, "path", In("trace.txt"));
    model.Node("Relu", {"traced"}, {"y"});
    model.Output("y");
    model.Output("total_out");
    std::ofstream(In("model.onnx"), std::ios::binary) << model.proto.SerializeAsString();
  }

  std::string Compiled() {
    const Outcome made = Rondo("compile " + In("model.onnx") + " -o " + In("model.rondo") + " --ops " + kOps);
    EXPECT_EQ(made.status, 0) << made.text;
    return In("model.rondo");
  }

  static constexpr const char* kOps = RONDO_EXAMPLE_OPS;
  rondo::TemporaryFolder folder_;
};

// y and total after `runs` runs on x, by the definitions of the three ops.
void Reference(const std::vector<float>& x, int runs, std::vector<float>* y) {
  std::vector<float> total(x.size(), 0);
  y->assign(x.size(), 0);
  for (int r = 0; r < runs; ++r) {
    for (size_t i = 0; i < x.size(); ++i) {
      total[i] = 0.5f * total[i] + (2 * x[i] + 1);
      (*y)[i] = total[i] > 0 ? total[i] : 0;
    }
  }
}

TEST_F(Example, CompilesRunsAndShowsThroughTheCommand) {
  const std::string plan = Compiled();
  const Outcome inspected = Rondo("inspect " + plan + " --steps --wide");
  EXPECT_EQ(inspected.status, 0);
  EXPECT_PRINTS(inspected, "com.example.Affine");
  EXPECT_PRINTS(inspected, "f32[2, 4] changed; f32[2, 4]");
  EXPECT_PRINTS(inspected, "new version of input 0");
  EXPECT_PRINTS(inspected, "libexample_ops.so");
  EXPECT_PRINTS(inspected,
                "(Trace \"Trace_traced\") cannot be in a graph: it writes a line to a file at each run");
  EXPECT_PRINTS(inspected, "unsafe step");
  const Outcome json = Rondo("inspect " + plan + " --json");
  EXPECT_PRINTS(json, "\"name\": \"DecayedSum\"");
  EXPECT_PRINTS(json, "\"mode\": \"change\"");
  const Outcome checked = Rondo("check " + plan + " --ops " + kOps);
  EXPECT_EQ(checked.status, 0) << checked.text;
  EXPECT_PRINTS(checked, "3  custom ops are what their libraries say");
  const Outcome bench = Rondo("bench " + plan + " --runs 3 --ops " + kOps);
  EXPECT_EQ(bench.status, 0) << bench.text;
  EXPECT_PRINTS(bench, "com.example.Trace");
  fs::remove(In("trace.txt"));
  const Outcome none = Rondo("run " + plan + " --ops " + kOps + " --repeat 2");
  EXPECT_EQ(none.status, 1);
  EXPECT_PRINTS(none, "x");  // its input is missing, and nothing was traced
  EXPECT_EQ(Trace(), "");
}

// For a GPU, every call ends the graph before it, and inspect says why.
TEST_F(Example, PartitionsForAGpuAndTheirReasonsAreShown) {
  const Outcome made =
      Rondo("compile " + In("model.onnx") + " -o " + In("gpu.rondo") + " --target cuda:sm_90a --ops " + kOps);
  if (made.text.find("nvrtc") != std::string::npos) GTEST_SKIP() << made.text;
  ASSERT_EQ(made.status, 0) << made.text;
  const Outcome inspected = Rondo("inspect --wide " + In("gpu.rondo"));
  EXPECT_PRINTS(inspected, "4 steps in 4 partitions");
  EXPECT_PRINTS(inspected, "(DecayedSum \"DecayedSum_total_out\") cannot be in a graph: it runs on the host");
  EXPECT_PRINTS(inspected, "no: it runs on the host");
  EXPECT_PRINTS(inspected,
                "no: it writes a line to a file at each run");  // the library's own reason comes first
  const Outcome json = Rondo("inspect " + In("gpu.rondo") + " --json");
  EXPECT_PRINTS(json, "it runs on the host");
  // A plan that was made for GPUs also runs on the host, with the same library.
  const Outcome bench = Rondo("bench " + In("gpu.rondo") + " --runs 2 --driver host --ops " + kOps);
  EXPECT_EQ(bench.status, 0) << bench.text;
  EXPECT_PRINTS(bench, "4 partitions (medians)");
}

TEST_F(Example, ErrorsOfTheCommandAreSentences) {
  const std::string plan = Compiled(), model = In("model.onnx");
  const Outcome without = Rondo("compile " + model + " -o " + In("p.rondo"));
  EXPECT_EQ(without.status, 1);
  EXPECT_PRINTS(without, "com.example::Affine (\"Affine_scaled\")");
  EXPECT_PRINTS(without, "--ops LIB.so");
  const Outcome missing = Rondo("compile " + model + " -o " + In("p.rondo") + " --ops " + In("none.so"));
  EXPECT_EQ(missing.status, 1);
  EXPECT_PRINTS(missing, "none.so cannot be opened");
  const Outcome no_ops = Rondo("run " + plan + " --ops " RONDO_NO_OPS);
  EXPECT_EQ(no_ops.status, 1);
  EXPECT_PRINTS(no_ops, "is no library of ops");
  const Outcome other = Rondo("run " + plan + " --ops " RONDO_OTHER_MAJOR);
  EXPECT_EQ(other.status, 1);
  EXPECT_PRINTS(other, "was built for version 2.3 of rondo_op.h");
  const Outcome twice =
      Rondo("compile " + model + " -o " + In("p.rondo") + " --ops " + kOps + " --ops " + kOps);
  EXPECT_EQ(twice.status, 1);
  EXPECT_PRINTS(twice, "has been registered before");
  const Outcome absent = Rondo("bench " + plan);
  EXPECT_EQ(absent.status, 1);
  EXPECT_PRINTS(absent, "Affine \"Affine_scaled\": custom op \"com.example.Affine\"");
  EXPECT_PRINTS(absent, "compiled with libexample_ops.so");
  const Outcome checked = Rondo("check " + plan);  // memory is proved without the library
  EXPECT_EQ(checked.status, 0) << checked.text;
}

// --- the C interface

std::string TextOf(rondo_error* error) {
  const std::string text = rondo_error_message(error);
  rondo_error_destroy(error);
  return text;
}
#define ASSERT_FINE(call)                       \
  do {                                          \
    const std::string fine_text = TextOf(call); \
    ASSERT_EQ(fine_text, "");                   \
  } while (0)

rondo_driver* Host(std::vector<const char*> libraries) {
  rondo_host_options options = {};
  options.size = sizeof(options);
  options.op_libraries = libraries.data();
  options.num_op_libraries = libraries.size();
  return rondo_host_driver_create_with(&options);
}

TEST_F(Example, RunsThroughTheCInterface) {
  rondo_plan* plan = nullptr;
  ASSERT_FINE(rondo_plan_open(Compiled().c_str(), nullptr, &plan));
  rondo_runtime* runtime = nullptr;
  ASSERT_FINE(rondo_runtime_create(Host({kOps}), nullptr, &runtime));
  ASSERT_FINE(rondo_runtime_supports(runtime, plan));
  rondo_session* session = nullptr;
  ASSERT_FINE(rondo_session_create(runtime, plan, &session));
  std::vector<float> x = {1, -2, 3, -4, 0.5f, 0, -1, 8}, y(8), want;
  const int64_t dims[] = {2, 4};
  rondo_tensor input = RONDO_INIT(rondo_tensor), output = RONDO_INIT(rondo_tensor);
  input.name = "x";
  input.rank = 2;
  input.dims = dims;
  input.data = x.data();
  input.bytes = 32;
  output.name = "y";
  output.data = y.data();
  output.bytes = 32;
  for (int run = 1; run <= 3; ++run) {
    ASSERT_FINE(rondo_session_run(session, 0, &input, 1, &output, 1, nullptr));
    Reference(x, run, &want);
    EXPECT_EQ(y, want) << "run " << run;
  }
  const std::string trace = Trace();
  EXPECT_NE(trace.find("total: 8 elements from "), std::string::npos) << trace;
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), 3);

  x[2] = __builtin_nanf("");
  rondo_error* error = rondo_session_run(session, 0, &input, 1, &output, 1, nullptr);
  EXPECT_EQ(rondo_error_code(error), RONDO_OUT_OF_RANGE);
  EXPECT_STREQ(rondo_error_source_node(error), "Trace \"Trace_traced\"");
  EXPECT_NE(std::string(rondo_error_message(error)).find("element 2 of \"total\" is not a number"),
            std::string::npos);
  rondo_error_destroy(error);

  ASSERT_FINE(rondo_session_destroy(session));
  rondo_plan_destroy(plan);
  ASSERT_FINE(rondo_runtime_destroy(runtime));
}

TEST_F(Example, ErrorsOfTheCInterfaceAreSentences) {
  rondo_runtime* runtime = nullptr;
  EXPECT_NE(TextOf(rondo_runtime_create(Host({kOps, RONDO_NO_OPS}), nullptr, &runtime))
                .find("is no library of ops"),
            std::string::npos);
  EXPECT_NE(TextOf(rondo_runtime_create(Host({nullptr}), nullptr, &runtime)).find("path 0 is NULL"),
            std::string::npos);
  rondo_plan* plan = nullptr;
  ASSERT_FINE(rondo_plan_open(Compiled().c_str(), nullptr, &plan));
  ASSERT_FINE(rondo_runtime_create(Host({}), nullptr, &runtime));
  rondo_session* session = nullptr;
  rondo_error* error = rondo_session_create(runtime, plan, &session);
  EXPECT_EQ(rondo_error_code(error), RONDO_UNSUPPORTED);
  EXPECT_STREQ(rondo_error_source_node(error), "Affine \"Affine_scaled\"");
  rondo_error_destroy(error);
  rondo_plan_destroy(plan);
  ASSERT_FINE(rondo_runtime_destroy(runtime));
}

}  // namespace
