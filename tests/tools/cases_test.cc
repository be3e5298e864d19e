#include "tools/rondo/cases.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/folders.h"
#include "tests/temporary_folder.h"

namespace rondo::tools {
namespace {

const std::string kData = SourceFolder() + "/tests/data";

TEST(Cases, AModelFolderHoldsItsSets) {
  auto cases = FindCases(kData + "/fixtures/bert_ts17", "");
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 1u);
  EXPECT_EQ((*cases)[0].model, kData + "/fixtures/bert_ts17/model.onnx");
  EXPECT_EQ((*cases)[0].folder, kData + "/fixtures/bert_ts17/test_data_set_0");
}

TEST(Cases, ASetItselfFindsTheModelAbove) {
  auto cases = FindCases(kData + "/fixtures/bert_ts17/test_data_set_0", "");
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 1u);
  EXPECT_EQ((*cases)[0].model, kData + "/fixtures/bert_ts17/model.onnx");
}

TEST(Cases, AModelThatLiesBesideALinkToTensorsIsTheirs) {
  namespace fs = std::filesystem;
  const std::string set = kData + "/fixtures/bert_ts17/test_data_set_0";
  TemporaryFolder folder;
  fs::create_directory_symlink(set, folder / "test_data_set_0");
  EXPECT_EQ((*FindCases(folder.string(), ""))[0].model, kData + "/fixtures/bert_ts17/model.onnx");
  std::ofstream(folder / "model.onnx") << "another";
  EXPECT_EQ((*FindCases(folder.string(), ""))[0].model, folder.File("model.onnx"));
  EXPECT_EQ((*FindCases(folder.File("test_data_set_0/"), ""))[0].model, folder.File("model.onnx"));
}

TEST(Cases, AFolderOfFoldersHoldsAllOfTheirs) {
  auto cases = FindCases(kData + "/fixtures", "");
  ASSERT_TRUE(cases.ok());
  EXPECT_GE(cases->size(), 6u);
  for (const TestCase& test : *cases) EXPECT_FALSE(test.model.empty()) << test.folder;
}

TEST(Cases, ANamedModelServesAnyFolderAndDotTestNamesItself) {
  auto named = FindCases(kData + "/pycoder/decode.test", "other.onnx");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ((*named)[0].model, "other.onnx");
  auto beside = FindCases(kData + "/pycoder/decode.test", "");
  ASSERT_TRUE(beside.ok());
  EXPECT_EQ((*beside)[0].model, kData + "/pycoder/decode.onnx");
}

TEST(Cases, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(FindCases(kData + "/nothing", "").status().code(), Code::kNotFound);
}

TEST(Cases, TensorsTakeTheirOwnNamesOrTheOrder) {
  std::vector<Tensor> tensors(2);
  tensors[0].name = "b";
  tensors[1].name = "a";
  ASSERT_TRUE(NameTensors({"a", "b"}, "input", &tensors).ok());
  EXPECT_EQ(tensors[0].name, "b");
  tensors[1].name = "b";
  ASSERT_TRUE(NameTensors({"a", "b"}, "input", &tensors).ok());
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_FALSE(NameTensors({"a"}, "input", &tensors).ok());
}

TEST(Cases, AModelsPortsAreThoseOfItsGraphWithoutInitializers) {
  auto ports = ReadModelPorts(kData + "/pycoder/decode.onnx");
  ASSERT_TRUE(ports.ok()) << ports.status().message();
  ASSERT_EQ(ports->inputs.size(), 4u);
  EXPECT_EQ(ports->inputs[0].name, "tokens");
  EXPECT_FALSE(ports->inputs[0].open);
  ASSERT_EQ(ports->outputs.size(), 3u);
  EXPECT_EQ(ports->outputs[0].name, "logits");
}

}  // namespace
}  // namespace rondo::tools
