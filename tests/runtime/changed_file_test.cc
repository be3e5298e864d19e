// Plan files that change while they are in use. A change during Open is an error or has no effect. Later it
// does not affect weights that were read, as those of small plans are. If mapped weights have changed, no new
// session is made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
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

// The tiny plan with `w` padded to `floats` elements, as a file that is removed with this object. With
// `beside`, its weights are in a separate file, which a second plan shares.
class PlanFileOnDisk {
 public:
  explicit PlanFileOnDisk(int64_t floats, bool beside = false) : weights_(static_cast<size_t>(floats)) {
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
    const FillWeight fill = [this](uint32_t, uint64_t first, uint64_t count, uint8_t* to) {
      std::memcpy(to, reinterpret_cast<const char*>(weights_.data()) + first, count);
      return Status::Ok();
    };
    if (beside) {
      tiny_.data.weights_file = "shared.weights";
      EXPECT_TRUE(WritePlan(tiny_.data, fill, {plan_}).ok());
      EXPECT_TRUE(WritePlan(tiny_.data, fill, {second_, false}).ok());
      path_ = folder_.File("shared.weights");
      bytes_.resize(std::filesystem::file_size(path_));
      std::FILE* file = std::fopen(path_.c_str(), "rb");
      EXPECT_EQ(std::fread(bytes_.data(), 1, bytes_.size(), file), bytes_.size());
      std::fclose(file);
      return;
    }
    const Status written = WritePlanBytes(tiny_.data, fill, &bytes_);
    EXPECT_TRUE(written.ok()) << written.message();
    Write();
  }

  // Writes the weights' file with its right contents, in place or to `path`.
  void Write(const char* path = nullptr) const {
    std::FILE* file = std::fopen(path == nullptr ? path_.c_str() : path, "wb");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(bytes_.data(), 1, bytes_.size(), file), bytes_.size());
    std::fclose(file);
  }
  // Cuts off the last `count` bytes, which are weights.
  void Shorten(size_t count) const {
    EXPECT_EQ(truncate(path_.c_str(), static_cast<off_t>(bytes_.size() - count)), 0);
  }
  // Overwrites weight 0 with `value`, in place or in the file at `path`.
  void Overwrite(float value, const char* path = nullptr) const {
    std::FILE* file = std::fopen(path == nullptr ? path_.c_str() : path, "r+b");
    std::fseek(file, static_cast<long>(bytes_.size() - weights_.size() * 4), SEEK_SET);
    EXPECT_EQ(std::fwrite(&value, 4, 1, file), 1u);
    std::fclose(file);
  }
  // Renames another file, whose weight 0 is `value`, to this one's name.
  void ReplaceByRenaming(float value) const {
    const std::string other = folder_.File("other");
    Write(other.c_str());
    Overwrite(value, other.c_str());
    std::filesystem::rename(other, path_);
  }
  // Sets the file's times, so that it looks unchanged for the last second.
  void SetTime(timespec written) const {
    const timespec times[] = {written, written};
    EXPECT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }
  timespec Time() const {
    struct stat info = {};
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return info.st_mtim;
  }
  const char* path() const { return plan_.c_str(); }
  const char* second() const { return second_.c_str(); }
  const char* weights_path() const { return path_.c_str(); }
  const uint8_t* bytes() const { return bytes_.data(); }  // contents of the weights' file
  size_t weight_bytes() const { return weights_.size() * 4; }

 private:
  TinyPlan tiny_;
  std::vector<float> weights_;
  std::vector<uint8_t> bytes_;
  TemporaryFolder folder_;
  const std::string plan_ = folder_.File("plan.rondo"), second_ = folder_.File("second.rondo");
  std::string path_ = plan_;  // the weights' file
};

