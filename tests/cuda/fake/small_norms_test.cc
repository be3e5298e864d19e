// The all-reduces that also compute the residual and norm behind them, on the cuda driver over fake_cuda.
#include <cmath>
#include <cstring>

#include "runtime/run_timer.h"
#include "tests/compile/norm_chain.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

constexpr NormChain kShort = {3, 192, 2, onnx::TensorProto::FLOAT, false, 4};
constexpr NormChain kLong = {1, 1024, 2, onnx::TensorProto::FLOAT, false, 4};

class SmallNorms : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Heal();
    fake_cuda::SetMachine({});
    Compile(kShort);
  }
  void Compile(const NormChain& chain) {
    chain_ = chain;
    Result<CompiledPlan> compiled = CompileNormChain(chain, "host");
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    compiled_ = compiled.Take();
    weights_ = AssembleWeights(compiled_);
  }

  // How to run.
  enum class Way { kGraphs, kStepwise, kTimedSteps };

  // The outputs of two runs with collectives by `kernels`. `norms` gets the number of all-reduces that also
  // computed a norm.
  std::vector<float> Run(CollectiveKernels kernels, uint32_t alignment, Way way, uint64_t* norms) {
    PlanData data = compiled_.plan;
    const FakeGpu gpu(&data, "sm_90", alignment);
    FakeSession session;
    session.collectives = kernels;
    const Status opened = session.Open(data, weights_, nullptr, 1, std::vector<uint32_t>{0, 0});
    EXPECT_TRUE(opened.ok()) << opened.message();
    if (!opened.ok()) return {};
    Tensors tensors(data, 0);
    const std::vector<float> x = Weight(1000, chain_.rows, chain_.columns, 0, 0, chain_.rows);
    for (Input& input : tensors.inputs) std::memcpy(const_cast<void*>(input.data), x.data(), input.bytes);
    RunTimer timer;
    RunOptions options;
    options.stepwise = way == Way::kStepwise;
    if (way == Way::kTimedSteps) {
      timer = RunTimer::Create(session.sessions[0], 0, TimerDetail::kSteps).Take();
      options.timer = &timer;
    }
    const uint64_t before = CountSmallNorms();
    for (int i = 0; i < 2; ++i) {
      const Status status = session.sessions[0].Run(0, Span<const Input>(tensors.inputs),
                                                    Span<const Output>(tensors.outputs), options);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    *norms = CountSmallNorms() - before;
    std::vector<float> y(x.size());
    std::memcpy(y.data(), tensors.outputs[0].data, y.size() * 4);
    return y;
  }
  static void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 + 1e-4 * std::abs(b[i])) << "at " << i;
  }

  NormChain chain_;
  CompiledPlan compiled_;
  std::vector<uint8_t> weights_;
};

TEST_F(SmallNorms, GoWithTheAllReducesBeforeThemWhereThatPays) {
  constexpr uint64_t kAll = 2u * 4 * 2;  // two runs of four on two ranks
  uint64_t norms = 0;
  const std::vector<float> apart = Run(CollectiveKernels::kSmall, 16, Way::kStepwise, &norms);
  EXPECT_EQ(norms, 0u);
  for (const CollectiveKernels kernels :
       {CollectiveKernels::kSmall, CollectiveKernels::kAuto, CollectiveKernels::kFused}) {
    ExpectNear(Run(kernels, 16, Way::kGraphs, &norms), apart);
    EXPECT_EQ(norms, kAll);
  }
}

TEST_F(SmallNorms, OfLongRowsStayApartUnlessTheyAreToGoWithThem) {
  Compile(kLong);
  uint64_t norms = 0;
  const std::vector<float> apart = Run(CollectiveKernels::kSmall, 16, Way::kGraphs, &norms);
  EXPECT_EQ(norms, 0u);
  ExpectNear(Run(CollectiveKernels::kAuto, 16, Way::kGraphs, &norms), apart);
  EXPECT_EQ(norms, 0u);
  ExpectNear(Run(CollectiveKernels::kFused, 16, Way::kGraphs, &norms), apart);
  EXPECT_EQ(norms, 2u * 4 * 2);
}

TEST_F(SmallNorms, StayWithKernelsWhoseTextAddsUpOtherwise) {
  uint64_t norms = 0;
  Run(CollectiveKernels::kFused, 0, Way::kGraphs, &norms);
  EXPECT_EQ(norms, 0u);
}

// Step by step, or if steps are timed, something comes between all-reduce and norm, so they are not fused.
TEST_F(SmallNorms, AreStepsOfTheirOwnWithoutGraphsAndWhereStepsAreTimed) {
  uint64_t norms = 0;
  const std::vector<float> graphs = Run(CollectiveKernels::kFused, 16, Way::kGraphs, &norms);
  for (const Way way : {Way::kStepwise, Way::kTimedSteps}) {
    ExpectNear(Run(CollectiveKernels::kFused, 16, way, &norms), graphs);
    EXPECT_EQ(norms, 0u);
  }
}

}  // namespace
}  // namespace rondo
