// The fault walk: every allocation and every driver call fails once while a plan is opened, a runtime and a
// session are made, and programs run. Each time there is a clean error, nothing is left behind, and the
// runtime still works.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "drivers/host/host_driver.h"
#include "formats/plan/writer.h"
#include "runtime/session.h"
#include "tests/collectives/mesh_plan.h"
#include "tests/fault/fault_points.h"
#include "tests/fault/faulty_driver.h"
#include "tests/folders.h"
#include "tests/plan/call_plan.h"
#include "tests/says.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// Memory for the runtime and the plan through an embedder's hooks. Its failures are fault points also in
// builds where malloc's are not, and its balance is known in every build.
struct CountedMemory {
  int64_t blocks = 0;
  int64_t bytes = 0;
  static void* Allocate(void* user, size_t bytes, size_t alignment) {
    auto* self = static_cast<CountedMemory*>(user);
    if (!MallocIsCounted() && FaultPoint()) return nullptr;
    void* block = DefaultHostAllocator().allocate(nullptr, bytes, alignment);
    if (block == nullptr) return nullptr;
    ++self->blocks;
    self->bytes += static_cast<int64_t>(bytes);
    return block;
  }
  static void Deallocate(void* user, void* block, size_t bytes) {
    auto* self = static_cast<CountedMemory*>(user);
    --self->blocks;
    self->bytes -= static_cast<int64_t>(bytes);
    DefaultHostAllocator().deallocate(nullptr, block, bytes);
  }
  HostAllocator allocator() { return {Allocate, Deallocate, this}; }
};