// Weight 0 as a run sees it.
float PickFirst(Session* session) {
  const int64_t index = 0;
  float z = 0;
  const Input inputs[] = {{"index", kNone, DType::kI64, {1}, &index, 8}};
  const Output outputs[] = {{"z", kNone, DType::kF32, &z, 4}};
  const Status status = session->Run(TinyPlan::kPick, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return z;
}

PlanOptions Mapping() {
  PlanOptions options;
  options.map_weights_from = 0;
  return options;
}

struct Opened {
  explicit Opened(const char* path, const PlanOptions& options = {}) {
    Result<Plan> opened = Plan::Open(path, options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    plan = opened.Take();
    runtime = Runtime::Create(&driver).Take();
  }
  Result<Session> Create() { return Session::Create(runtime, plan); }
  FakeDriver driver;
  Plan plan;
  Runtime runtime;
};

// Hashing weights of 32 MB takes some milliseconds. The file is shortened at some moment in that time.
TEST(ChangedFile, ShortenedWhileItIsOpenedIsAnErrorOrAPlan) {
  PlanFileOnDisk file(8 << 20);
  int errors = 0;
  for (const bool mapped : {false, true}) {
    for (int round = 0; round < 8 || (errors == 0 && round < 200);
         ++round) {  // more rounds on a busy machine
      file.Write();
      std::atomic<bool> begun{false};
      std::thread shortener([&] {
        while (!begun) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(500 * (round % 8)));
        file.Shorten(file.weight_bytes() - 5000);
      });
      begun = true;
      const Status status = Plan::Open(file.path(), mapped ? Mapping() : PlanOptions()).status();
      shortener.join();
      errors += status.ok() ? 0 : 1;
      EXPECT_TRUE(status.ok() || status.code() == Code::kCorrupt) << status.message();
    }
  }
  EXPECT_GE(errors, 1) << "it was never shortened in time";
}

TEST(ChangedFile, SmallWeightsAreReadAndLargeOnesAreMapped) {
  EXPECT_EQ(PlanOptions().map_weights_from, uint64_t{256} << 20);
  PlanFileOnDisk file(4);
  PlanOptions from_here, from_beyond;
  from_here.map_weights_from = 16;
  from_beyond.map_weights_from = 17;
  Opened by_default(file.path()), mapped(file.path(), from_here), read(file.path(), from_beyond);
  file.Shorten(4);
  EXPECT_TRUE(by_default.Create().ok());
  EXPECT_TRUE(read.Create().ok());
  EXPECT_EQ(mapped.Create().status().code(), Code::kFailedPrecondition);
}

TEST(ChangedFile, WeightsThatWereReadStayWhateverBecomesOfTheFile) {
  PlanFileOnDisk file(4);
  Opened read(file.path());
  Result<Session> before = read.Create();
  ASSERT_TRUE(before.ok());
  file.Overwrite(42);
  EXPECT_EQ(PickFirst(&*before), 1);
  file.Shorten(16);
  EXPECT_EQ(PickFirst(&*before), 1);
  Result<Session> after = read.Create();
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(PickFirst(&*after), 1);
}

// A change to a file between Open and Create, and Create's error for a plan whose weights are mapped from it.
struct Change {
  const char* what;
  std::function<void(const PlanFileOnDisk&)> make;
  Code expected;
  const char* says;
};

TEST(ChangedFile, NoSessionIsMadeOfMappedWeightsWhoseFileHasChanged) {
  const timespec past = {1'700'000'000, 5}, later = {1'700'000'000, 6};
  const Change changes[] = {
      {"overwritten", [](const PlanFileOnDisk& f) { f.Overwrite(42); }, Code::kFailedPrecondition,
       "has changed since the plan was opened"},
      {"overwritten, its time set back",
       [&](const PlanFileOnDisk& f) {
         f.Overwrite(42);
         f.SetTime(past);
       },
       Code::kCorrupt, "the plan was written for hash"},
      {"shortened", [](const PlanFileOnDisk& f) { f.Shorten(16); }, Code::kFailedPrecondition, "bytes, now"},
      {"shortened, its time set back",
       [&](const PlanFileOnDisk& f) {
         f.Shorten(16);
         f.SetTime(past);
       },
       Code::kFailedPrecondition, "bytes, now"},
      {"written anew as it was", [](const PlanFileOnDisk& f) { f.Write(); }, Code::kFailedPrecondition,
       "has changed since the plan was opened"},
      {"touched", [&](const PlanFileOnDisk& f) { f.SetTime(later); }, Code::kFailedPrecondition,
       "has changed since the plan was opened"},
      {"replaced by renaming", [](const PlanFileOnDisk& f) { f.ReplaceByRenaming(42); }, Code::kOk, ""},
      {"removed", [](const PlanFileOnDisk& f) { std::filesystem::remove(f.weights_path()); }, Code::kOk, ""},
      {"given other permissions", [](const PlanFileOnDisk& f) { chmod(f.weights_path(), 0600); }, Code::kOk,
       ""},
      {"nothing", [](const PlanFileOnDisk&) {}, Code::kOk, ""},
  };
  for (const bool beside : {false, true}) {
    for (const Change& change : changes) {
      SCOPED_TRACE(std::string(change.what) + (beside ? ", a weights file of two plans" : ""));
      PlanFileOnDisk file(4, beside);
      file.SetTime(past);
      Opened first(file.path(), Mapping()), second(beside ? file.second() : file.path(), Mapping());
      Result<Session> running = second.Create();
      ASSERT_TRUE(running.ok()) << running.status().message();
      change.make(file);
      for (Opened* opened : {&first, &second}) {  // once for a plan's first session, once for another
        Result<Session> session = opened->Create();
        EXPECT_EQ(session.status().code(), change.expected) << session.status().message();
        EXPECT_NE(std::string(session.status().message()).find(change.says), std::string::npos)
            << session.status().message();
        if (!session.ok()) {
          EXPECT_EQ(
              std::string(session.status().message()).rfind(beside ? "shared.weights: " : "plan.rondo: ", 0),
              0u)
              << session.status().message();
        }
        if (session.ok()) {
          EXPECT_EQ(PickFirst(&*session), 1);
        }
      }
    }
  }
}

// File times have steps of milliseconds: writes within one step do not change the time.
TEST(ChangedFile, AWriteRightAfterOpenIsNoticed) {
  PlanFileOnDisk file(4);
  for (int i = 0; i < 100; ++i) {
    file.Write();
    const int descriptor = open(file.path(), O_WRONLY);
    const float other = 42;
    const off_t at = static_cast<off_t>(std::filesystem::file_size(file.path()) - file.weight_bytes());
    EXPECT_EQ(pwrite(descriptor, file.bytes() + at, 1, at), 1);  // the same byte: only the time changes
    Opened mapped(file.path(), Mapping());
    EXPECT_EQ(pwrite(descriptor, &other, sizeof(other), at), 4);
    close(descriptor);
    const Status status = mapped.Create().status();
    ASSERT_FALSE(status.ok()) << "round " << i;
    ASSERT_TRUE(status.code() == Code::kFailedPrecondition || status.code() == Code::kCorrupt)
        << status.message();
  }
}

// A device with separate memory, to which weights are copied while the plan is loaded.
TEST(ChangedFile, WeightsThatChangeWhileTheyAreLoadedAreNotTaken) {
  PlanFileOnDisk file(4);
  FakeDriver driver;
  driver.controls.host_memory = false;
  const Plan plan = Plan::Open(file.path(), Mapping()).Take();
  RuntimeOptions options;
  options.log = {[](void* user, LogLevel, const char* text) {
                   if (std::strstr(text, "plan loaded")) static_cast<PlanFileOnDisk*>(user)->Overwrite(42);
                 },
                 &file, LogLevel::kDebug};
  Runtime runtime = Runtime::Create(&driver, options).Take();
  const Status status = Session::Create(runtime, plan).status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(runtime.weight_bytes(), 0u);
  EXPECT_EQ(driver.controls.live_objects, 0);
}

TEST(ChangedFile, RunningSessionsOfMappedWeightsSeeWhatIsWritten) {
  PlanFileOnDisk file(4);
  Opened mapped(file.path(), Mapping());
  Result<Session> session = mapped.Create();
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(PickFirst(&*session), 1);
  file.Overwrite(42);
  EXPECT_EQ(PickFirst(&*session), 42);
}

TEST(ChangedFile, MappedWeightsThatAreCutOffEndARunningProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PlanFileOnDisk file(4);
  Opened mapped(file.path(), Mapping());
  Result<Session> session = mapped.Create();
  const auto run = [&] {
    std::signal(SIGBUS, SIG_DFL);  // sanitizers install a handler
    file.Shorten(16);
    PickFirst(&*session);
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGBUS), "");
}

TEST(ChangedFile, DamagedWeightsAreFoundWhenThePlanIsOpened) {
  PlanFileOnDisk file(4);
  file.Overwrite(9);
  for (const uint64_t from : {uint64_t{0}, kMapWeightsFrom, kReadWeights}) {
    PlanOptions options;
    options.map_weights_from = from;
    EXPECT_EQ(Plan::Open(file.path(), options).status().code(), Code::kCorrupt);
    options.ignore_hashes = true;
    Result<Plan> plan = Plan::Open(file.path(), options);
    ASSERT_TRUE(plan.ok());
    FakeDriver driver;
    Runtime runtime = Runtime::Create(&driver).Take();
    EXPECT_TRUE(Session::Create(runtime, *plan).ok());
  }
}

}  // namespace
}  // namespace rondo
