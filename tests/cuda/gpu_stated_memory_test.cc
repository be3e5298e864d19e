// Plans take the GPU memory that they state before they are loaded, within 1 % or 4 MiB, with 1, 2, 8 and 24
// sessions; blocks to the byte. Each plan has a context of its own. Skipped without a GPU or libnvrtc.
#include "compiler/compile.h"
#include "tests/cuda/with_gpu.h"
#include "tests/e2e/llama_model.h"
#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tools/bench/device_memory/fit_rates.h"

namespace rondo::bench {
namespace {

class GpuStatedMemory : public WithGpu {
 protected:
  void ExpectStated(const std::vector<ModelSource>& models) {
    CompileOptions options;
    options.models = models;
    options.targets = *ParseTargets("cuda:sm_90a");
    options.synthetic_seed = 1;
    const Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const std::vector<uint8_t> weights = AssembleWeights(*compiled);
    MeasureOptions measure;
    measure.sessions = 24;
    const Result<MeasuredPlan> measured =
        MeasurePlan(models[0].path, Plan::FromData(compiled->plan, weights).Take(), driver_, measure);
    ASSERT_TRUE(measured.ok()) << measured.status().message();
    const DeviceMemory stated = EstimateDeviceMemory(measured->needs);
    for (size_t i = 0; i < measured->sessions.size(); ++i)
      EXPECT_EQ(static_cast<uint64_t>(measured->sessions[i].blocks), BlockBytes(stated, i + 1))
          << i + 1 << " sessions";
    for (const StatementError& error : ErrorsOf(*measured, kDeviceMemoryRates))
      EXPECT_TRUE(error.good()) << error.sessions << " sessions: " << error.stated << " stated, "
                                << error.taken << " taken\n"
                                << StageTable(*measured, kDeviceMemoryRates);
  }
  static std::string Data(const std::string& name) { return SourceFolder() + "/tests/data/" + name; }
};

TEST_F(GpuStatedMemory, OfPycoder) {
  ExpectStated({{"prefill", Data("pycoder/prefill64.onnx")}, {"decode", Data("pycoder/decode.onnx")}});
}

TEST_F(GpuStatedMemory, OfResnet) { ExpectStated({{"main", Data("fixtures/resnet/model.onnx")}}); }

TEST_F(GpuStatedMemory, OfADecoderWithLargeCaches) {
  const TemporaryFolder folder;
  LlamaShape shape;
  shape.batch = 8;
  LlamaModel(shape).Write(folder.File("decode.onnx"));
  ExpectStated({{"decode", folder.File("decode.onnx")}});
}

}  // namespace
}  // namespace rondo::bench