struct Tensors {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

// Zeros for every input that is not state, and memory for every output that is not.
Tensors MakeTensors(const PlanData& data, uint32_t program) {
  Tensors t;
  for (const Port& port : data.programs[program].inputs) {
    const Buffer& b = data.buffers[port.buffer];
    if (port.is_state) continue;
    t.bytes.emplace_back(b.bytes, uint8_t{0});
    t.inputs.push_back({port.name, kNone, b.dtype, b.shape, t.bytes.back().data(), b.bytes});
  }
  for (const Port& port : data.programs[program].outputs) {
    const Buffer& b = data.buffers[port.buffer];
    if (port.is_state) continue;
    t.bytes.emplace_back(b.bytes, uint8_t{0});
    t.outputs.push_back({port.name, kNone, b.dtype, t.bytes.back().data(), b.bytes});
  }
  return t;
}

struct Model {
  const char* name;
  std::vector<ModelSource> sources;
  uint32_t devices = 1;  // more: MakeLayers' plan (tests/collectives) instead of `sources`
  bool calls = false;    // the plan of tests/plan/call_plan.h, which calls custom ops, instead
};

Status WriteMesh(uint32_t devices, const std::string& path) {
  MeshPlan mesh(devices);
  MakeLayers(&mesh, 2, 4, /*split=*/true);
  WriteOptions options;
  options.path = path;
  return WritePlan(mesh.data, {}, options);
}

Status WriteCalls(const std::string& path) {
  const Sample sample = MakeCallSample();
  WriteOptions options;
  options.path = path;
  return WritePlan(sample.data, {}, options);
}

class FaultWalk : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    path_ = BuildFolder() + "/fault_walk_" + GetParam().name + ".rondo";
    if (GetParam().devices > 1 || GetParam().calls) {
      Status written = GetParam().calls ? WriteCalls(path_) : WriteMesh(GetParam().devices, path_);
      ASSERT_TRUE(written.ok()) << written.message();
    } else {
      CompileOptions options;
      options.models = GetParam().sources;
      Result<CompileReport> report = Compile(options, path_);
      ASSERT_TRUE(report.ok()) << report.status().message();
    }
    HostOptions host;
    host.devices = GetParam().devices;
    ASSERT_TRUE(ops_.Register("libtest.so", RegisterTestOps).ok());
    host.ops = &ops_;
    host.allocator = memory_.allocator();
    Result<Driver*> driver = CreateHostDriver(host);
    ASSERT_TRUE(driver.ok()) << driver.status().message();
    host_ = *driver;
    driver_ = std::make_unique<FaultyDriver>(host_);
  }
  void TearDown() override {
    driver_.reset();
    if (host_ != nullptr) DestroyHostDriver(host_);
    EXPECT_EQ(memory_.blocks, 0);
    EXPECT_EQ(memory_.bytes, 0);
    fs::remove(path_);
  }

  Result<Plan> OpenPlan() {
    HostAllocator allocator = memory_.allocator();
    PlanOptions options;
    options.allocator = &allocator;
    return Plan::Open(path_.c_str(), options);
  }
  Result<Runtime> MakeRuntime() {
    static const uint32_t kDevices[] = {0, 1, 2};
    HostAllocator allocator = memory_.allocator();
    RuntimeOptions options;
    options.allocator = &allocator;
    options.devices = {kDevices, GetParam().devices};
    return Runtime::Create(driver_.get(), options);
  }

  // Calls `step` repeatedly; each call fails a later point, until no point is left. `step` must leave nothing
  // behind. `after` is called after each failure.
  void Walk(const char* what, const std::function<Status()>& step, const std::function<void()>& after) {
    ASSERT_TRUE(step().ok()) << "the step works without faults";
    uint64_t throwing = 0, harmless = 0;
    const int64_t calls = driver_->balance().calls;
    ASSERT_TRUE(step().ok());
    const int64_t driver_points = driver_->balance().calls - calls;
    uint64_t point = 0;
    for (;; ++point) {
      const int64_t live = LiveBlocks();
      const CountedMemory memory = memory_;
      const DeviceBalance device = driver_->balance();
      ArmFaults(point, GetParam().devices > 1);  // launch threads count as well
      Status status = step();
      const FaultCount count = DisarmFaults();
      if (!count.fired) {
        EXPECT_TRUE(status.ok()) << status.message();
        throwing = count.throwing;
        break;
      }
      // Some failures change nothing, for example in the text of an error that is then not needed.
      if (status.ok()) ++harmless;
      EXPECT_TRUE(status.ok() || status.message()[0] != '\0');
      EXPECT_FALSE(NamesAStepTwice(status.message())) << status.message();
      const bool asked = std::strstr(status.message(), "as asked") != nullptr;
      EXPECT_TRUE(status.ok() || asked || status.code() == Code::kOutOfMemory || status.code() == Code::kIo)
          << what << ", point " << point << ": " << status.message();
      status = Status();
      after();
      EXPECT_EQ(LiveBlocks(), live) << what << ", point " << point;
      EXPECT_EQ(memory_.blocks, memory.blocks) << what << ", point " << point;
      EXPECT_EQ(memory_.bytes, memory.bytes) << what << ", point " << point;
      EXPECT_EQ(driver_->balance().objects, device.objects) << what << ", point " << point;
      EXPECT_EQ(driver_->balance().bytes, device.bytes) << what << ", point " << point;
      if (HasFailure()) return;
    }
    std::printf("%-18s %-8s %6llu points: %lld driver calls, %llu allocations", GetParam().name, what,
                static_cast<unsigned long long>(point), static_cast<long long>(driver_points),
                static_cast<unsigned long long>(point) - static_cast<unsigned long long>(driver_points));
    if (harmless != 0) std::printf(", %llu of them harmless", static_cast<unsigned long long>(harmless));
    std::printf("\n");
    EXPECT_LE(harmless, point / 4) << what << ": failures go unnoticed";
    EXPECT_EQ(throwing, 0u) << what << ": code without exceptions cannot survive a throwing new";
    visited_ += point;
  }

  // Every output of every program, in order, from a new session.
  std::vector<uint8_t> Results(const Runtime& runtime, const Plan& plan) {
    std::vector<uint8_t> all;
    Result<Session> session = Session::Create(runtime, plan);
    EXPECT_TRUE(session.ok()) << session.status().message();
    for (uint32_t p = 0; session.ok() && p < plan.data().programs.size(); ++p) {
      Tensors t = MakeTensors(plan.data(), p);
      Status status = session->Run(p, t.inputs, t.outputs);
      EXPECT_TRUE(status.ok()) << status.message();
      for (const Output& out : t.outputs) {
        all.insert(all.end(), static_cast<uint8_t*>(out.data), static_cast<uint8_t*>(out.data) + out.bytes);
      }
    }
    return all;
  }

  CountedMemory memory_;
  OpRegistry ops_;
  Driver* host_ = nullptr;
  std::unique_ptr<FaultyDriver> driver_;
  std::string path_;
  uint64_t visited_ = 0;
};

