// Models with collectives become one program of several devices, or are refused in a sentence.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "compiler/codegen/communicator_bytes.h"
#include "compiler/compile.h"
#include "formats/plan/check/checker.h"
#include "tests/compile/norm_chain.h"
#include "tests/compile/tensor_parallel.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

class Collectives : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.File(name); }
  CompileOptions Options(uint32_t devices, const std::string& file = "m.onnx") const {
    CompileOptions options;
    options.check_passes = true;
    options.models = {{"main", File(file)}};
    options.devices = devices;
    return options;
  }
  void ExpectError(const CompileOptions& options, const std::vector<std::string>& says) {
    auto compiled = CompileToMemory(options);
    ASSERT_FALSE(compiled.ok());
    const std::string message = compiled.status().message();
    for (const std::string& part : says) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  // Compiles one file a rank, of which `change` changes the last, and expects an error.
  void ExpectDisagreement(void (*change)(onnx::GraphProto& graph), const std::vector<std::string>& says) {
    for (int64_t rank = 0; rank < 3; ++rank) {
      TensorParallelModel model({Sharing::kFiles, 4, rank});
      model.Write(File("m" + std::to_string(rank) + ".onnx"));
    }
    TensorParallelModel last({Sharing::kFiles, 4, 3});
    change(*last.graph());
    last.Write(File("m3.onnx"));
    ExpectError(Options(4, "m{rank}.onnx"), says);
  }
  TemporaryFolder folder_;
};

onnx::NodeProto& NodeNamed(onnx::GraphProto& graph, const std::string& name) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.name() == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return *graph.mutable_node(0);
}

// The norm's kernel adds the residual to the sum of the ranks, although the next layer also reads that sum.
TEST_F(Collectives, ResidualsAreAddedInTheNormsBehindThem) {
  for (const bool layer_norm : {false, true}) {
    const NormChain chain{3, 64, 2, onnx::TensorProto::FLOAT, layer_norm, 4};
    for (uint32_t rank = 0; rank < 2; ++rank)
      NormChainModel(chain, rank).Write(File("m" + std::to_string(rank) + ".onnx"));
    auto compiled = CompileToMemory(Options(2, "m{rank}.onnx"));
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    uint32_t launches = 0;
    for (const Step& step : compiled->plan.programs[0].steps) launches += step.kind == StepKind::kLaunch;
    EXPECT_EQ(launches, 2u * (1 + 4));  // each device has a first scaling and a kernel for each norm
  }
}

TEST_F(Collectives, OneModelForAllDevices) {
  for (uint32_t devices : {2u, 4u, 8u}) {
    TensorParallelModel({Sharing::kAttributes, devices}).Write(File("m.onnx"));
    auto compiled = CompileToMemory(Options(devices));
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const PlanData& plan = compiled->plan;
    ASSERT_EQ(plan.requirements.devices.size(), devices);
    const Program& program = plan.programs[0];
    ASSERT_EQ(program.sync_points.size(), 3u);
    EXPECT_EQ(program.sync_points[0].op, CollectiveOp::kAllReduce);
    EXPECT_EQ(program.sync_points[2].op, CollectiveOp::kAllGather);
    EXPECT_EQ(program.sync_points[0].bytes, 4u * kRows * kWidth);
    EXPECT_EQ(program.sync_points[2].bytes, 4u * kRows * kWidth / devices);
    EXPECT_EQ(program.sync_points[0].participants.size(), devices);
    EXPECT_EQ(program.certificates.size(), devices);
    ASSERT_EQ(program.inputs.size(), 1u);
    EXPECT_EQ(program.inputs[0].replicas.size(), devices - 1);
    EXPECT_EQ(program.outputs.size(), devices);
    EXPECT_EQ(program.outputs[1].name, "y@1");
    EXPECT_EQ(program.partitions.size(), devices);
    const uint64_t weights = 4 * (2 * 2 * kWidth * kHidden + kWidth * kWidth) / devices;
    for (const DeviceBytes& device : plan.requirements.devices) EXPECT_EQ(device.weights, weights);
  }
}

TEST_F(Collectives, EachDevicesShareIsComputedWhereItIsGathered) {
  TensorParallelModel({Sharing::kAttributes, 4}).Write(File("m.onnx"));
  auto compiled = CompileToMemory(Options(4));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const Program& program = compiled->plan.programs[0];
  uint32_t gathers = 0;
  for (const Step& step : program.steps) {
    if (step.kind != StepKind::kCollectiveStart ||
        program.sync_points[step.sync_point].op != CollectiveOp::kAllGather)
      continue;
    ++gathers;
    EXPECT_EQ(step.bindings[0].buffer, step.bindings[1].buffer);
    EXPECT_EQ(step.bindings[0].offset, step.device * program.sync_points[step.sync_point].bytes);
    EXPECT_EQ(step.bindings[1].offset, 0u);
  }
  EXPECT_EQ(gathers, 4u);
}

