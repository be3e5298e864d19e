// Modules, launches, and their errors.
#include <cstring>

#include "tests/conformance/conformance.h"
#include "tests/host/driver_case.h"
#include "tests/host/kernel_zoo.h"
#include "tests/host/reference.h"

namespace rondo::test {
namespace {

class Kernels : public Conformance {
 protected:
  Kernels() : kernels_(kElements) {}
  // Launches kPick with `indices`.
  void Pick(Module* module, std::vector<int64_t> indices, DeviceAddress out, uint32_t step) {
    Launch(module, SimpleKernels::kPick, {Put(indices), Put(Counting(2, SimpleKernels::kTable)), out}, step);
  }
  SimpleKernels kernels_;
};
CONFORMANCE_SUITE(Kernels);

TEST_P(Kernels, ComputeWhatTheirContractsSay) {
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  const DeviceAddress a = Put(Counting(1)), b = Put(Floats(kElements, 3)), sum = Take(kBytes),
                      product = Take(kBytes), picked = Take(16);
  Launch(module, SimpleKernels::kAdd, {a, b, sum});
  Launch(module, SimpleKernels::kMul, {a, b, product});
  Pick(module, {9, 0, 4, 4}, picked, 0);
  Floats want = Counting(1);
  for (float& x : want) x += 3;
  EXPECT_EQ(Get(sum), want);
  EXPECT_EQ(Get(product), Counting(3));
  EXPECT_EQ(Get(picked, 4), (Floats{18, 0, 8, 8}));
}

TEST_P(Kernels, OfEverySkeletonAgreeWithTheReference) {
  NEEDS(kEverySkeleton);
  Zoo zoo;
  Module* module = Load(zoo.plan);
  ASSERT_NE(module, nullptr);
  for (uint32_t k = 0; k < zoo.memory.size(); ++k) {
    test::Memory want = zoo.memory[k], got = zoo.memory[k];
    std::vector<DeviceAddress> addresses;
    for (auto& param : want.params) addresses.push_back(Put(param));
    EXPECT_FALSE(RunReference(zoo.plan.data.kernels[k], want.Spans()));
    Launch(module, k, addresses, k);
    for (size_t p = 0; p < addresses.size(); ++p)
      got.params[p] = Get<char>(addresses[p], got.params[p].size());
    EXPECT_EQ(Difference(zoo.makers[k], want, got, {1e-4, 1e-4}), "") << "kernel " << k;
  }
}

TEST_P(Kernels, AnIndexOutOfRangeIsToldOnceWithItsStep) {
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  const DeviceAddress out = Take(16);
  for (int64_t index : {10, -1, 17}) {
    Pick(module, {0, index, 3, 9}, out, 41);
    uint32_t step = kNone;
    const Status bad = Synchronize(&step);
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.code(), Code::kOutOfRange) << bad.message();
    EXPECT_EQ(step, 41u);
    EXPECT_EQ(std::string(bad.message()).find("step"), std::string::npos)
        << "who is told the step names it: " << bad.message();
    if (GetParam()->Lacks(Feature::kNamesIndex).empty()) {
      EXPECT_NE(std::string(bad.message()).find(" " + std::to_string(index) + " "), std::string::npos)
          << bad.message();
    }
    ExpectOk(Synchronize(&step));
  }
  Pick(module, {1, 2, 3, 9}, out, 42);
  EXPECT_EQ(Get(out, 4), (Floats{2, 4, 6, 18}));
}

TEST_P(Kernels, TheFirstOfSeveralFaultsIsTold) {
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  const DeviceAddress out = Take(16), table = Put(Counting(2, SimpleKernels::kTable));
  const DeviceAddress bad = Put(std::vector<int64_t>{0, 1, 2, 10});
  for (uint32_t step : {7u, 5u, 6u}) Launch(module, SimpleKernels::kPick, {bad, table, out}, step);
  uint32_t step = kNone;
  EXPECT_FALSE(Synchronize(&step).ok());
  EXPECT_EQ(step, 7u);
  ExpectOk(Synchronize(&step));
}

TEST_P(Kernels, FaultsAreToldByTheStreamThatTheyHappenedOn) {
  NEEDS_OF_INFO(driver_->Info().max_streams > 1, "second stream");
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  Stream* second = MakeStream();
  const DeviceAddress out = Take(16), table = Put(Counting(2, SimpleKernels::kTable));
  Launch(module, SimpleKernels::kPick, {Put(std::vector<int64_t>{0, 1, 2, 10}), table, out}, 3, second);
  Sync();
  uint32_t step = kNone;
  EXPECT_FALSE(device_->Synchronize(second, &step).ok());
  EXPECT_EQ(step, 3u);
}

TEST_P(Kernels, ThatAreNotThereOrLackAddressesAreRefused) {
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  const DeviceAddress a = Put(Counting(1));
  const std::vector<DeviceAddress> two = {a, a}, three = {a, a, a};
  EXPECT_EQ(device_->Launch(module, 3, three, stream_, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(device_->Launch(module, SimpleKernels::kAdd, two, stream_, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(Get(a), Counting(1));
}

TEST_P(Kernels, ThatTheDriverCannotRunAreRefusedByName) {
  NEEDS(kRefusesKernels);
  const std::shared_ptr<void> code = GetParam()->AddCode(&kernels_.plan.data);
  PlanData spoilt = kernels_.plan.data;
  std::vector<Kernel> kernels(spoilt.kernels.begin(), spoilt.kernels.end());
  kernels[0].name = "the_spoilt_one";
  GetParam()->Spoil(&spoilt, &kernels, kernels_.plan.arena);
  spoilt.kernels = kernels;
  const std::string held = Held();
  Result<Module*> module = device_->LoadModule(spoilt);
  ASSERT_FALSE(module.ok());
  EXPECT_NE(std::string(module.status().message()).find("the_spoilt_one"), std::string::npos)
      << module.status().message();
  EXPECT_EQ(Held(), held);
  // The same plan without the fault loads.
  module = device_->LoadModule(kernels_.plan.data);
  ASSERT_TRUE(module.ok()) << module.status().message();
  device_->DestroyModule(*module);
}

TEST_P(Kernels, OfTwoModulesDoNotMix) {
  SimpleKernels other(kElements / 2);
  Module *first = Load(kernels_.plan), *second = Load(other.plan);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const DeviceAddress a = Put(Counting(1)), b = Put(Counting(1)), out = Put(Floats(kElements, -1));
  Launch(second, SimpleKernels::kAdd, {a, b, out});
  Floats half = Counting(2);
  std::fill(half.begin() + kElements / 2, half.end(), -1.0f);
  EXPECT_EQ(Get(out), half);
  Launch(first, SimpleKernels::kAdd, {a, b, out});
  EXPECT_EQ(Get(out), Counting(2));
}

TEST_P(Kernels, AreLoadedAgainAndAgain) {
  const std::shared_ptr<void> code = GetParam()->AddCode(&kernels_.plan.data);
  const std::string held = Held();
  for (int round = 0; round < 20; ++round) {
    Result<Module*> module = device_->LoadModule(kernels_.plan.data);
    ASSERT_TRUE(module.ok()) << module.status().message();
    device_->DestroyModule(*module);
  }
  EXPECT_EQ(Held(), held);
}

}  // namespace
}  // namespace rondo::test
