// A model's own device configurations are obeyed: weights and values have the given shardings, stages are the
// given ones, and a contradiction is an error that names the node.
#include <cmath>
#include <cstring>
#include <fstream>

#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr int64_t kTokens = 4, kSize = 64, kInner = 128;

// y = x + relu(x up) down, twice.
class HintedModel : public ModelMaker {
 public:
  explicit HintedModel(int64_t size = kSize, int64_t inner = kInner) {
    Input("x", {kTokens, size});
    std::string x = "x";
    for (const std::string n : {"0", "1"}) {
      Weight("up" + n, {size, inner}, n == "0" ? 3 : 7);
      Weight("down" + n, {inner, size}, n == "0" ? 5 : 9);
      Node("MatMul", {x, "up" + n}, {"h" + n});
      Node("Relu", {"h" + n}, {"a" + n});
      Node("MatMul", {"a" + n, "down" + n}, {"p" + n});
      Node("Add", {x, "p" + n}, {"x" + n});
      x = "x" + n;
    }
    Output("x1");
    proto.set_ir_version(11);
    Configuration("two", 2);
  }

  void Configuration(const std::string& name, int devices) {
    auto* configuration = proto.add_configuration();
    configuration->set_name(name);
    configuration->set_num_devices(devices);
  }
  onnx::NodeProto& NodeOf(const std::string& output) {
    for (onnx::NodeProto& node : *graph()->mutable_node()) {
      if (node.output(0) == output) return node;
    }
    ADD_FAILURE() << "no node makes " << output;
    return *graph()->mutable_node(0);
  }
  onnx::NodeDeviceConfigurationProto* Hint(const std::string& output,
                                           const std::string& configuration = "two") {
    onnx::NodeProto& node = NodeOf(output);
    if (node.device_configurations_size() == 0) node.add_device_configurations();
    auto* hint = node.mutable_device_configurations(0);
    hint->set_configuration_id(configuration);
    return hint;
  }
  // Hints, at the node that computes `output`, that `tensor` is sharded along `axis` into `shards` over
  // `devices`.
  onnx::ShardingSpecProto* Deal(const std::string& output, const std::string& tensor, int64_t axis,
                                int64_t shards, const std::vector<int64_t>& devices = {0, 1}) {
    auto* spec = Hint(output)->add_sharding_spec();
    spec->set_tensor_name(tensor);
    for (int64_t device : devices) spec->add_device(device);
    auto* dim = spec->add_sharded_dim();
    dim->set_axis(axis);
    dim->add_simple_sharding()->set_num_shards(shards);
    return spec;
  }

 private:
  void Weight(const std::string& name, const std::vector<int64_t>& dims, int seed) {
    std::vector<float> values(static_cast<size_t>(dims[0] * dims[1]));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<int>(i * 7919) % (89 + seed)) / 500.0f - 0.08f;
    Floats(name, dims, values);
  }
};

class DeviceHintsTest : public testing::Test {
 protected:
  CompileOptions Options(const HintedModel& model, uint32_t devices, uint32_t stages = 1) const {
    std::ofstream(folder_.File("m.onnx"), std::ios::binary) << model.proto.SerializeAsString();
    CompileOptions options;
    options.models = {{"main", folder_.File("m.onnx")}};
    options.tensor_parallel = devices;
    options.pipeline_parallel = stages;
    return options;
  }

  static std::vector<float> Run(LiveModel& model) {
    auto buffers = model.MakeBuffers(0);
    std::vector<float> x(buffers.input_bytes[0].size() / 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) / 13 - 0.4f;
    std::memcpy(buffers.input_bytes[0].data(), x.data(), x.size() * 4);
    const Status status =
        model.session().Run(0, Span<const Input>(buffers.inputs), Span<const Output>(buffers.outputs));
    EXPECT_TRUE(status.ok()) << status.message();
    for (const auto& bytes : buffers.output_bytes) EXPECT_EQ(bytes, buffers.output_bytes[0]);
    std::memcpy(x.data(), buffers.output_bytes[0].data(), x.size() * 4);
    return x;
  }

  // Expects that the model computes the same with its hints as without. Returns the report.
  std::string ExpectSame(const HintedModel& model, uint32_t devices, uint32_t stages = 1) {
    LiveModel one(Options(model, 1), {});
    const std::vector<float> want = Run(one);
    const CompileOptions options = Options(model, devices, stages);
    LiveModel shared(options, {});
    const std::vector<float> got = Run(shared);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
    plan_ = CompileToMemory(options).Take();
    for (const PassReport& pass : plan_.report.passes) {
      if (pass.pass == "shard") return pass.text;
    }
    return "";
  }

  int CountOf(CollectiveOp op) const {
    int count = 0;
    for (const SyncPoint& point : plan_.plan.programs[0].sync_points) count += point.op == op;
    return count;
  }

  void ExpectRefused(const HintedModel& model, std::initializer_list<const char*> says, uint32_t devices = 2,
                     uint32_t stages = 1) {
    EXPECT_TRUE(Says(CompileToMemory(Options(model, devices, stages)).status(), says));
  }

