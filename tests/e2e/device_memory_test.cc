// Inputs and outputs in device memory on the host driver. Whichever of them lie there, at any address and
// alignment, the results are those of host memory, to the bit.
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/compile/tensor_parallel.h"
#include "tests/e2e/anywhere.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// Memory followed by an inaccessible page.
class EdgeMemory : public Place {
 public:
  explicit EdgeMemory(size_t bytes) : bytes_(bytes), size_((bytes + 2 * kPage - 1) / kPage * kPage) {
    void* block = mmap(nullptr, size_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(block, MAP_FAILED);
    block_ = static_cast<uint8_t*>(block);
    EXPECT_EQ(mprotect(block_ + size_, kPage, PROT_NONE), 0);
  }
  ~EdgeMemory() override { munmap(block_, size_ + kPage); }
  EdgeMemory(const EdgeMemory&) = delete;
  EdgeMemory& operator=(const EdgeMemory&) = delete;
  // As close to the end as the alignment allows.
  void* At(size_t alignment) override { return block_ + (size_ - bytes_) / alignment * alignment; }
  void Write(void* at, const void* from) override {
    if (bytes_ != 0) std::memcpy(at, from, bytes_);
  }
  Bytes Read(const void* at) override {
    const auto* data = static_cast<const uint8_t*>(at);
    return Bytes(data, data + bytes_);
  }

 private:
  static constexpr size_t kPage = 4096;
  const size_t bytes_, size_;
  uint8_t* block_;
};

std::unique_ptr<Place> AtAnEdge(const Session&, const Buffer& buffer) {
  return std::make_unique<EdgeMemory>(buffer.bytes);
}

TEST(DeviceMemory, EveryFixture) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DataPath("fixtures"))) {
    std::filesystem::path path = entry.path() / "model.onnx";
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(path.string());
    LiveModel model({{"main", path.string()}}, 2);
    ASSERT_TRUE(model.session().valid());
    ExpectSameAnywhere(model, model.session(), AtAnEdge, 1, 20);
    ++models;
  }
  EXPECT_GE(models, 5);
}

TEST(DeviceMemory, Pycoder) {
  LiveModel model(
      {{"prefill", DataPath("pycoder/prefill64.onnx")}, {"decode", DataPath("pycoder/decode.onnx")}}, 1);
  ASSERT_TRUE(model.session().valid());
  ExpectSameAnywhere(model, model.session(), AtAnEdge, 2, 8);
}

TEST(DeviceMemory, IsUsedWithoutACopy) {
  LiveModel model({{"main", DataPath("pycoder/decode.onnx")}}, 1);
  ASSERT_TRUE(model.session().valid());
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  std::vector<std::unique_ptr<EdgeMemory>> places;
  const auto place = [&](size_t bytes) {
    places.push_back(std::make_unique<EdgeMemory>(bytes));
    return places.back()->At(256);
  };
  for (int run = 0; run < 10; ++run) {
    for (Input& input : buffers.inputs) {
      input.data = place(input.bytes);
      input.memory = MemoryKind::kDevice;
    }
    for (Output& output : buffers.outputs) {
      output.data = place(output.bytes);
      output.memory = MemoryKind::kDevice;
    }
    ASSERT_TRUE(model.session().Run(0, buffers.inputs, buffers.outputs).ok());
  }
  EXPECT_EQ(model.runtime().metrics().input_bytes, 0u);
  EXPECT_EQ(model.runtime().metrics().output_bytes, 0u);
}

class ParallelDeviceMemory : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    const TemporaryFolder folder;
    const std::string path = folder.File("m.onnx");
    TensorParallelModel({Sharing::kAttributes, GetParam(), 0}).Write(path);
    CompileOptions options;
    options.devices = GetParam();
    options.models = {{"main", path}};
    HostOptions host;
    host.faults.most_delay_us = 10;
    host.faults.reorder = true;
    model_ = std::make_unique<LiveModel>(options, host);
    ASSERT_TRUE(model_->session().valid());
  }
  std::unique_ptr<LiveModel> model_;
};

// Two sessions from two threads at once. Each device's launch thread binds that device's steps.
TEST_P(ParallelDeviceMemory, SeveralDevices) {
  Result<Session> second = Session::Create(model_->runtime(), model_->plan());
  ASSERT_TRUE(second.ok()) << second.status().message();
  std::thread other([&] { ExpectSameAnywhere(*model_, *second, AtAnEdge, 3, 30); });
  ExpectSameAnywhere(*model_, model_->session(), AtAnEdge, 4, 30);
  other.join();
}

// Memory that the runtime's registry attributes to the device.
class OwnMemory : public Place {
 public:
  OwnMemory(const Session& session, const Buffer& buffer)
      : device_(session.device(buffer.device)),
        bytes_(buffer.bytes),
        address_(device_->Allocate(2 * kPage + bytes_, kPage).Take()) {}
  ~OwnMemory() override { device_->Free(address_, 2 * kPage + bytes_); }
  void* At(size_t alignment) override { return reinterpret_cast<void*>(address_ + alignment); }
  void Write(void* at, const void* from) override { std::memcpy(at, from, bytes_); }
  Bytes Read(const void* at) override {
    const auto* data = static_cast<const uint8_t*>(at);
    return Bytes(data, data + bytes_);
  }

 private:
  static constexpr size_t kPage = 4096;
  Device* device_;
  const size_t bytes_;
  const DeviceAddress address_;
};

// An input lies in device 0's memory and is copied to the other devices.
TEST_P(ParallelDeviceMemory, OfTheDevicesOwn) {
  const MakePlace make = [](const Session& session, const Buffer& buffer) {
    return std::make_unique<OwnMemory>(session, buffer);
  };
  ExpectSameAnywhere(*model_, model_->session(), make, 5, 30);
}

TEST_P(ParallelDeviceMemory, OfAnotherDeviceIsRefused) {
  Session& session = model_->session();
  LiveModel::Buffers buffers = model_->MakeBuffers(0);
  OwnMemory place(session, model_->data().buffers[model_->data().programs[0].outputs[1].buffer]);
  Output output = buffers.outputs[0];  // in device 0's memory
  output.data = place.At(256);
  output.memory = MemoryKind::kDevice;
  const Status refused = session.Run(0, buffers.inputs, {&output, 1});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(refused.message()).find("are memory of host device 1"), std::string::npos)
      << refused.message();
}

INSTANTIATE_TEST_SUITE_P(Devices, ParallelDeviceMemory, testing::Values(2u, 4u));

}  // namespace
}  // namespace rondo
