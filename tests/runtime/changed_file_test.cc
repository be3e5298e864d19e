// Plan files that change under the reader: while they are opened that is an error or nothing, later it is
// what plan.h says of mapped weights, and nothing at all to weights that were read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "formats/plan/writer.h"
#include "runtime/session.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// The tiny plan with `w` padded to `floats` elements, as a file that goes with this object.
class PlanFileOnDisk {
 public:
  explicit PlanFileOnDisk(int64_t floats) : weights_(static_cast<size_t>(floats)) {
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = static_cast<float>(i + 1);
    std::vector<Buffer> buffers(tiny_.data.buffers.begin(), tiny_.data.buffers.end());
    std::vector<DeviceBytes> devices(tiny_.data.requirements.devices.begin(),
                                     tiny_.data.requirements.devices.end());
    for (Buffer& b : buffers) {
      if (b.name != "w") continue;
      b.shape = {floats};
      b.bytes = weights_.size() * 4;
    }
    devices[0].weights = tiny_.data.weights_bytes = weights_.size() * 4;
    tiny_.data.buffers = {buffers.data(), buffers.size()};
    tiny_.data.requirements.devices = {devices.data(), devices.size()};
    const Status written = WritePlanBytes(
        tiny_.data,
        [this](uint32_t, uint64_t first, uint64_t count, uint8_t* to) {
          std::memcpy(to, reinterpret_cast<const char*>(weights_.data()) + first, count);
          return Status::Ok();
        },
        &bytes_);
    EXPECT_TRUE(written.ok()) << written.message();
    Write();
  }

  // The file as it should be, in place.
  void Write() const {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(bytes_.data(), 1, bytes_.size(), file), bytes_.size());
    std::fclose(file);
  }
  // Its last `count` bytes, where the weights are, are gone.
  void Shorten(size_t count) const {
    EXPECT_EQ(truncate(path_.c_str(), static_cast<off_t>(bytes_.size() - count)), 0);
  }
  // Weight 0 of them all becomes `value`.
  void Overwrite(float value) const {
    std::FILE* file = std::fopen(path_.c_str(), "r+b");
    std::fseek(file, static_cast<long>(bytes_.size() - weights_.size() * 4), SEEK_SET);
    EXPECT_EQ(std::fwrite(&value, 4, 1, file), 1u);
    std::fclose(file);
  }
  const char* path() const { return path_.c_str(); }
  size_t weight_bytes() const { return weights_.size() * 4; }

 private:
  TinyPlan tiny_;
  std::vector<float> weights_;
  std::vector<uint8_t> bytes_;
  TemporaryFolder folder_;
  const std::string path_ = folder_.File("plan.rondo");
};

// weight 0, as a run sees it.
float PickFirst(Session* session) {
  const int64_t index = 0;
  float z = 0;
  const Input inputs[] = {{"index", kNone, DType::kI64, {1}, &index, 8}};
  const Output outputs[] = {{"z", kNone, DType::kF32, &z, 4}};
  const Status status = session->Run(TinyPlan::kPick, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return z;
}

struct Opened {
  Opened(const PlanFileOnDisk& file, bool read) {
    PlanOptions options;
    options.read_weights = read;
    Result<Plan> plan = Plan::Open(file.path(), options);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    runtime = Runtime::Create(&driver).Take();
    session = Session::Create(runtime, *plan).Take();
  }
  FakeDriver driver;
  Runtime runtime;
  Session session;
};

// The weights of 32 MB take some milliseconds to hash; the file loses them at some moment of that.
TEST(ChangedFile, ShortenedWhileItIsOpenedIsAnErrorOrAPlan) {
  PlanFileOnDisk file(8 << 20);
  int errors = 0;
  for (bool read : {false, true}) {
    for (int round = 0; round < 8 || (errors == 0 && round < 200); ++round) {  // again on a busy machine
      file.Write();
      std::atomic<bool> begun{false};
      std::thread shortener([&] {
        while (!begun) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(500 * (round % 8)));
        file.Shorten(file.weight_bytes() - 5000);
      });
      PlanOptions options;
      options.read_weights = read;
      begun = true;
      const Status status = Plan::Open(file.path(), options).status();
      shortener.join();
      errors += status.ok() ? 0 : 1;
      EXPECT_TRUE(status.ok() || status.code() == Code::kCorrupt) << status.message();
    }
  }
  EXPECT_GE(errors, 1) << "it was never shortened in time";
}

TEST(ChangedFile, MappedWeightsShowWhatIsWrittenIntoTheFile) {
  PlanFileOnDisk file(4);
  Opened mapped(file, false), read(file, true);
  EXPECT_EQ(PickFirst(&mapped.session), 1);
  file.Overwrite(42);
  EXPECT_EQ(PickFirst(&mapped.session), 42);
  EXPECT_EQ(PickFirst(&read.session), 1);
}

TEST(ChangedFile, WeightsThatWereReadStayWhenTheFileGoes) {
  PlanFileOnDisk file(4);
  Opened read(file, true);
  file.Shorten(16);
  EXPECT_EQ(PickFirst(&read.session), 1);
}

TEST(ChangedFile, MappedWeightsThatAreCutOffEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PlanFileOnDisk file(4);
  Opened mapped(file, false);
  const auto run = [&] {
    std::signal(SIGBUS, SIG_DFL);  // sanitizers have one
    file.Shorten(16);
    PickFirst(&mapped.session);
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGBUS), "");
}

TEST(ChangedFile, DamagedWeightsAreFoundWhenTheyAreRead) {
  PlanFileOnDisk file(4);
  file.Overwrite(9);
  PlanOptions options;
  options.read_weights = true;
  EXPECT_EQ(Plan::Open(file.path(), options).status().code(), Code::kCorrupt);
  options.ignore_hashes = true;
  EXPECT_TRUE(Plan::Open(file.path(), options).ok());
}

}  // namespace
}  // namespace rondo
