// Inputs and outputs in the memory of GPUs: the results of host memory, to the bit, wherever the tensors lie.
// Skipped where there is no GPU; the tensor-parallel model where there is one only.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "compiler/codegen/cuda/nvrtc.h"
#include "drivers/cuda/cuda_driver.h"
#include "tests/compile/tensor_parallel.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

using Bytes = std::vector<uint8_t>;

bool HaveNvrtc() {
  Result<std::vector<uint8_t>> code = CompileCuda("extern \"C\" __global__ void k() {}", "sm_90a", "");
  return code.ok() || code.status().code() != Code::kUnsupported;
}

// Memory of one device.
class GpuBlock {
 public:
  GpuBlock(const Session& session, uint32_t device, uint64_t bytes)
      : device_(session.device(device)), stream_(session.stream(device)), bytes_(bytes) {
    Result<DeviceAddress> address = device_->Allocate(bytes + kSlack, 256);
    EXPECT_TRUE(address.ok()) << address.status().message();
    if (address.ok()) address_ = *address;
  }
  ~GpuBlock() { device_->Free(address_, bytes_ + kSlack); }
  GpuBlock(const GpuBlock&) = delete;
  GpuBlock& operator=(const GpuBlock&) = delete;
  DeviceAddress At(uint64_t offset) const { return address_ + offset; }
  void Write(uint64_t offset, const void* data) {
    EXPECT_TRUE(device_->CopyIn(At(offset), data, bytes_, stream_).ok());
    Wait();
  }
  Bytes Read(uint64_t offset) {
    Bytes bytes(bytes_);
    EXPECT_TRUE(device_->CopyOut(bytes.data(), At(offset), bytes_, stream_).ok());
    Wait();
    return bytes;
  }
  static constexpr uint64_t kSlack = 1024;

 private:
  void Wait() {
    uint32_t step = 0;
    EXPECT_TRUE(device_->Synchronize(stream_, &step).ok());
  }
  Device* device_;
  Stream* stream_;
  const uint64_t bytes_;
  DeviceAddress address_ = 0;
};

class GpuDeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
    Result<Driver*> driver = CreateCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
  }
  void TearDown() override {
    session_ = Session();
    runtime_ = Runtime();
    if (driver_ != nullptr) DestroyCudaDriver(driver_);
  }
  void Arm(const std::string& path, uint32_t devices) {
    session_ = Session();
    CompileOptions options;
    options.models = {{"main", path}};
    options.target = "cuda:sm_90a";
    options.devices = devices;
    Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    compiled_ = compiled.Take();
    weights_ = AssembleWeights(compiled_);
    Result<Plan> plan = Plan::FromData(compiled_.plan, weights_);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    Result<Runtime> runtime = Runtime::Create(driver_);
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    runtime_ = runtime.Take();
    Result<Session> session = Session::Create(runtime_, *plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = session.Take();
  }

  // Rounds of a run in host memory, then one with tensors here and there.
  void ExpectSameAnywhere(int rounds) {
    const PlanData& plan = session_.plan().data();
    const Program& program = plan.programs[0];
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::vector<Bytes> data, results;
    std::vector<std::array<std::unique_ptr<GpuBlock>, 2>> blocks;
    const auto add = [&](const Buffer& b) {
      blocks.push_back({std::make_unique<GpuBlock>(session_, b.device, b.bytes),
                        std::make_unique<GpuBlock>(session_, b.device, b.bytes)});
    };
    for (const Port& port : program.inputs) {
      if (port.is_state) continue;
      const Buffer& b = plan.buffers[port.buffer];
      data.emplace_back(b.bytes);
      inputs.push_back({port.name, kNone, b.dtype, b.shape, data.back().data(), b.bytes});
      add(b);
    }
    for (const Port& port : program.outputs) {
      if (port.is_state) continue;
      const Buffer& b = plan.buffers[port.buffer];
      results.emplace_back(b.bytes);
      outputs.push_back({port.name, kNone, b.dtype, results.back().data(), b.bytes});
      add(b);
    }
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      for (size_t i = 0; i < inputs.size(); ++i) FillInput(inputs[i].dtype, &data[i]);
      ASSERT_TRUE(session_.ResetState().ok());
      Status status = session_.Run(0, inputs, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      std::vector<Input> in = inputs;
      std::vector<Output> out = outputs;
      std::vector<Bytes> got = results;
      std::vector<std::pair<GpuBlock*, uint64_t>> places(out.size(), {nullptr, 0});
      for (size_t i = 0; i < in.size(); ++i) {
        if (random_() % 4 == 0) continue;
        const uint64_t offset = Offset();
        GpuBlock& block = *blocks[i][random_() % 2];
        block.Write(offset, data[i].data());
        in[i].data = reinterpret_cast<const void*>(block.At(offset));
        in[i].memory = MemoryKind::kDevice;
      }
      for (size_t i = 0; i < out.size(); ++i) {
        out[i].data = got[i].data();
        if (random_() % 4 == 0) continue;
        places[i] = {blocks[in.size() + i][random_() % 2].get(), Offset()};
        out[i].data = reinterpret_cast<void*>(places[i].first->At(places[i].second));
        out[i].memory = MemoryKind::kDevice;
      }
      ASSERT_TRUE(session_.ResetState().ok());
      status = session_.Run(0, in, out);
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < out.size(); ++i) {
        if (places[i].first != nullptr) got[i] = places[i].first->Read(places[i].second);
        EXPECT_EQ(got[i], results[i]) << "output " << i << ", round " << round;
      }
    }
  }

  Driver* driver_ = nullptr;
  Runtime runtime_;
  Session session_;
  CompiledPlan compiled_;
  std::vector<uint8_t> weights_;

 private:
  uint64_t Offset() {
    constexpr uint64_t kOffsets[] = {0, 0, 256, 512, 64, 4};
    return kOffsets[random_() % 6];
  }
  void FillInput(DType dtype, Bytes* bytes) {
    if (dtype != DType::kF32) return;
    std::normal_distribution<float> noise;
    for (size_t at = 0; at + 4 <= bytes->size(); at += 4) {
      const float value = noise(random_);
      std::memcpy(bytes->data() + at, &value, 4);
    }
  }
  std::mt19937 random_{1};
};