TEST_P(FaultWalk, EveryAllocationAndDriverCallMayFail) {
  {
    Result<Runtime> runtime = MakeRuntime();
    ASSERT_TRUE(runtime.ok());
    Walk(
        "open", [&] { return OpenPlan().status(); }, [] {});
    Walk(
        "runtime", [&] { return MakeRuntime().status(); }, [] {});
    Result<Plan> plan = OpenPlan();
    ASSERT_TRUE(plan.ok());
    const std::vector<uint8_t> expected = Results(*runtime, *plan);

    uint64_t failures = 0;
    Walk(
        "session", [&] { return Session::Create(*runtime, *plan).status(); },
        [&] {
          EXPECT_EQ(runtime->session_count(), 0u);
          EXPECT_EQ(runtime->weight_bytes(), 0u);
          EXPECT_EQ(runtime->metrics().plans, 0u);
          // Making and running a session costs more than the failure, so it is done for every fourth one.
          if (failures++ % 4 == 0) {
            EXPECT_EQ(Results(*runtime, *plan), expected);
          }
        });
    EXPECT_EQ(Results(*runtime, *plan), expected);

    for (uint32_t p = 0; p < plan->data().programs.size(); ++p) {
      Tensors t = MakeTensors(plan->data(), p);
      Result<Session> session = Session::Create(*runtime, *plan);
      ASSERT_TRUE(session.ok());
      Walk(
          "run", [&] { return session->Run(p, t.inputs, t.outputs); },
          [&] {
            EXPECT_FALSE(session->status().ok()) << "a failed run sticks to its session";
            *session = Session();
            Result<Session> next = Session::Create(*runtime, *plan);
            ASSERT_TRUE(next.ok()) << next.status().message();
            *session = next.Take();
            EXPECT_EQ(Results(*runtime, *plan), expected) << "other sessions of the runtime work";
          });
    }
    EXPECT_EQ(Results(*runtime, *plan), expected);
  }
  EXPECT_EQ(driver_->balance().objects, 0);
  EXPECT_EQ(driver_->balance().bytes, 0);
  std::printf("%-18s all      %6llu points\n", GetParam().name, static_cast<unsigned long long>(visited_));
  EXPECT_GT(visited_, 50u);
}

std::string DataPath(const char* name) { return SourceFolder() + "/tests/data/" + name; }

// Tests the walks' check of messages.
TEST(Messages, ThatNameAStepTwiceAreFound) {
  EXPECT_TRUE(NamesAStepTwice("step 4 (Add \"a\"): waiting: step 4 failed"));
  EXPECT_FALSE(NamesAStepTwice("step 4 (Add \"a\"): it waits for step 41 and step by step for others"));
}

INSTANTIATE_TEST_SUITE_P(
    Models, FaultWalk,
    testing::Values(
        Model{"pycoder",
              {{"prefill", DataPath("pycoder/prefill64.onnx")}, {"decode", DataPath("pycoder/decode.onnx")}}},
        Model{"llama_decode", {{"main", DataPath("fixtures/llama_decode_op23/model.onnx")}}},
        Model{"mobilenetv2", {{"main", DataPath("fixtures/mobilenetv2/model.onnx")}}},
        Model{"two_devices", {}, 2}, Model{"three_devices", {}, 3}, Model{"custom_ops", {}, 1, true}),
    [](const auto& info) { return std::string(info.param.name); });

// Making the host driver: its memory, and its threads.
TEST(FaultWalkOfTheDriver, EveryAllocationAndThreadMayFail) {
  int64_t running = 0;
  HostOptions options;
  options.threads = 4;
  options.thread_hooks = {[](void* user, void* (*entry)(void*), void* argument, void** thread) {
                            if (FaultPoint()) return 11;
                            FaultPause pause;
                            const int error = DefaultThreadHooks().start(nullptr, entry, argument, thread);
                            if (error == 0) ++*static_cast<int64_t*>(user);
                            return error;
                          },
                          [](void* user, void* thread) {
                            DefaultThreadHooks().join(nullptr, thread);
                            --*static_cast<int64_t*>(user);
                          },
                          &running};
  uint64_t point = 0;
  for (;; ++point) {
    ArmFaults(point);
    Result<Driver*> driver = CreateHostDriver(options);
    const FaultCount count = DisarmFaults();
    if (driver.ok()) DestroyHostDriver(*driver);
    EXPECT_EQ(running, 0);
    EXPECT_NE(driver.ok(), count.fired);
    if (!count.fired) break;
    EXPECT_EQ(driver.status().code(), Code::kOutOfMemory) << driver.status().message();
  }
  std::printf("%-18s driver   %6llu points\n", "host", static_cast<unsigned long long>(point));
  EXPECT_GE(point, 3u);
}

}  // namespace
}  // namespace rondo
