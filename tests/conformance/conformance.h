// Conformance: one device of the driver under test, for one test. At its end it frees everything that the
// test took through it, and the driver must then hold nothing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/driver_under_test.h"
#include "tests/host/kernel_plan.h"

// Skips the test, with the driver's reason, if the driver lacks Feature::`feature`.
#define NEEDS(feature)                                                                         \
  if (const std::string needs_lack = GetParam()->Lacks(Feature::feature); !needs_lack.empty()) \
  GTEST_SKIP() << GetParam()->name() << " lacks " #feature ": " << needs_lack
// Skips the test if the driver's DriverInfo has `has` unset.
#define NEEDS_OF_INFO(has, what) \
  if (!(has)) GTEST_SKIP() << GetParam()->name() << ": its DriverInfo has no " what

namespace rondo::test {

using Floats = std::vector<float>;

// Kernels that every driver runs.
struct SimpleKernels {
  // Over `elements` floats: (a, b, out = a + b) and (a, b, out = a * b).
  explicit SimpleKernels(int64_t elements);

  static constexpr int64_t kTable = 10, kPicks = 4;
  static constexpr uint32_t kAdd = 0, kMul = 1;
  // (indices i64 [kPicks], table f32 [kTable], out f32 [kPicks]): out[i] = table[indices[i]], checked.
  static constexpr uint32_t kPick = 2;
  KernelPlan plan;
};

class Conformance : public testing::TestWithParam<DriverUnderTest*> {
 protected:
  static constexpr int64_t kElements = 1000;
  static constexpr uint64_t kBytes = kElements * sizeof(float);

  void SetUp() override { Open(1); }
  void TearDown() override;
  // Skips the test if the driver cannot be made on this machine.
  void Open(uint32_t devices, const OpRegistry* ops = nullptr);

  // Memory with `bytes` bytes of `data`, or uninitialised.
  DeviceAddress Take(uint64_t bytes, uint64_t alignment = 256);
  template <typename T>
  DeviceAddress Put(const std::vector<T>& data) {
    const DeviceAddress to = Take(data.size() * sizeof(T));
    Write(to, data);
    return to;
  }
  template <typename T>
  void Write(DeviceAddress to, const std::vector<T>& data) {
    ExpectOk(device_->CopyIn(to, data.data(), data.size() * sizeof(T), stream_));
    Sync();
  }
  // The elements there once all work of `stream` (null: stream_) is done.
  template <typename T = float>
  std::vector<T> Get(DeviceAddress from, size_t elements = kElements, Stream* stream = nullptr) {
    std::vector<T> values(elements);
    ExpectOk(
        device_->CopyOut(values.data(), from, elements * sizeof(T), stream == nullptr ? stream_ : stream));
    Sync(stream);
    return values;
  }
  // Waits, and expects no error.
  void Sync(Stream* stream = nullptr);
  Status Synchronize(uint32_t* step) { return device_->Synchronize(stream_, step); }
  static void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

  // Loads the kernels with this driver's code. Null, and the test fails, if that fails.
  Module* Load(KernelPlan& plan);
  void Launch(Module* module, uint32_t kernel, const std::vector<DeviceAddress>& addresses, uint32_t step = 0,
              Stream* stream = nullptr) {
    ExpectOk(device_->Launch(module, kernel, addresses, stream == nullptr ? stream_ : stream, step));
  }
  // Records the work that `work` gives stream_, as a graph.
  template <typename Work>
  Graph* Record(Work work) {
    ExpectOk(device_->BeginRecord(stream_));
    work();
    return Keep(device_->EndRecord(stream_));
  }
  Graph* Keep(Result<Graph*> graph);
  Stream* MakeStream();
  Event* MakeEvent();
  void Replay(Graph* graph, Stream* stream = nullptr) {
    ExpectOk(device_->LaunchGraph(graph, stream == nullptr ? stream_ : stream));
  }
  std::string Held() const { return GetParam()->Held(driver_); }

  Driver* driver_ = nullptr;
  Device* device_ = nullptr;
  Stream* stream_ = nullptr;

 private:
  std::vector<std::shared_ptr<void>> code_;
  std::vector<std::pair<DeviceAddress, uint64_t>> blocks_;
  std::vector<Module*> modules_;
  std::vector<Graph*> graphs_;
  std::vector<Event*> events_;
  std::vector<Stream*> streams_;
};

// 0, 1, 2, ... times `factor`.
Floats Counting(float factor, size_t elements = 1000);

// Runs the tests of `Suite` for each of these drivers.
#define CONFORMANCE_SUITE_OF(Suite, drivers)                                                           \
  INSTANTIATE_TEST_SUITE_P(Of, Suite, testing::ValuesIn(drivers),                                      \
                           [](const testing::TestParamInfo<::rondo::test::DriverUnderTest*>& driver) { \
                             return driver.param->name();                                              \
                           })
#define CONFORMANCE_SUITE(Suite) CONFORMANCE_SUITE_OF(Suite, ::rondo::test::DriversOfOneDevice())

}  // namespace rondo::test
