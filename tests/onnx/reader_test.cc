// Model files that are read, and files that are refused.
#include "formats/onnx/reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/onnx/onnx.pb.h"
#include "tests/temporary_folder.h"

namespace rondo::onnx {
namespace {

namespace fs = std::filesystem;

class ReaderTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "model"); }

  void WriteFile(const fs::path& path, size_t bytes) {
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < bytes; ++i) file.put(static_cast<char>(i));
  }

  // A model in the folder "model" with one external tensor "w" of shape [4], f32.
  Result<TensorValue> LoadExternal(const std::string& location, const char* offset = nullptr,
                                   const char* length = nullptr, bool allow_missing = false) {
    ModelProto proto;
    proto.add_opset_import()->set_version(20);
    TensorProto* w = proto.mutable_graph()->add_initializer();
    w->set_name("w");
    w->set_data_type(TensorProto::FLOAT);
    w->add_dims(4);
    w->set_data_location(TensorProto::EXTERNAL);
    auto add = [&](const char* key, const std::string& value) {
      StringStringEntryProto* entry = w->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    if (offset != nullptr) add("offset", offset);
    if (length != nullptr) add("length", length);
    std::ofstream(folder_ / "model" / "model.onnx", std::ios::binary) << proto.SerializeAsString();
    auto model = Model::Open((folder_ / "model" / "model.onnx").string());
    if (!model.ok()) return model.status();
    return (*model)->Load((*model)->proto().graph().initializer(0), allow_missing);
  }

  TemporaryFolder folder_;
};

TEST_F(ReaderTest, ExternalDataIsMappedFromTheModelsFolder) {
  WriteFile(folder_ / "model" / "w.bin", 40);
  auto value = LoadExternal("w.bin", "8", "16");
  ASSERT_TRUE(value.ok()) << value.status().message();
  ASSERT_EQ(value->bytes.size(), 16u);
  EXPECT_EQ(value->bytes[0], 8);
  EXPECT_EQ(value->shape, Shape({4}));
}

TEST_F(ReaderTest, UnalignedExternalDataIsStillAligned) {
  WriteFile(folder_ / "model" / "w.bin", 40);
  auto value = LoadExternal("w.bin", "3");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(value->bytes.data()) % 4, 0u);
  EXPECT_EQ(value->bytes[0], 3);
}

TEST_F(ReaderTest, LocationsOutsideTheFolderAreRefused) {
  WriteFile(folder_ / "outside.bin", 16);
  fs::create_symlink(folder_ / "outside.bin", folder_ / "model" / "link.bin");
  fs::create_directory_symlink(folder_, folder_ / "model" / "up");
  fs::create_directories(folder_ / "model" / "dir.bin");
  for (const std::string& location :
       {std::string("../outside.bin"), (folder_ / "outside.bin").string(), std::string("a/../../outside.bin"),
        std::string("link.bin"), std::string("up/outside.bin"), std::string("dir.bin"), std::string(""),
        std::string("."), std::string("x\0y", 3)}) {
    auto value = LoadExternal(location, nullptr, nullptr, true);
    ASSERT_FALSE(value.ok()) << location;
    EXPECT_EQ(value.status().code(), Code::kInvalidArgument) << value.status().message();
    EXPECT_NE(std::strstr(value.status().message(), "\"w\""), nullptr) << value.status().message();
  }
}

TEST_F(ReaderTest, RangesBeyondTheFileAreRefused) {
  WriteFile(folder_ / "model" / "w.bin", 20);
  EXPECT_TRUE(LoadExternal("w.bin", "4").ok());
  EXPECT_EQ(LoadExternal("w.bin", "5").status().code(), Code::kCorrupt);
  EXPECT_EQ(LoadExternal("w.bin", "18446744073709551615").status().code(), Code::kCorrupt);
  EXPECT_EQ(LoadExternal("w.bin", "99999999999999999999").status().code(), Code::kCorrupt);
  EXPECT_EQ(LoadExternal("w.bin", "-4").status().code(), Code::kCorrupt);
  EXPECT_EQ(LoadExternal("w.bin", "0", "12").status().code(), Code::kCorrupt);
}

TEST_F(ReaderTest, AMissingFileIsNamedUnlessAllowed) {
  auto value = LoadExternal("gone.bin");
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().code(), Code::kNotFound);
  EXPECT_NE(std::strstr(value.status().message(), "gone.bin"), nullptr);
  EXPECT_NE(std::strstr(value.status().message(), "\"w\""), nullptr);
  auto allowed = LoadExternal("gone.bin", nullptr, nullptr, true);
  ASSERT_TRUE(allowed.ok());
  EXPECT_TRUE(allowed->missing);
}

TEST_F(ReaderTest, APipeIsRefusedWithoutWaiting) {
  std::string command = "mkfifo " + (folder_ / "model" / "pipe").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(LoadExternal("pipe").status().code(), Code::kInvalidArgument);
}