TEST_F(GpuDeviceMemory, FixturesAndPycoder) {
  for (const char* model : {"pycoder/decode.onnx", "pycoder/prefill64.onnx", "fixtures/resnet/model.onnx",
                            "fixtures/bert_ts17/model.onnx", "fixtures/unet_op23/model.onnx"}) {
    SCOPED_TRACE(model);
    Arm(DataPath(model), 1);
    if (!HasFailure()) ExpectSameAnywhere(20);
  }
}

TEST_F(GpuDeviceMemory, SteadyAddressesAreUsedWithoutACopy) {
  Arm(DataPath("pycoder/decode.onnx"), 1);
  ASSERT_FALSE(HasFailure());
  const PlanData& plan = session_.plan().data();
  std::vector<std::unique_ptr<GpuBlock>> blocks;
  std::vector<Input> inputs;
  for (const Port& port : plan.programs[0].inputs) {
    if (port.is_state) continue;
    const Buffer& b = plan.buffers[port.buffer];
    blocks.push_back(std::make_unique<GpuBlock>(session_, 0, b.bytes));
    blocks.back()->Write(0, Bytes(b.bytes).data());
    inputs.push_back({port.name, kNone, b.dtype, b.shape, reinterpret_cast<const void*>(blocks.back()->At(0)),
                      b.bytes, MemoryKind::kDevice});
  }
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(session_.Run(0, inputs, {}).ok());
  EXPECT_EQ(runtime_.metrics().input_bytes, 0u);
}

TEST_F(GpuDeviceMemory, OfOneDeviceIsCopiedToTheOthers) {
  if (driver_->DeviceCount() < 2) GTEST_SKIP() << "fewer than 2 GPUs";
  const auto folder = std::filesystem::temp_directory_path() / "rondo_gpu_device_memory";
  std::filesystem::create_directories(folder);
  TensorParallelModel({Sharing::kAttributes, 2}).Write((folder / "m.onnx").string());
  Arm((folder / "m.onnx").string(), 2);
  std::filesystem::remove_all(folder);
  if (!HasFailure()) ExpectSameAnywhere(50);
}

}  // namespace
}  // namespace rondo
