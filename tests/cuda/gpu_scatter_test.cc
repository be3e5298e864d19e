// Sums at places that data chooses, added as integers by atomic operations: exact numbers give exact sums, so
// every run has the same bits (over tests/cuda/emulated: in either order of threads).
#include <random>

#include "tests/cuda/with_gpu.h"
#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

class GpuScatter : public WithGpu {};

// Few places are summed in shared memory first, many are not.
TEST_F(GpuScatter, SumsDoNotDependOnTheOrder) {
  struct Case {
    int type;
    int64_t places;
    int bits, magnitudes;  // of updates, whose sums the type holds
  };
  constexpr int64_t kUpdates = 60000;
  for (const Case& c :
       {Case{onnx::TensorProto::FLOAT, 70, 24, 12}, Case{onnx::TensorProto::FLOAT, 2000, 24, 12},
        Case{onnx::TensorProto::FLOAT16, 70, 2, 1}, Case{onnx::TensorProto::FLOAT16, 2000, 4, 3}}) {
    SCOPED_TRACE(c.places);
    ModelMaker m;
    m.Input("data", {c.places, 1});
    m.Input("index", {kUpdates, 1}, kInt64);
    m.Input("x", {kUpdates, 1});
    SetInt(m.Node("Cast", {"data"}, {"typed_data"}), "to", c.type);
    SetInt(m.Node("Cast", {"x"}, {"typed_x"}), "to", c.type);
    onnx::NodeProto* node = m.Node("ScatterElements", {"typed_data", "index", "typed_x"}, {"sums"});
    SetInt(node, "axis", 0);
    onnx::AttributeProto* reduction = node->add_attribute();
    reduction->set_name("reduction");
    reduction->set_type(onnx::AttributeProto::STRING);
    reduction->set_s("add");
    SetInt(m.Node("Cast", {"sums"}, {"y"}), "to", onnx::TensorProto::FLOAT);
    m.Output("y");
    const auto live = Live(m, driver_);
    std::mt19937 random(11);
    std::map<std::string, std::vector<double>> in;
    std::vector<double> exact;
    for (int64_t p = 0; p < c.places; ++p) in["data"].push_back(static_cast<double>(p % 64));
    exact = in["data"];
    for (int64_t i = 0; i < kUpdates; ++i) {
      const auto p = static_cast<size_t>(random() % static_cast<uint64_t>(c.places));
      const int whole = static_cast<int>(random() % (1u << c.bits)) - (1 << (c.bits - 1));
      const double x = std::ldexp(whole, static_cast<int>(random() % static_cast<uint64_t>(c.magnitudes)));
      in["index"].push_back(static_cast<double>(p));
      in["x"].push_back(x);
      exact[p] += x;
    }
    const Ran first = RunWith(*live, in), second = RunWith(*live, in);
    ASSERT_TRUE(first.status.ok()) << first.status.message();
    EXPECT_EQ(first.y, second.y);
    EXPECT_EQ(first.y, std::vector<float>(exact.begin(), exact.end()));
  }
}

}  // namespace
}  // namespace rondo