TEST(Reader, FilesThatAreNoModelsAreErrors) {
  EXPECT_EQ(Model::Open("/nonexistent/model.onnx").status().code(), Code::kNotFound);
  for (const std::string& bytes : {std::string(), std::string("not a model"), std::string(100, '\xff')}) {
    auto model = Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".");
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), Code::kCorrupt);
  }
}

TEST(Reader, DeepNestingIsAnError) {
  ModelProto proto;
  proto.add_opset_import()->set_version(20);
  GraphProto* graph = proto.mutable_graph();
  for (int i = 0; i < 2000; ++i) graph = graph->add_node()->add_attribute()->mutable_g();
  std::string bytes = proto.SerializeAsString();
  EXPECT_EQ(Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".").status().code(),
            Code::kCorrupt);
}

TEST(Reader, ElementsMustMatchTheShape) {
  ModelProto proto;
  proto.add_opset_import()->set_version(20);
  TensorProto* t = proto.mutable_graph()->add_initializer();
  t->set_name("t");
  t->set_data_type(TensorProto::BFLOAT16);
  t->add_dims(3);
  t->add_int32_data(0x3f80);
  t->add_int32_data(0x4000);
  std::string bytes = proto.SerializeAsString();
  auto load = [&] {
    bytes = proto.SerializeAsString();
    auto model = Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".");
    return (*model)->Load((*model)->proto().graph().initializer(0), false);
  };
  EXPECT_EQ(load().status().code(), Code::kCorrupt);
  t->add_int32_data(0x4040);
  auto value = load();
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->bytes[5], 0x40);
  t->set_dims(0, -3);
  EXPECT_EQ(load().status().code(), Code::kCorrupt);
  t->set_dims(0, int64_t{1} << 61);
  EXPECT_EQ(load().status().code(), Code::kCorrupt);
  t->set_data_type(TensorProto::STRING);
  EXPECT_EQ(load().status().code(), Code::kUnsupported);
}

using Outputs = std::vector<std::string>;

template <typename Owner>
NodeProto* AddNode(Owner* owner, const std::string& reads, const std::string& gives) {
  NodeProto* node = owner->add_node();
  node->set_op_type("Relu");
  if (!reads.empty()) node->add_input(reads);
  node->add_output(gives);
  return node;
}

template <typename Owner>
Outputs OutputsOf(const Owner& owner) {
  Outputs outputs;
  for (const NodeProto& node : owner.node()) outputs.push_back(node.output(0));
  return outputs;
}

std::shared_ptr<Model> Parsed(ModelProto proto) {
  proto.add_opset_import()->set_version(20);
  const std::string bytes = proto.SerializeAsString();
  return Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".").Take();
}

// As in files of converters that put casts of inputs at the end.
TEST(Reader, NodesComeBehindWhatTheyRead) {
  ModelProto proto;
  for (const char* gives : {"a", "b", "c"})
    AddNode(proto.mutable_graph(), gives[0] == 'b' ? "cast" : "x", gives);
  AddNode(proto.mutable_graph(), "x", "cast");
  FunctionProto* function = proto.add_functions();
  AddNode(function, "q", "p");
  AddNode(function, "x", "q");
  const auto model = Parsed(proto);
  EXPECT_EQ(OutputsOf(model->proto().graph()), (Outputs{"a", "cast", "b", "c"}));
  EXPECT_EQ(OutputsOf(model->proto().functions(0)), (Outputs{"q", "p"}));
}

TEST(Reader, WhatASubgraphReadsComesBeforeItsNode) {
  ModelProto proto;
  GraphProto* inner = AddNode(proto.mutable_graph(), "x", "y")->add_attribute()->mutable_g();
  AddNode(inner, "own", "z");
  AddNode(inner, "outer", "own");
  inner->add_output()->set_name("z");
  AddNode(proto.mutable_graph(), "x", "own");  // the same name as a value of the subgraph
  AddNode(proto.mutable_graph(), "x", "outer");
  const auto model = Parsed(proto);
  ASSERT_EQ(OutputsOf(model->proto().graph()), (Outputs{"outer", "y", "own"}));
  EXPECT_EQ(OutputsOf(model->proto().graph().node(1).attribute(0).g()), (Outputs{"own", "z"}));
}

// A cycle, or a long chain in reverse order, does no harm.
TEST(Reader, NodesInAnyOrderAreSorted) {
  ModelProto proto;
  constexpr int kNodes = 100000;
  for (int i = kNodes; i > 0; --i) AddNode(proto.mutable_graph(), std::to_string(i - 1), std::to_string(i));
  AddNode(proto.mutable_graph(), "left", "right");
  AddNode(proto.mutable_graph(), "right", "left");
  const Outputs sorted = OutputsOf(Parsed(proto)->proto().graph());
  ASSERT_EQ(sorted.size(), size_t{kNodes + 2});
  for (int i = 0; i < kNodes; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], std::to_string(i + 1));
}

}  // namespace
}  // namespace rondo::onnx
