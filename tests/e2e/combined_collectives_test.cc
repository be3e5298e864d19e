// Small independent collectives, of all devices and of groups, become one collective with the same results,
// on virtual devices.
#include <cstring>
#include <fstream>

#include "formats/plan/check/checker.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr int64_t kElements = 128;
constexpr int kPieces = 8;

struct Kind {
  const char* name;
  std::string operation;       // of DistCollective
  std::vector<int64_t> shape;  // of the value that each collective exchanges
};

void SetText(onnx::NodeProto* node, const char* name, const std::string& text) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(text);
}

// Writes y_i = Relu(COLLECTIVE_i(x * w_i)); if `chained`, with y_{i-1} in place of x.
void Write(const Kind& kind, uint32_t device, const std::vector<int64_t>& group, bool chained,
           const std::string& path) {
  ModelMaker model;
  model.Input("x", kind.shape);
  std::string from = "x";
  for (int i = 0; i < kPieces; ++i) {
    const std::string n = std::to_string(i);
    model.Floats("w" + n, {1}, {static_cast<float>(device) * 0.5f - 0.25f * static_cast<float>(i)});
    model.Node("Mul", {from, "w" + n}, {"v" + n});
    onnx::NodeProto* node = model.Node("DistCollective", {"v" + n}, {"c" + n});
    SetText(node, "collective_operation", kind.operation);
    SetText(node, "reduce_op", kind.operation == "all_gather" ? "none" : "sum");
    if (!group.empty()) {
      onnx::AttributeProto* groups = node->add_attribute();
      groups->set_name("groups");
      groups->set_type(onnx::AttributeProto::INTS);
      for (int64_t member : group) groups->add_ints(member);
    }
    model.Node("Relu", {"c" + n}, {"y" + n});
    model.Output("y" + n);
    if (chained) from = "y" + n;
  }
  std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
}

class CombinedCollectives : public testing::TestWithParam<uint32_t> {
 protected:
  CompileOptions Model(const Kind& kind, int64_t group_size, bool chained = false) const {
    for (uint32_t d = 0; d < GetParam(); ++d) {
      std::vector<int64_t> group;
      for (int64_t m = 0; m < group_size; ++m) group.push_back(d / group_size * group_size + m);
      Write(kind, d, group, chained, folder_.File("m" + std::to_string(d) + ".onnx"));
    }
    CompileOptions options;
    options.devices = GetParam();
    options.models = {{"main", folder_.File("m{rank}.onnx")}};
    return options;
  }
  static std::vector<std::vector<uint8_t>> Run(LiveModel& model) {
    LiveModel::Buffers buffers = model.MakeBuffers(0);
    for (std::vector<uint8_t>& bytes : buffers.input_bytes) {
      for (size_t k = 0; k < bytes.size() / 4; ++k) {
        const float value = static_cast<float>(static_cast<int>(k % 13) - 6) / 4;
        std::memcpy(&bytes[4 * k], &value, 4);
      }
    }
    const Status status = model.session().Run(0, buffers.inputs, buffers.outputs, {});
    EXPECT_TRUE(status.ok()) << status.message();
    return buffers.output_bytes;
  }
  // Expects the results of one collective for each node, with `sync_points` sync points.
  void Check(const Kind& kind, int64_t group_size, size_t sync_points) {
    SCOPED_TRACE(kind.name + std::string(" in groups of ") + std::to_string(group_size));
    CompileOptions options = Model(kind, group_size);
    LiveModel combined(options, {});
    EXPECT_EQ(combined.data().programs[0].sync_points.size(), sync_points);
    EXPECT_TRUE(CheckPlan(combined.data()).ok());
    options.skip_passes = {"combine_collectives"};
    LiveModel apart(options, {});
    EXPECT_EQ(apart.data().programs[0].sync_points.size(),
              group_size == 0 ? kPieces : kPieces * static_cast<size_t>(GetParam() / group_size));
    EXPECT_EQ(Run(combined), Run(apart));
  }

  TemporaryFolder folder_;
};

const Kind kAllReduce = {"AllReduce", "all_reduce", {kElements}};
const Kind kAllGather = {"AllGather", "all_gather", {2, kElements}};
const Kind kReduceScatter = {"ReduceScatter", "reduce_scatter", {8, kElements}};

TEST_P(CombinedCollectives, OfAllDevices) {
  for (const Kind& kind : {kAllReduce, kAllGather, kReduceScatter}) Check(kind, 0, 1);
}

TEST_P(CombinedCollectives, OfGroups) {
  if (GetParam() < 4) return;  // with fewer devices a group is all of them
  for (const Kind& kind : {kAllReduce, kAllGather}) Check(kind, 2, GetParam() / 2);
}

TEST_P(CombinedCollectives, NotWhatWaitsForAnother) {
  LiveModel model(Model(kAllReduce, 0, true), {});
  EXPECT_EQ(model.data().programs[0].sync_points.size(), static_cast<size_t>(kPieces));
}

INSTANTIATE_TEST_SUITE_P(Devices, CombinedCollectives, testing::Values(2u, 4u, 8u));

}  // namespace
}  // namespace rondo
