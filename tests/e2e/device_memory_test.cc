// Inputs and outputs in device memory, on the host driver: whichever of them lie there, wherever they lie and
// however they are aligned, the results are those of host memory, to the bit.
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "tests/compile/tensor_parallel.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

using Bytes = std::vector<uint8_t>;

// Memory after which comes a page that cannot be touched.
class EdgeMemory {
 public:
  explicit EdgeMemory(size_t bytes) : size_((bytes + 2 * kPage - 1) / kPage * kPage) {
    void* block = mmap(nullptr, size_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(block, MAP_FAILED);
    block_ = static_cast<uint8_t*>(block);
    EXPECT_EQ(mprotect(block_ + size_, kPage, PROT_NONE), 0);
  }
  ~EdgeMemory() { munmap(block_, size_ + kPage); }
  EdgeMemory(const EdgeMemory&) = delete;
  EdgeMemory& operator=(const EdgeMemory&) = delete;
  // `bytes` as near to the end as a multiple of `alignment` can be.
  uint8_t* Last(size_t bytes, size_t alignment) const {
    return block_ + (size_ - bytes) / alignment * alignment;
  }

 private:
  static constexpr size_t kPage = 4096;
  size_t size_;
  uint8_t* block_;
};

// Runs of one program, each with its tensors in other memory.
class Runs {
 public:
  Runs(LiveModel& model, uint32_t program, uint32_t seed)
      : model_(model), program_(program), random_(seed), host_(model.MakeBuffers(program)) {
    for (const Input& input : host_.inputs) inputs_.push_back(Places(input.bytes));
    for (const Output& output : host_.outputs) outputs_.push_back(Places(output.bytes));
  }

  // Fills the inputs: floats with noise, integers with zeros.
  void FillInputs() {
    std::normal_distribution<float> noise;
    for (size_t i = 0; i < host_.inputs.size(); ++i) {
      if (host_.inputs[i].dtype != DType::kF32) continue;
      auto* bytes = static_cast<uint8_t*>(const_cast<void*>(host_.inputs[i].data));
      for (size_t at = 0; at + 4 <= host_.inputs[i].bytes; at += 4) {
        const float value = noise(random_);
        std::memcpy(bytes + at, &value, 4);
      }
    }
  }
  const LiveModel::Buffers& host() const { return host_; }
  std::vector<Bytes> InHostMemory(Session& session) {
    const Status status = session.Run(program_, host_.inputs, host_.outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<Bytes> results;
    for (const Output& output : host_.outputs) results.push_back(Copy(output));
    return results;
  }
  // The tensors' places are drawn anew, and which of the outputs are asked for; those are empty that are not.
  std::vector<Bytes> Anywhere(Session& session) {
    std::vector<Input> inputs = host_.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].data =
          Draw(inputs_[i], inputs[i].bytes, const_cast<void*>(inputs[i].data), &inputs[i].memory);
      if (inputs[i].memory == MemoryKind::kDevice) {
        std::memcpy(const_cast<void*>(inputs[i].data), host_.inputs[i].data, inputs[i].bytes);
      }
    }
    std::vector<Output> outputs;
    std::vector<size_t> number;
    for (size_t i = 0; i < host_.outputs.size(); ++i) {
      if (random_() % 8 == 0) continue;
      outputs.push_back(host_.outputs[i]);
      outputs.back().data =
          Draw(outputs_[i], outputs.back().bytes, host_.outputs[i].data, &outputs.back().memory);
      if (outputs.back().bytes != 0) std::memset(outputs.back().data, 0xcd, outputs.back().bytes);
      number.push_back(i);
    }
    RunOptions options;
    options.stepwise = random_() % 16 == 0;
    const Status status = session.Run(program_, inputs, outputs, options);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<Bytes> results(host_.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) results[number[i]] = Copy(outputs[i]);
    return results;
  }

 private:
  using TwoPlaces = std::array<std::unique_ptr<EdgeMemory>, 2>;

  static TwoPlaces Places(size_t bytes) {
    return {std::make_unique<EdgeMemory>(bytes), std::make_unique<EdgeMemory>(bytes)};
  }
  static Bytes Copy(const Output& output) {
    const auto* data = static_cast<const uint8_t*>(output.data);
    return Bytes(data, data + output.bytes);
  }
  void* Draw(const TwoPlaces& places, size_t bytes, void* host, MemoryKind* memory) {
    *memory = random_() % 4 == 0 ? MemoryKind::kHost : MemoryKind::kDevice;
    if (*memory == MemoryKind::kHost) return host;
    constexpr size_t kAlignments[] = {1, 4, 16, 64, 256, 4096};
    return places[random_() % 2]->Last(bytes, kAlignments[random_() % 6]);
  }

  LiveModel& model_;
  const uint32_t program_;
  std::mt19937 random_;
  LiveModel::Buffers host_;
  std::vector<TwoPlaces> inputs_, outputs_;
};

void ExpectSameAnywhere(LiveModel& model, Session& session, uint32_t seed, int rounds) {
  for (uint32_t program = 0; program < model.data().programs.size(); ++program) {
    Runs runs(model, program, seed);
    for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
      runs.FillInputs();
      ASSERT_TRUE(session.ResetState().ok());
      const std::vector<Bytes> expected = runs.InHostMemory(session);
      for (int again = 0; again < 2; ++again) {
        ASSERT_TRUE(session.ResetState().ok());
        const std::vector<Bytes> got = runs.Anywhere(session);
        for (size_t i = 0; i < got.size(); ++i) {
          if (got[i].empty()) continue;
          EXPECT_EQ(got[i], expected[i]) << "output " << i << ", round " << round;
        }
      }
    }
  }
}