  TemporaryFolder folder_;
  CompiledPlan plan_;
};

// Columns, then rows: the search finds the same by itself.
TEST_F(DeviceHintsTest, WeightsLieAsTheModelSays) {
  HintedModel model;
  for (const std::string n : {"0", "1"}) {
    model.Deal("h" + n, "up" + n, 1, 2);
    model.Deal("p" + n, "down" + n, -2, 2);
  }
  const std::string text = ExpectSame(model, 2);
  EXPECT_EQ(CountOf(CollectiveOp::kAllReduce), 2) << text;
  EXPECT_EQ(plan_.plan.requirements.devices[1].weights, 2 * kSize * kInner * 4) << text;
  EXPECT_NE(text.find("\"two\": of 4 values that it deals out, 4 are dealt out so here"), std::string::npos)
      << text;
}

// A sharding that no search would choose: rows first, so that the wide values are summed, and the second
// weights whole on both devices.
TEST_F(DeviceHintsTest, EvenWhereThatIsDear) {
  HintedModel model;
  auto* whole = model.Hint("p0")->add_sharding_spec();
  whole->set_tensor_name("down0");
  for (int64_t device : {0, 1}) whole->add_device(device);
  model.Deal("h0", "up0", 0, 2);
  const std::string text = ExpectSame(model, 2);
  ASSERT_GT(plan_.plan.programs[0].sync_points.size(), 1u);
  EXPECT_EQ(plan_.plan.programs[0].sync_points[0].op, CollectiveOp::kAllReduce) << text;
  EXPECT_EQ(plan_.plan.programs[0].sync_points[0].bytes, kTokens * kInner * 4u) << text;
  EXPECT_EQ(plan_.plan.requirements.devices[0].weights, (kInner + 2 * kInner + 2 * kInner) * kSize * 2u)
      << text;
}

// A value that the model declares whole is gathered where it is computed.
TEST_F(DeviceHintsTest, ValuesAreBroughtTogetherWhereTheModelSaysSo) {
  HintedModel model;
  auto* whole = model.Hint("a0")->add_sharding_spec();
  whole->set_tensor_name("a0");
  for (int64_t device : {0, 1}) whole->add_device(device);
  model.Deal("h0", "up0", 1, 2);
  const std::string text = ExpectSame(model, 2);
  EXPECT_EQ(plan_.plan.programs[0].sync_points[0].op, CollectiveOp::kAllGather) << text;
  EXPECT_EQ(plan_.plan.programs[0].sync_points[0].bytes, kTokens * kInner / 2 * 4u) << text;
}

// Two shards, each on two of four devices.
TEST_F(DeviceHintsTest, PartsOnGroupsOfDevices) {
  HintedModel model;
  model.Configuration("four", 4);
  auto* spec = model.Deal("h0", "up0", 1, 2, {-1, -2});
  model.Hint("h0", "four");
  for (int64_t group : {0, 1}) {
    auto* entry = spec->add_index_to_device_group_map();
    entry->set_key(-1 - group);
    for (int64_t i : {0, 1}) entry->add_value(2 * group + i);
  }
  const std::string text = ExpectSame(model, 4);
  const uint64_t others = 2 * kSize * kInner + kSize * kInner;  // at most
  EXPECT_LE(plan_.plan.requirements.devices[0].weights, (kSize * kInner / 2 + others) * 4) << text;
  EXPECT_NE(text.find("of 1 values that it deals out, 1 are dealt out so"), std::string::npos) << text;
  EXPECT_NE(text.find("configuration \"two\": it is for 2 devices, not 4"), std::string::npos) << text;
}

TEST_F(DeviceHintsTest, HeadsOfAJoinedAxis) {
  HintedModel model;
  auto* spec = model.Deal("h0", "up0", 1, 1);
  auto* dim = spec->mutable_sharded_dim(0);
  dim->clear_simple_sharding();
  for (const auto& [extent, shards] : {std::pair<int64_t, int64_t>{2, 1}, {8, 2}, {8, 1}}) {
    auto* simple = dim->add_simple_sharding();
    simple->set_dim_value(extent);
    simple->set_num_shards(shards);
  }
  const std::string text = ExpectSame(model, 2);
  EXPECT_NE(text.find("1 are dealt out so"), std::string::npos) << text;
}

TEST_F(DeviceHintsTest, StagesAreTheModels) {
  HintedModel model;
  model.Hint("h0")->set_pipeline_stage(0);
  model.Hint("p0")->set_pipeline_stage(1);  // in the middle of the first layer
  const std::string text = ExpectSame(model, 1, 2);
  EXPECT_EQ(plan_.plan.requirements.devices[0].weights, kSize * kInner * 4u) << text;
  EXPECT_EQ(plan_.plan.requirements.devices[1].weights, 3 * kSize * kInner * 4u) << text;
  EXPECT_NE(text.find("the stages are those of the model's configuration \"two\""), std::string::npos)
      << text;
  // The hints count only if the number of stages is the model's; otherwise the search decides.
  EXPECT_NE(ExpectSame(model, 1, 3).find("configuration \"two\": it is for 2 devices, not 3"),
            std::string::npos);
}

