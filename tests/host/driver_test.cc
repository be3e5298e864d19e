// The host driver's promises beyond core/driver.h (tests/conformance).
#include <gtest/gtest.h>

#include "core/sanitized.h"
#include "tests/host/count_allocations.h"
#include "tests/host/driver_case.h"
#include "tests/host/kernel_zoo.h"

namespace rondo::test {
namespace {

std::vector<DeviceAddress> Addresses(Memory& memory) {
  std::vector<DeviceAddress> addresses;
  for (auto& param : memory.params) addresses.push_back(reinterpret_cast<DeviceAddress>(param.data()));
  return addresses;
}

HostOptions Threads(uint32_t threads) {
  HostOptions options;
  options.threads = threads;
  options.work_per_thread = 1;
  return options;
}

TEST(HostGraph, NothingAllocatesInReplayLaunchCopyOrSynchronize) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has the allocator";
  Zoo zoo;
  HostFixture host(Threads(2));
  Module* module = host.device->LoadModule(zoo.plan.data).Take();
  std::vector<char> bytes(1000);
  ASSERT_TRUE(host.device->BeginRecord(host.stream).ok());
  for (uint32_t k = 0; k < zoo.memory.size(); ++k) {
    ASSERT_TRUE(host.device->Launch(module, k, Addresses(zoo.memory[k]), host.stream, k).ok());
  }
  Graph* graph = host.device->EndRecord(host.stream).Take();
  Event* event = host.device->CreateEvent().Take();
  const std::vector<DeviceAddress> addresses = Addresses(zoo.memory[0]);
  DeviceAddress memory = host.device->Allocate(1000, 64).Take();

  const uint64_t before = Allocations();
  ASSERT_GT(before, 0u) << "the counter must be in place";
  bool ok = true;
  for (int round = 0; round < 3; ++round) {
    ok &= host.device->CopyIn(memory, bytes.data(), 1000, host.stream).ok();
    ok &= host.device->Fill(memory, 1, 10, host.stream).ok();
    ok &= host.device->LaunchGraph(graph, host.stream).ok();
    ok &= host.device->Launch(module, 0, addresses, host.stream, 1).ok();
    ok &= host.device->Record(event, host.stream).ok();
    ok &= host.device->Wait(event, host.stream).ok();
    ok &= host.device->CopyOut(bytes.data(), memory, 1000, host.stream).ok();
    ok &= host.device->Synchronize(host.stream, nullptr).ok();
  }
  EXPECT_EQ(Allocations(), before);
  EXPECT_TRUE(ok);
  host.device->Free(memory, 1000);
  host.device->DestroyEvent(event);
  host.device->DestroyGraph(graph);
  host.device->DestroyModule(module);
}

TEST(HostDriver, SeveralPartsOfOneKernelAllRun) {
  Zoo zoo;
  // The parts of two kernels, with the second one's parameters after the first one's.
  std::vector<Part> parts = {zoo.plan.data.kernels[0].parts[0], zoo.plan.data.kernels[2].parts[0]};
  std::vector<Operand> moved(parts[1].operands.begin(), parts[1].operands.end());
  for (Operand& o : moved) o.param = static_cast<uint16_t>(o.param + 2);
  parts[1].operands = zoo.plan.arena.Copy(moved);
  Kernel both;
  both.name = "both";
  both.num_params = 5;
  both.parts = zoo.plan.arena.Copy(parts);
  HostFixture host(Threads(2));
  Module* separate = host.device->LoadModule(zoo.plan.data).Take();
  std::vector<Memory> want = zoo.memory;
  for (uint32_t k : {0u, 2u}) {
    ASSERT_TRUE(host.device->Launch(separate, k, Addresses(want[k]), host.stream, 0).ok());
  }
  Module* module = host.Load(both);
  std::vector<Memory> got = zoo.memory;
  std::vector<DeviceAddress> addresses;
  for (size_t k : {size_t{0}, size_t{2}}) {
    for (DeviceAddress a : Addresses(got[k])) addresses.push_back(a);
  }
  ASSERT_TRUE(host.device->Launch(module, 0, Span<const DeviceAddress>(addresses), host.stream, 0).ok());
  EXPECT_TRUE(got[0].params == want[0].params);
  EXPECT_TRUE(got[2].params == want[2].params);
  host.device->DestroyModule(separate);
  host.device->DestroyModule(module);
}

TEST(HostDriver, OptionsOutOfRangeAreRefused) {
  HostFixture host;
  EXPECT_EQ(host.device->Allocate(10, 3).status().code(), Code::kInvalidArgument);
  HostOptions options;
  options.threads = 0;
  EXPECT_FALSE(CreateHostDriver(options).ok());
  options.threads = 1;
  options.devices = 65;
  EXPECT_FALSE(CreateHostDriver(options).ok());
}

}  // namespace
}  // namespace rondo::test
