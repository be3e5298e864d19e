// `assert=finite` in generated kernels: of maps, rows, matmuls, convolutions and attention, what is not
// finite ends the run with the node and the output, and the next run is as if nothing had been.
#include <cmath>
#include <limits>

#include "tests/cuda/with_gpu.h"
#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

class GpuAssertions : public WithGpu {
 protected:
  void Expect(const ModelMaker& m, const char* node, double good, double bad, const char* seen,
              Precision precision = Precision::kF32) {
    SCOPED_TRACE(node);
    const auto live = Live(m, driver_, {{node, "assert", "finite"}}, precision);
    EXPECT_TRUE(RunWith(*live, {{"x", {good, 2}}}).status.ok());
    EXPECT_TRUE(Says(RunWith(*live, {{"x", {bad, 2}}}).status,
                     {(std::string(" \"") + node + "\" holds ").c_str(), seen}));
    EXPECT_TRUE(RunWith(*live, {{"x", {good, 2}}}).status.ok());
  }
};

TEST_F(GpuAssertions, StrikeInEveryKindOfKernel) {
  ModelMaker m;
  m.Input("x", {1, 2, 16, 32});
  m.Floats("w", {32, 32}, std::vector<float>(32 * 32, 0.25f));
  m.Floats("kernel", {2, 2, 3, 3}, std::vector<float>(36, 0.25f));
  m.Node("Sqrt", {"x"}, {"root"})->set_name("map");
  m.Node("Softmax", {"root"}, {"rows"})->set_name("rows");
  m.Node("MatMul", {"rows", "w"}, {"product"})->set_name("matmul");
  m.Node("Relu", {"product"}, {"positive"});
  m.Node("Conv", {"positive", "kernel"}, {"y"})->set_name("convolution");
  m.Output("y");
  for (const char* node : {"map", "rows", "matmul", "convolution"}) Expect(m, node, 1, -1, "NaN");
}

TEST_F(GpuAssertions, StrikeBesideAttentionAndInHalves) {
  ModelMaker m;
  m.Input("x", {1, 2, 64, 64});
  m.Floats("w", {64, 64}, std::vector<float>(64 * 64, 0.25f));
  m.Node("MatMul", {"x", "w"}, {"q"})->set_name("q");
  onnx::AttributeProto* order = m.Node("Transpose", {"x"}, {"turned"})->add_attribute();
  order->set_name("perm");
  order->set_type(onnx::AttributeProto::INTS);
  for (int64_t axis : {0, 1, 3, 2}) order->add_ints(axis);
  m.Node("MatMul", {"q", "turned"}, {"scores"});
  m.Node("Softmax", {"scores"}, {"weights"});
  m.Node("MatMul", {"weights", "x"}, {"mixed"})->set_name("attention");
  m.Node("Tanh", {"mixed"}, {"y"});
  m.Output("y");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Precision precision : {Precision::kF32, Precision::kBF16, Precision::kF16}) {
    Expect(m, "q", 1, infinity, "infinity", precision);
    Expect(m, "attention", 1, std::nan(""), "NaN", precision);
  }
}

}  // namespace
}  // namespace rondo