TEST_F(DeviceHintsTest, WhatCannotBeFollowedIsSaidAndLeftOut) {
  HintedModel uneven;
  uneven.Deal("x0", "x0", 1, 2)->mutable_sharded_dim(0)->mutable_simple_sharding(0)->set_num_shards(2);
  uneven.Deal("h0", "up0", 1, 2, {1, 0});
  const std::string text = ExpectSame(uneven, 2);
  EXPECT_NE(text.find("not followed: MatMul \"MatMul_h0\", \"up0\": its devices are not neighbours"),
            std::string::npos)
      << text;
  HintedModel two_axes;
  auto* spec = two_axes.Deal("h0", "up0", 1, 2);
  auto* dim = spec->add_sharded_dim();
  dim->set_axis(0);
  dim->add_simple_sharding()->set_num_shards(2);
  EXPECT_NE(ExpectSame(two_axes, 2).find("it is dealt out along more than one dim"), std::string::npos);
}

// Rows in two shards, each on two of four devices: the partial sums of each shard would be added twice.
TEST_F(DeviceHintsTest, AWeightThatNobodyCanUseInItsPartsIsDealtOutOtherwise) {
  HintedModel model;
  model.Configuration("four", 4);
  auto* spec = model.Deal("h0", "up0", 0, 2, {-1, -2});
  for (int64_t group : {0, 1}) {
    auto* entry = spec->add_index_to_device_group_map();
    entry->set_key(-1 - group);
    for (int64_t i : {0, 1}) entry->add_value(2 * group + i);
  }
  model.Hint("h0", "four");
  const std::string text = ExpectSame(model, 4);
  EXPECT_NE(text.find("of 1 values that it deals out, 0 are dealt out so"), std::string::npos) << text;
  EXPECT_NE(text.find("\"up0\": MatMul \"MatMul_h0\" cannot be computed in parts of it"), std::string::npos)
      << text;
}

TEST_F(DeviceHintsTest, ContradictionsAreToldByNode) {
  HintedModel unknown;
  unknown.Hint("h0", "three");
  ExpectRefused(unknown, {"MatMul_h0", "the model has no configuration \"three\""});
  HintedModel stranger;
  stranger.Deal("h0", "down1", 0, 2);
  ExpectRefused(stranger, {"MatMul_h0", "\"down1\" is no input or output of it"});
  HintedModel axis;
  axis.Deal("h0", "up0", 2, 2);
  ExpectRefused(axis, {"MatMul_h0", "\"up0\" has no axis 2 of 2"});
  HintedModel shares;
  shares.Deal("h0", "up0", 1, 2, {0});
  ExpectRefused(shares, {"MatMul_h0", "has 2 shares for 1 devices"});
  HintedModel none;
  none.Deal("h0", "up0", 1, 0);
  ExpectRefused(none, {"MatMul_h0", "\"up0\", axis 1: 0 shares; 1 or more are needed"});
  HintedModel other;
  other.Deal("h0", "up0", 1, 2)
      ->mutable_sharded_dim(0)
      ->mutable_simple_sharding(0)
      ->set_dim_value(kInner / 2);
  ExpectRefused(other, {"MatMul_h0", "\"up0\", axis 1: its dims make 64; it is 128"});
  HintedModel device;
  device.Deal("h0", "up0", 1, 2, {1, 2});
  ExpectRefused(device, {"MatMul_h0", "\"up0\" is on device 2 of 2"});
  HintedModel two;
  two.Deal("h0", "x", 1, 2);
  two.Deal("x0", "x", 0, 2);
  ExpectRefused(two, {"Add_x0", "it deals \"x\" out otherwise than MatMul \"MatMul_h0\""});
  HintedModel backwards;
  backwards.Hint("h0")->set_pipeline_stage(1);
  backwards.Hint("p0")->set_pipeline_stage(0);
  ExpectRefused(backwards, {"MatMul_p0", "is of stage 0, but comes after", "which is of stage 1"}, 1, 2);
}

// Nodes that depend only on inputs and small weights usually belong to no stage. They do if a stage would
// have nothing else. A stage without any node is reported.
TEST_F(DeviceHintsTest, StagesOfLittleWorkAreStagesToo) {
  HintedModel small(8, 16);
  small.Hint("p0")->set_pipeline_stage(0);
  small.Hint("h1")->set_pipeline_stage(1);
  EXPECT_NE(ExpectSame(small, 1, 2).find("the stages are those of the model's configuration"),
            std::string::npos);
  HintedModel gap;
  gap.Configuration("three", 3);
  gap.Hint("h0", "three")->set_pipeline_stage(0);
  gap.Hint("p1", "three")->set_pipeline_stage(2);
  ExpectRefused(gap, {"no node is of stage 1"}, 1, 3);
}

}  // namespace
}  // namespace rondo
