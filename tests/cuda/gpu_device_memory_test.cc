// Inputs and outputs in the memory of any GPU: the results of host memory, to the bit. Skipped without a GPU;
// the tensor-parallel model also with only one.
#include <filesystem>

#include "tests/compile/tensor_parallel.h"
#include "tests/cuda/with_gpu.h"
#include "tests/e2e/anywhere.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// Memory on the device of one buffer.
class GpuPlace : public Place {
 public:
  GpuPlace(const Session& session, const Buffer& buffer)
      : device_(session.device(buffer.device)),
        stream_(session.stream(buffer.device)),
        bytes_(buffer.bytes),
        address_(device_->Allocate(2 * kPage + bytes_, kPage).Take()) {}
  ~GpuPlace() override { device_->Free(address_, 2 * kPage + bytes_); }
  void* At(size_t alignment) override { return reinterpret_cast<void*>(address_ + alignment); }
  void Write(void* at, const void* from) override {
    EXPECT_TRUE(device_->CopyIn(reinterpret_cast<DeviceAddress>(at), from, bytes_, stream_).ok());
    Wait();
  }
  Bytes Read(const void* at) override {
    Bytes bytes(bytes_);
    EXPECT_TRUE(device_->CopyOut(bytes.data(), reinterpret_cast<DeviceAddress>(at), bytes_, stream_).ok());
    Wait();
    return bytes;
  }

 private:
  static constexpr size_t kPage = 4096;
  void Wait() {
    uint32_t step = 0;
    EXPECT_TRUE(device_->Synchronize(stream_, &step).ok());
  }
  Device* device_;
  Stream* stream_;
  const size_t bytes_;
  const DeviceAddress address_;
};

std::unique_ptr<Place> OnGpu(const Session& session, const Buffer& buffer) {
  return std::make_unique<GpuPlace>(session, buffer);
}

class GpuDeviceMemory : public WithGpu {
 protected:
  void TearDown() override {
    model_.reset();
    WithGpu::TearDown();
  }
  void Arm(const std::string& path, uint32_t devices = 1) {
    CompileOptions options;
    options.models = {{"main", path}};
    options.targets = *ParseTargets("cuda:sm_90a");
    options.devices = devices;
    model_ = std::make_unique<LiveModel>(options, *driver_);
    ASSERT_TRUE(model_->session().valid());
  }
  void ExpectSame(int rounds) { ExpectSameAnywhere(*model_, model_->session(), OnGpu, 1, rounds); }

  std::unique_ptr<LiveModel> model_;
};

TEST_F(GpuDeviceMemory, FixturesAndPycoder) {
  for (const char* path : {"pycoder/decode.onnx", "pycoder/prefill64.onnx", "fixtures/resnet/model.onnx",
                           "fixtures/bert_ts17/model.onnx", "fixtures/unet_op23/model.onnx"}) {
    SCOPED_TRACE(path);
    Arm(DataPath(path));
    if (!HasFailure()) ExpectSame(20);
  }
}

TEST_F(GpuDeviceMemory, SteadyAddressesAreUsedWithoutACopy) {
  Arm(DataPath("pycoder/decode.onnx"));
  ASSERT_FALSE(HasFailure());
  LiveModel::Buffers buffers = model_->MakeBuffers(0);
  std::vector<std::unique_ptr<Place>> places;
  for (Input& input : buffers.inputs) {
    Buffer as_large;
    as_large.bytes = input.bytes;
    places.push_back(OnGpu(model_->session(), as_large));
    void* at = places.back()->At(256);
    places.back()->Write(at, input.data);
    input.data = at;
    input.memory = MemoryKind::kDevice;
  }
  uint64_t copied = 0;
  for (int run = 0; run < 4; ++run) {
    ASSERT_TRUE(model_->session().Run(0, buffers.inputs, {}).ok());
    if (run == 1) copied = model_->runtime().metrics().input_bytes;  // addresses are bound by now
  }
  EXPECT_EQ(model_->runtime().metrics().input_bytes, copied);
}

TEST_F(GpuDeviceMemory, OfOneDeviceIsCopiedToTheOthers) {
  if (driver_->DeviceCount() < 2) GTEST_SKIP() << "fewer than 2 GPUs";
  const TemporaryFolder folder;
  TensorParallelModel({Sharing::kAttributes, 2}).Write(folder.File("m.onnx"));
  Arm(folder.File("m.onnx"), 2);
  if (!HasFailure()) ExpectSame(50);
}

}  // namespace
}  // namespace rondo