// By an attribute each device gets the share that its own file would hold.
TEST_F(Collectives, EachDeviceHoldsItsShare) {
  TensorParallelModel({Sharing::kAttributes, 4}).Write(File("m.onnx"));
  auto shared = CompileToMemory(Options(4));
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  for (const char* name : {"up0", "down0"}) {
    for (uint32_t device = 0; device < 4; ++device) {
      TensorParallelModel file({Sharing::kFiles, 4, device});
      const onnx::TensorProto* expected = nullptr;
      for (const auto& t : file.graph()->initializer()) expected = t.name() == name ? &t : expected;
      bool found = false;
      for (size_t b = 0; b < shared->plan.buffers.size(); ++b) {
        const Buffer& buffer = shared->plan.buffers[b];
        if (buffer.name != name || buffer.device != device) continue;
        found = true;
        const auto bytes = shared->constant_bytes[b];
        ASSERT_EQ(bytes.size(), expected->float_data_size() * 4u);
        EXPECT_EQ(std::memcmp(bytes.data(), expected->float_data().data(), bytes.size()), 0);
      }
      EXPECT_TRUE(found) << name;
    }
  }
}

// Query, key and value in one weight: each device gets its part of every segment.
TEST_F(Collectives, SegmentsAreSharedOutOneByOne) {
  TensorParallelModel model({Sharing::kAttributes, 2});
  auto* mark = model.graph()->mutable_initializer(0)->mutable_metadata_props(0);
  mark->set_value("-1:64,32,32");
  model.Write(File("m.onnx"));
  auto compiled = CompileToMemory(Options(2));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const auto& whole = model.graph()->initializer(0).float_data();
  for (size_t b = 0; b < compiled->plan.buffers.size(); ++b) {
    const Buffer& buffer = compiled->plan.buffers[b];
    if (buffer.name != "up0" || buffer.device != 1) continue;
    const float* share = reinterpret_cast<const float*>(compiled->constant_bytes[b].data());
    EXPECT_EQ(share[0], whole[32]);
    EXPECT_EQ(share[32], whole[64 + 16]);
    EXPECT_EQ(share[48], whole[96 + 16]);
    EXPECT_EQ(share[64], whole[kHidden + 32]);
  }
}

TEST_F(Collectives, EqualWeightsAreInTheFileOnce) {
  TensorParallelModel model({Sharing::kAttributes, 4});
  for (auto& t : *model.graph()->mutable_initializer()) t.clear_metadata_props();
  for (const char* gather : {"AllGather_y"}) NodeNamed(*model.graph(), gather).set_op_type("AllReduce");
  model.Write(File("m.onnx"));
  auto one = CompileToMemory(Options(1));
  CompileOptions options = Options(4);
  auto four = CompileToMemory(options);
  ASSERT_FALSE(one.ok());  // its group_size is 4
  ASSERT_TRUE(four.ok()) << four.status().message();
  const uint64_t weights = 4 * (2 * 2 * kWidth * kHidden + kWidth * kWidth);
  EXPECT_LT(four->plan.weights_bytes, weights + 6 * 4096);
  EXPECT_EQ(four->plan.requirements.devices[3].weights, weights);
}

TEST_F(Collectives, FilesOfSeveralRanksThatDisagreeAreRefused) {
  // One collective left out.
  ExpectDisagreement(
      [](onnx::GraphProto& graph) {
        auto& node = NodeNamed(graph, "AllReduce_s1");
        node.set_op_type("Identity");
        node.clear_domain();
      },
      {"device 3", "sync point 1", "AllReduce \"AllReduce_s1\""});
  // The last collective left out.
  ExpectDisagreement(
      [](onnx::GraphProto& graph) {
        auto& node = NodeNamed(graph, "AllGather_y");
        node.set_op_type("Concat");
        node.clear_domain();
        for (int i = 0; i < 3; ++i) node.add_input("columns");
        node.mutable_attribute(0)->set_i(1);
        node.mutable_attribute()->RemoveLast();
      },
      {"device 0 has 3 collectives, device 3 has 2", "sync point 2", "AllGather \"AllGather_y\""});
  // Another op.
  ExpectDisagreement(
      [](onnx::GraphProto& graph) { NodeNamed(graph, "AllGather_y").set_op_type("AllReduce"); },
      {"device 3", "sync point 2", "all-gather", "all-reduce", "AllGather_y"});
  // The same collectives in another order.
  ExpectDisagreement(
      [](onnx::GraphProto& graph) {
        NodeNamed(graph, "AllReduce_s0").set_name("other");
        NodeNamed(graph, "AllReduce_s1").set_name("AllReduce_s0");
        NodeNamed(graph, "other").set_name("AllReduce_s1");
      },
      {"device 3", "sync point 0", "AllReduce_s1", "AllReduce_s0"});
  // Another size, as from another batch.
  ExpectDisagreement(
      [](onnx::GraphProto& graph) {
        auto* dims = graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
        dims->mutable_dim(0)->set_dim_value(2);
      },
      {"input \"x\"", "f32 [4, 64] on device 0", "f32 [2, 64] on device 3"});
  // Another type.
  ExpectDisagreement(
      [](onnx::GraphProto& graph) {
        auto& node = NodeNamed(graph, "AllReduce_s0");
        node.set_input(0, "p0_half");
        node.set_output(0, "s0_half");
        auto cast = [&](const std::string& from, const std::string& to, int type) {
          auto* c = ModelMaker::Node(&graph, "Cast", {from}, {to});
          auto* attribute = c->add_attribute();
          attribute->set_name("to");
          attribute->set_type(onnx::AttributeProto::INT);
          attribute->set_i(type);
          return c;
        };
        // Casts before and after the collective.
        cast("p0", "p0_half", onnx::TensorProto::FLOAT16);
        cast("s0_half", "s0", onnx::TensorProto::FLOAT);
        auto* nodes = graph.mutable_node();
        for (const char* moved : {"Cast_p0_half", "Cast_s0"}) {
          int from = nodes->size() - 1, to = 0;
          while (nodes->Get(from).name() != moved) --from;
          while (nodes->Get(to).name() != "AllReduce_s0") ++to;
          if (std::string(moved) == "Cast_s0") ++to;
          for (; from > to; --from) nodes->SwapElements(from, from - 1);
        }
      },
      {"device 3", "sync point 0", "f32", "f16", "AllReduce_s0"});
}

