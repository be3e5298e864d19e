// Sums at places that data chooses, added as integers by atomic operations: exact numbers give exact sums, so
// every run has the same bits (over tests/cuda/emulated: in either order of threads).
#include <random>

#include "tests/cuda/with_gpu.h"
#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

class GpuScatter : public WithGpu {};

TEST_F(GpuScatter, SumsDoNotDependOnTheOrder) {
  constexpr int64_t kUpdates = 60000, kPlaces = 70;
  ModelMaker m;
  m.Input("data", {kPlaces, 1});
  m.Input("index", {kUpdates, 1}, kInt64);
  m.Input("x", {kUpdates, 1});
  onnx::NodeProto* node = m.Node("ScatterElements", {"data", "index", "x"}, {"y"});
  SetInt(node, "axis", 0);
  onnx::AttributeProto* reduction = node->add_attribute();
  reduction->set_name("reduction");
  reduction->set_type(onnx::AttributeProto::STRING);
  reduction->set_s("add");
  m.Output("y");
  const auto live = Live(m, driver_);
  std::mt19937 random(11);
  std::map<std::string, std::vector<double>> in;
  std::vector<double> exact;
  for (int64_t p = 0; p < kPlaces; ++p) in["data"].push_back(static_cast<double>(p));
  exact = in["data"];
  for (int64_t i = 0; i < kUpdates; ++i) {
    // Numbers of 24 bits and many magnitudes, whose sums have at most 53.
    const auto p = static_cast<size_t>(random() % kPlaces);
    const double x =
        std::ldexp(static_cast<int>(random() % (1 << 24)) - (1 << 23), static_cast<int>(random() % 12));
    in["index"].push_back(static_cast<double>(p));
    in["x"].push_back(x);
    exact[p] += x;
  }
  const Ran first = RunWith(*live, in), second = RunWith(*live, in);
  ASSERT_TRUE(first.status.ok()) << first.status.message();
  EXPECT_EQ(first.y, second.y);
  EXPECT_EQ(first.y, std::vector<float>(exact.begin(), exact.end()));
}

}  // namespace
}  // namespace rondo
