// State that carries over from run to run, and data sets of which none ran.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "formats/tensor/tensor.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

class Runs : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }
  void WriteOne(const std::string& name, float value) const {
    Tensor tensor{name, DType::kF32, Shape{1}, std::vector<uint8_t>(4)};
    std::memcpy(tensor.bytes.data(), &value, 4);
    ASSERT_TRUE(WriteTensor(tensor, In(name + ".npy")).ok());
  }
  TemporaryFolder folder_;
};

// A state `sum` to which each run adds 1: it begins with 10, and there are four runs.
TEST_F(Runs, StateThatIsGivenCarriesOnFromRunToRun) {
  ModelMaker m;
  m.Input("x", {1});
  m.Input("sum", {1});
  m.Node("Add", {"sum", "x"}, {"sum_out"});
  m.Output("sum_out");
  std::ofstream(In("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  ASSERT_EQ(Rondo("compile " + In("m.onnx") + " --state sum:sum_out -o " + In("p")).status, 0);
  WriteOne("x", 1);
  WriteOne("sum", 10);
  const Outcome run = Rondo("run " + In("p") + " --input x=" + In("x.npy") + " --input sum=" + In("sum.npy") +
                            " --repeat 4 --output " + In("out"));
  ASSERT_EQ(run.status, 0) << run.text;
  Result<Tensor> left = ReadTensor(In("out/sum_out.npy"));
  ASSERT_TRUE(left.ok());
  float sum = 0;
  std::memcpy(&sum, left->bytes.data(), 4);
  EXPECT_EQ(sum, 14);
}

// The only data set has an output of strings, which are not read, so it is skipped.
TEST_F(Runs, TestsOfWhichNoneRanFail) {
  ModelMaker m;
  m.Input("x", {1});
  m.Node("Relu", {"x"}, {"y"});
  m.Output("y");
  const std::string set = In("case/test_data_set_0");
  std::filesystem::create_directories(set);
  std::ofstream(In("case/model.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  onnx::TensorProto text;
  text.set_data_type(onnx::TensorProto::STRING);
  text.add_dims(1);
  text.add_string_data("a");
  for (const char* name : {"input_0", "output_0"})
    std::ofstream(set + "/" + name + ".pb", std::ios::binary) << text.SerializeAsString();
  const Outcome outcome = Rondo("test " + In("case"));
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_PRINTS(outcome, "rondo test: no data set was run: all 1 that were found were skipped");
  EXPECT_PRINTS(outcome, "0 passed, 0 failed, 1 skipped\n");
  EXPECT_EQ(Rondo("test " + In("case") + " " + SourceFolder() + "/tests/data/fixtures/bert_ts17").status, 0)
      << "one that ran is enough";
}

}  // namespace
}  // namespace rondo