TEST_F(Collectives, WhatDoesNotFitIsRefusedByName) {
  TensorParallelModel({Sharing::kAttributes, 4}).Write(File("m.onnx"));
  ExpectError(Options(0), {"AllReduce \"AllReduce_s0\"", "--devices 4"});
  ExpectError(Options(2), {"AllReduce \"AllReduce_s0\"", "group_size is 4", "for 2 devices"});
  ExpectError(Options(65), {"65 devices", "at most 64"});
  ExpectError(Options(4, "m{rank}{rank}.onnx"), {"m0{rank}.onnx"});
  struct Bad {
    const char* value;
    std::vector<std::string> says;
  };
  for (const Bad& bad : std::vector<Bad>{{"", {"\"up0\"", "AXIS"}},
                                         {"x", {"\"up0\"", "\"x\""}},
                                         {"1:", {"\"up0\"", "AXIS"}},
                                         {"1:64,", {"\"up0\"", "AXIS"}},
                                         {"1:64,-64", {"\"up0\"", "AXIS"}},
                                         {"2", {"\"up0\"", "rank is 2"}},
                                         {"-3", {"\"up0\"", "rank is 2"}},
                                         {"1:64,32", {"\"up0\"", "96 elements", "128"}},
                                         {"1:126,2", {"\"up0\"", "126", "4 equal slices"}}}) {
    TensorParallelModel model({Sharing::kAttributes, 4});
    model.graph()->mutable_initializer(0)->mutable_metadata_props(0)->set_value(bad.value);
    model.Write(File("m.onnx"));
    ExpectError(Options(4), bad.says);
  }
}

// A break that is requested between a start and its wait comes after both.
TEST_F(Collectives, PartitionsNeverCutACollective) {
  TensorParallelModel({Sharing::kAttributes, 2}).Write(File("m.onnx"));
  for (const char* node : {"AllReduce_s0", "Add_x0", "AllReduce_s1", "MatMul_p1", "AllGather_y"}) {
    CompileOptions options = Options(2);
    options.break_before = {node};
    auto compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(compiled->plan.programs[0].partitions.size(), 4u) << node;
  }
}

TEST_F(Collectives, CompilingTwiceGivesTheSamePlan) {
  TensorParallelModel({Sharing::kAttributes, 8}).Write(File("m.onnx"));
  ASSERT_TRUE(Compile(Options(8), File("a.rondo")).ok());
  ASSERT_TRUE(Compile(Options(8), File("b.rondo")).ok());
  auto bytes = [&](const std::string& name) {
    std::ifstream in(File(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(bytes("a.rondo"), bytes("b.rondo"));
}

// The requirements state the memory that NCCL will take on a device, by the groups that the device is in.
TEST(CommunicatorMemory, GrowsWithTheGroupsOfADevice) {
  const uint32_t all[] = {0, 1, 2}, pair[] = {0, 1};
  SyncPoint of_all, other_of_all, of_pair;
  of_all.participants = other_of_all.participants = all;
  other_of_all.communicator = 1;  // the same devices are one group
  of_pair.participants = pair;
  of_pair.communicator = 2;
  const SyncPoint first[] = {of_all, other_of_all}, second[] = {of_all, of_pair};
  Program programs[2];
  programs[0].sync_points = first;
  programs[1].sync_points = second;
  const Span<const Program> both(programs, 2);
  EXPECT_EQ(CommunicatorBytes(both, 0), kNcclKernelBytes + 2 * kNcclGroupBytes);
  EXPECT_EQ(CommunicatorBytes(both, 2), kNcclKernelBytes + kNcclGroupBytes);
  EXPECT_EQ(CommunicatorBytes(both, 3), 0u);
}

}  // namespace
}  // namespace rondo
