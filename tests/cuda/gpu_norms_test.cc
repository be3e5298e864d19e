// All-reduces with a residual and a norm behind them: by one kernel, by small kernels and separate ones, and
// by NCCL. The bits must be the same; the times are printed. On GPUs of their own or, if there are fewer, on
// shared ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "runtime/run_timer.h"
#include "tests/compile/norm_chain.h"
#include "tests/cuda/have_nvrtc.h"
#include "tests/cuda/rank_devices.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kRuns = 60;

// A chain compiled for all ranks together.
struct Compiled {
  // Compiles and loads the chain. Returns "" or the error.
  std::string Make(const NormChain& chain) {
    Result<CompiledPlan> made = CompileNormChain(chain, "cuda:sm_90a");
    if (!made.ok()) return made.status().message();
    compiled = made.Take();
    weights = AssembleWeights(compiled);
    Result<Plan> opened = Plan::FromData(compiled.plan, weights);
    if (!opened.ok()) return opened.status().message();
    plan = opened.Take();
    return "";
  }

  CompiledPlan compiled;
  std::vector<uint8_t> weights;
  Plan plan;
};

struct Got {
  std::vector<Bytes> outputs;  // of all ranks
  double us = 0;               // device time of one all-reduce and what follows it, the median of all runs
};

class Norms : public testing::TestWithParam<uint32_t> {
 protected:
  // The GPUs, with collectives by `kernels`; null if there are none.
  RankDevices* DevicesFor(CollectiveKernels kernels) {
    std::unique_ptr<RankDevices>& made = devices_[static_cast<size_t>(kernels)];
    if (made != nullptr) return made.get();
    Result<Driver*> driver = CreateCudaDriverFor(kernels);
    if (!driver.ok()) return nullptr;
    made = std::make_unique<RankDevices>(*driver, GetParam(), std::min((*driver)->DeviceCount(), GetParam()));
    return made.get();
  }
  // Why the test cannot run here; "" if it can.
  std::string Lack() {
    if (!HaveNvrtc()) return "libnvrtc is not on this machine";
    return DevicesFor(CollectiveKernels::kSmall) == nullptr ? "there is no GPU" : "";
  }

  static std::string Run(const NormChain& chain, const Plan& plan, RankDevices* devices, int runs,
                         bool stepwise, Got* got) {
    Result<Runtime> runtime = Runtime::Create(devices);
    if (!runtime.ok()) return runtime.status().message();
    Result<Session> session = Session::Create(*runtime, plan);
    if (!session.ok()) return session.status().message();
    Result<RunTimer> timer = RunTimer::Create(*session, 0, TimerDetail::kPartitions);
    if (!timer.ok()) return timer.status().message();
    RunOptions options;
    options.stepwise = stepwise;
    if (!stepwise) options.timer = &*timer;
    const Bytes x = InputOf(chain);
    const auto& program = plan.data().programs[0];
    std::vector<Input> inputs(program.inputs.size());
    std::vector<Output> outputs(program.outputs.size());
    std::vector<Bytes> bytes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Buffer& buffer = plan.data().buffers[program.inputs[i].buffer];
      inputs[i] = {"", static_cast<uint32_t>(i), buffer.dtype, buffer.shape, x.data(), x.size()};
    }
    for (size_t i = 0; i < outputs.size(); ++i) bytes.emplace_back(x.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const DType dtype = plan.data().buffers[program.outputs[i].buffer].dtype;
      outputs[i] = {"", static_cast<uint32_t>(i), dtype, bytes[i].data(), bytes[i].size()};
    }
    std::vector<double> times;
    for (int run = 0; run < runs; ++run) {
      const Status status = session->Run(0, Span<const Input>(inputs), Span<const Output>(outputs), options);
      if (!status.ok()) return status.message();
      if (run > 0 && bytes != got->outputs) return "another result in run " + std::to_string(run);
      got->outputs = bytes;
      if (stepwise) continue;
      const Result<TimedInterval> interval = timer->Read(0);
      if (!interval.ok()) return interval.status().message();
      times.push_back(interval->duration / chain.length);
    }
    if (stepwise) return "";
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    got->us = times[static_cast<size_t>(runs) / 2];
    return "";
  }

  static Bytes InputOf(const NormChain& chain) {
    const std::vector<float> x = Weight(1000, chain.rows, chain.columns, 0, 0, chain.rows);
    if (chain.type == onnx::TensorProto::FLOAT) {
      Bytes bytes(x.size() * 4);
      std::memcpy(bytes.data(), x.data(), bytes.size());
      return bytes;
    }
    Bytes bytes(x.size() * 2);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint16_t half = chain.type == onnx::TensorProto::FLOAT16 ? FloatToF16(x[i]) : FloatToBF16(x[i]);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    return bytes;
  }

  // Expects that the fused kernel gives the bits of the two separate ones. `fused` and `apart` get the
  // results of each.
  void Compare(const NormChain& chain, const Compiled& compiled, int runs, Got* fused, Got* apart) {
    const auto run = [&](CollectiveKernels kernels, bool stepwise, Got* got) {
      return Run(chain, compiled.plan, DevicesFor(kernels), runs, stepwise, got);
    };
    Got steps;
    ASSERT_EQ(run(CollectiveKernels::kSmall, true, &steps), "");
    ASSERT_EQ(run(CollectiveKernels::kSmall, false, apart), "");
    ASSERT_EQ(run(CollectiveKernels::kFused, false, fused), "");
    for (const Got* got : {fused, apart}) {
      EXPECT_EQ(got->outputs, steps.outputs) << chain.rows << " x " << chain.columns << ", type "
                                             << chain.type << ", layer norm " << chain.layer_norm;
    }
  }

 private:
  std::unique_ptr<RankDevices> devices_[4];
};

TEST_P(Norms, Times) {
  if (const std::string lack = Lack(); !lack.empty()) GTEST_SKIP() << lack;
  std::string line;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 2048}, {1, 8192}, {4, 8192}}) {
    const NormChain chain{rows, columns, GetParam(), onnx::TensorProto::BFLOAT16};
    Compiled compiled;
    ASSERT_EQ(compiled.Make(chain), "");
    Got fused, unfused, nccl;
    Compare(chain, compiled, kRuns, &fused, &unfused);
    RankDevices* const with_nccl = DevicesFor(CollectiveKernels::kNccl);
    const std::string failed = Run(chain, compiled.plan, with_nccl, kRuns, false, &nccl);
    char text[96];
    std::snprintf(text, sizeof(text), "  %lld KiB %.1f / %.1f / %.1f",
                  static_cast<long long>(rows * columns * 2 / 1024), fused.us, unfused.us, nccl.us);
    line += text + (failed.empty() ? "" : " (" + failed + ")");
  }
  std::printf("%u ranks, us an all-reduce, residual and RMS norm, by one kernel / two / NCCL and one:%s\n",
              GetParam(), line.c_str());
}

TEST_P(Norms, AreTheBitsOfKernelsOfTheirOwn) {
  if (const std::string lack = Lack(); !lack.empty()) GTEST_SKIP() << lack;
  for (const int type : {onnx::TensorProto::FLOAT, onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 64}, {7, 768}, {2, 1032}, {1, 6168}}) {
      for (const bool layer_norm : {false, true}) {
        NormChain chain{rows, columns, GetParam(), type, layer_norm};
        chain.length = 2;
        Compiled compiled;
        ASSERT_EQ(compiled.Make(chain), "");
        Got fused, unfused;
        Compare(chain, compiled, 3, &fused, &unfused);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Norms, testing::Values(2, 4, 8));

}  // namespace
}  // namespace rondo
