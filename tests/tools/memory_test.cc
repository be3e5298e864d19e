// If memory runs out anywhere, every command ends with a sentence and an exit status.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

const std::string kRondo = RONDO_COMMAND;

class WithLittleMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelMaker m;
    m.Input("x", {8});
    std::string last = "x";
    for (int i = 0; i < 400; ++i) {
      const std::string n = std::to_string(i);
      m.Floats("c" + n, {8}, std::vector<float>(8, static_cast<float>(i)));
      m.Node(i % 2 == 0 ? "Add" : "Mul", {last, "c" + n}, {"y" + n});
      last = "y" + n;
      if (i % 4 == 0) m.Output(last);
    }
    m.Output(last);
    std::ofstream(At("model.onnx"), std::ios::binary) << m.proto.SerializeAsString();
    ASSERT_EQ(Shell(kRondo + " compile " + At("model.onnx") + " -o " + At("model.rondo")).status, 0);
  }

  std::string At(const std::string& name) const { return folder_.File(name); }

  Outcome Within(int kilobytes, const std::string& command) const {
    // The inner shell prints messages about signals, which otherwise would go to this test's standard error.
    return Shell("sh -c '(ulimit -v " + std::to_string(kilobytes) + "; timeout 60 " + kRondo + " " + command +
                 " >/dev/null)'");
  }

  // Gives `command` more and more memory until it succeeds.
  void EndsWell(const std::string& command) const {
    int kilobytes = 8 << 10;  // starts below the memory for loading the program, which it cannot report
    while (kilobytes < (4 << 20) && Within(kilobytes, "--version").status != 0) kilobytes += 64;
    int refused = 0;
    for (; kilobytes < (4 << 20); kilobytes += std::max(64, kilobytes / 64)) {
      const Outcome outcome = Within(kilobytes, command);
      if (outcome.status == 0) break;
      ++refused;
      ASSERT_EQ(outcome.status, 1) << command << ", with " << kilobytes << " KiB:\n" << outcome.text;
      ASSERT_NE(outcome.text.find("rondo "), std::string::npos)
          << command << ", with " << kilobytes << " KiB:\n"
          << outcome.text;
      ASSERT_EQ(outcome.text.find("terminate"), std::string::npos) << outcome.text;
    }
    EXPECT_LT(kilobytes, 4 << 20) << command << " never has enough";
    EXPECT_GT(refused, 0) << command;
  }

  TemporaryFolder folder_;
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes of addresses
TEST_F(WithLittleMemory, CompilingEndsWithASentence) {
  EndsWell("compile " + At("model.onnx") + " -o " + At("out.rondo") + " --json");
}

TEST_F(WithLittleMemory, WritingSyntheticWeightsEndsWithASentence) {
  ModelMaker m;
  m.Input("x", {1024, 1024});
  auto* weight = m.graph()->add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(1024);
  weight->add_dims(1024);
  weight->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair("location", "w.data"), {"offset", "0"}, {"length", "4194304"}}) {
    auto* entry = weight->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Output("y");
  std::ofstream(At("synthetic.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  EndsWell("compile " + At("synthetic.onnx") + " --synthetic-weights 1 --write-synthetic " + At("w.data"));
}

TEST_F(WithLittleMemory, OtherCommandsEndWithASentence) {
  for (const char* command : {"inspect ", "inspect --json ", "inspect --steps --buffers ", "check ",
                              "check --json ", "bench --runs 1 --threads 1 "}) {
    EndsWell(command + At("model.rondo"));
  }
}
#endif

}  // namespace
}  // namespace rondo