TEST(DeviceMemory, EveryFixture) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DataPath("fixtures"))) {
    std::filesystem::path path = entry.path() / "model.onnx";
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(path.string());
    LiveModel model({{"main", path.string()}}, 2);
    ASSERT_TRUE(model.session().valid());
    ExpectSameAnywhere(model, model.session(), 1, 20);
    ++models;
  }
  EXPECT_GE(models, 5);
}

TEST(DeviceMemory, Pycoder) {
  LiveModel model(
      {{"prefill", DataPath("pycoder/prefill64.onnx")}, {"decode", DataPath("pycoder/decode.onnx")}}, 1);
  ASSERT_TRUE(model.session().valid());
  ExpectSameAnywhere(model, model.session(), 2, 8);
}

TEST(DeviceMemory, SteadyAddressesAreUsedWithoutACopy) {
  LiveModel model({{"main", DataPath("pycoder/decode.onnx")}}, 1);
  ASSERT_TRUE(model.session().valid());
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  std::vector<std::unique_ptr<EdgeMemory>> places;
  for (Input& input : buffers.inputs) {
    places.push_back(std::make_unique<EdgeMemory>(input.bytes));
    input.data = places.back()->Last(input.bytes, 256);
    input.memory = MemoryKind::kDevice;
  }
  for (Output& output : buffers.outputs) {
    places.push_back(std::make_unique<EdgeMemory>(output.bytes));
    output.data = places.back()->Last(output.bytes, 256);
    output.memory = MemoryKind::kDevice;
  }
  for (int run = 0; run < 10; ++run)
    ASSERT_TRUE(model.session().Run(0, buffers.inputs, buffers.outputs).ok());
  EXPECT_EQ(model.runtime().metrics().input_bytes, 0u);
  EXPECT_EQ(model.runtime().metrics().output_bytes, 0u);
}

class ParallelDeviceMemory : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    const auto folder =
        std::filesystem::temp_directory_path() / ("rondo_device_memory_" + std::to_string(GetParam()));
    std::filesystem::create_directories(folder);
    const std::string path = (folder / "m.onnx").string();
    TensorParallelModel({Sharing::kAttributes, GetParam(), 0}).Write(path);
    CompileOptions options;
    options.devices = GetParam();
    options.models = {{"main", path}};
    HostOptions host;
    host.faults.most_delay_us = 10;
    host.faults.reorder = true;
    model_ = std::make_unique<LiveModel>(options, host);
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(model_->session().valid());
  }
  std::unique_ptr<LiveModel> model_;
};

// Two sessions from two threads at once, each device's steps told by that device's own launch thread.
TEST_P(ParallelDeviceMemory, SeveralDevices) {
  Result<Session> second = Session::Create(model_->runtime(), model_->plan());
  ASSERT_TRUE(second.ok()) << second.status().message();
  std::thread other([&] { ExpectSameAnywhere(*model_, *second, 3, 30); });
  ExpectSameAnywhere(*model_, model_->session(), 4, 30);
  other.join();
}

// What each device's books call its own; an input is device 0's and copied to the others.
TEST_P(ParallelDeviceMemory, OfTheDevicesOwn) {
  Session& session = model_->session();
  Runs runs(*model_, 0, 5);
  runs.FillInputs();
  const std::vector<Bytes> expected = runs.InHostMemory(session);
  std::vector<Input> inputs = runs.host().inputs;
  std::vector<Output> outputs = runs.host().outputs;
  ASSERT_EQ(outputs.size(), GetParam());
  Device* first = session.device(0);
  const DeviceAddress x = first->Allocate(inputs[0].bytes, 64).Take();
  std::memcpy(reinterpret_cast<void*>(x), inputs[0].data, inputs[0].bytes);
  inputs[0].data = reinterpret_cast<const void*>(x);
  inputs[0].memory = MemoryKind::kDevice;
  for (uint32_t d = 0; d < outputs.size(); ++d) {
    outputs[d].data = reinterpret_cast<void*>(session.device(d)->Allocate(outputs[d].bytes, 64).Take());
    outputs[d].memory = MemoryKind::kDevice;
  }
  const Status status = session.Run(0, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  for (uint32_t d = 0; d < outputs.size(); ++d) {
    EXPECT_EQ(std::memcmp(outputs[d].data, expected[d].data(), expected[d].size()), 0) << "device " << d;
  }
  std::swap(outputs[0].data, outputs[1].data);
  const Status refused = session.Run(0, inputs, outputs);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(refused.message()).find("are memory of host device"), std::string::npos)
      << refused.message();
  std::swap(outputs[0].data, outputs[1].data);
  for (uint32_t d = 0; d < outputs.size(); ++d) {
    session.device(d)->Free(reinterpret_cast<DeviceAddress>(outputs[d].data), outputs[d].bytes);
  }
  first->Free(x, inputs[0].bytes);
}

INSTANTIATE_TEST_SUITE_P(Devices, ParallelDeviceMemory, testing::Values(2u, 4u));

}  // namespace
}  // namespace rondo
