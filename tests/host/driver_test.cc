#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "core/synthetic.h"
#include "tests/host/count_allocations.h"
#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// One kernel of each path, as a plan.
class Zoo {
 public:
  Zoo() {
    Add(Map());
    Add(Softmax());
    Add(Product(1, 300, 200));
    Add(Product(40, 300, 200));
    Add(Attention());
    plan.kernels = Span<const Kernel>(kernels);
  }

  Span<const DeviceAddress> Addresses(size_t k, std::vector<Memory>* from) {
    addresses.clear();
    for (auto& p : (*from)[k].params) addresses.push_back(reinterpret_cast<DeviceAddress>(p.data()));
    return Span<const DeviceAddress>(addresses);
  }

  Arena arena;
  PlanData plan;
  std::vector<Kernel> kernels;
  std::vector<Memory> memory;
  std::vector<DeviceAddress> addresses;

 private:
  void Add(PartMaker maker) {
    Random random(3);
    kernels.push_back(maker.Make());
    memory.emplace_back();
    memory.back().Randomise(maker, random);
  }
  PartMaker Map() {
    PartMaker maker(&arena);
    maker.loops = {30, 700};
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {1, 0});
    TapeMaker tape;
    tape.Store(out, DType::kF32, tape.Unary(TapeOp::kTanh, tape.Load(in, DType::kF32)));
    maker.part.body = maker.Keep(tape);
    return maker;
  }
  PartMaker Softmax() {
    PartMaker maker(&arena);
    maker.loops = {50, 300};
    maker.part.skeleton = Skeleton::kReduction;
    maker.part.outer = maker.part.reduced = 1;
    maker.part.scalars = 1;
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
    TapeMaker sum, divide;
    sum.Add(TapeOp::kReduceSum, TapeType::kF32, 0, sum.Unary(TapeOp::kExp, sum.Load(in, DType::kF32)));
    divide.Store(out, DType::kF32,
                 divide.Binary(TapeOp::kDiv, divide.Unary(TapeOp::kExp, divide.Load(in, DType::kF32)),
                               divide.Add(TapeOp::kScalar, TapeType::kF32, 0)));
    maker.part.stages = arena.Copy(std::vector<Stage>{{false, maker.Keep(sum)}, {false, maker.Keep(divide)}});
    return maker;
  }
  PartMaker Product(int64_t m, int64_t n, int64_t k) {
    PartMaker maker(&arena);
    maker.loops = {m, n, k};
    maker.part.skeleton = Skeleton::kContraction;
    maker.part.m = maker.part.n = maker.part.reduced = 1;
    maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 2});
    maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {2, 1})});
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
    TapeMaker tape;
    tape.Store(out, DType::kF32, tape.Add(TapeOp::kAcc, TapeType::kF32, 0));
    maker.part.epilogue = maker.Keep(tape);
    return maker;
  }
  PartMaker Attention() {
    PartMaker maker(&arena);
    maker.loops = {6, 20, 32, 100, 32};
    Part& part = maker.part;
    part.skeleton = Skeleton::kAttention;
    part.outer = part.m = part.n = part.reduced = part.features = 1;
    part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 1, 4});
    part.keys = maker.Operand(DType::kF32, Mode::kRead, {0, 3, 4});
    part.values = maker.Operand(DType::kF32, Mode::kRead, {0, 3, 2});
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {1, 0, 2});
    TapeMaker tape;
    tape.Store(out, DType::kF32, tape.Add(TapeOp::kAcc, TapeType::kF32, 0));
    part.epilogue = maker.Keep(tape);
    return maker;
  }
};

HostOptions Threads(uint32_t threads) {
  HostOptions options;
  options.threads = threads;
  options.work_per_thread = 1;
  return options;
}

TEST(HostGraph, ReplayEqualsDirectLaunchesBitByBit) {
  Zoo zoo;
  HostFixture host(Threads(2));
  Module* module = host.device->LoadModule(zoo.plan).Take();
  std::vector<Memory> direct = zoo.memory, replayed = zoo.memory;
  for (uint32_t k = 0; k < zoo.kernels.size(); ++k) {
    ASSERT_TRUE(host.device->Launch(module, k, zoo.Addresses(k, &direct), host.stream, k).ok());
  }
  ASSERT_TRUE(host.device->BeginRecord(host.stream).ok());
  for (uint32_t k = 0; k < zoo.kernels.size(); ++k) {
    ASSERT_TRUE(host.device->Launch(module, k, zoo.Addresses(k, &replayed), host.stream, k + 10).ok());
  }
  Graph* graph = host.device->EndRecord(host.stream).Take();
  for (size_t k = 0; k < zoo.kernels.size(); ++k) {
    EXPECT_TRUE(replayed[k].params == zoo.memory[k].params) << "recording must not run";
  }
  Span<const GraphNode> nodes = host.device->Nodes(graph);
  ASSERT_EQ(nodes.size(), zoo.kernels.size());
  for (uint32_t k = 0; k < nodes.size(); ++k) EXPECT_EQ(nodes[k].step, k + 10);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(host.device->LaunchGraph(graph, host.stream).ok());
    for (size_t k = 0; k < zoo.kernels.size(); ++k) EXPECT_TRUE(replayed[k].params == direct[k].params) << k;
  }
  host.device->DestroyGraph(graph);
  host.device->DestroyModule(module);
}

TEST(HostGraph, NothingAllocatesInReplayLaunchCopyOrSynchronize) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has the allocator";
  Zoo zoo;
  HostFixture host(Threads(2));
  Module* module = host.device->LoadModule(zoo.plan).Take();
  std::vector<char> bytes(1000);
  ASSERT_TRUE(host.device->BeginRecord(host.stream).ok());
  for (uint32_t k = 0; k < zoo.kernels.size(); ++k) {
    ASSERT_TRUE(host.device->Launch(module, k, zoo.Addresses(k, &zoo.memory), host.stream, k).ok());
  }
  Graph* graph = host.device->EndRecord(host.stream).Take();
  Event* event = host.device->CreateEvent().Take();
  Span<const DeviceAddress> addresses = zoo.Addresses(0, &zoo.memory);
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

TEST(HostGraph, AStreamThatWaitsForARecordingJoinsItUntilItEnds) {
  Zoo zoo;
  HostFixture host;
  Module* module = host.device->LoadModule(zoo.plan).Take();
  Stream* second = host.device->CreateStream().Take();
  Event* event = host.device->CreateEvent().Take();
  ASSERT_TRUE(host.device->BeginRecord(host.stream).ok());
  ASSERT_TRUE(host.device->Record(event, host.stream).ok());
  ASSERT_TRUE(host.device->Wait(event, second).ok());
  ASSERT_TRUE(host.device->Launch(module, 0, zoo.Addresses(0, &zoo.memory), second, 4).ok());
  EXPECT_FALSE(host.device->EndRecord(second).ok());
  Graph* graph = host.device->EndRecord(host.stream).Take();
  ASSERT_EQ(host.device->Nodes(graph).size(), 1u);
  // After the end, the second stream runs again.
  std::vector<Memory> before = zoo.memory;
  ASSERT_TRUE(host.device->Wait(event, second).ok());
  ASSERT_TRUE(host.device->Launch(module, 0, zoo.Addresses(0, &zoo.memory), second, 4).ok());
  EXPECT_FALSE(before[0].params == zoo.memory[0].params);
  host.device->DestroyGraph(graph);
  host.device->DestroyEvent(event);
  host.device->DestroyStream(second);
  host.device->DestroyModule(module);
}

TEST(HostDriver, SeveralPartsOfOneKernelAllRun) {
  Zoo zoo;
  // Parts of two kernels, the second one's parameters moved behind the first one's.
  std::vector<Part> parts = {zoo.kernels[0].parts[0], zoo.kernels[2].parts[0]};
  std::vector<Operand> moved(parts[1].operands.begin(), parts[1].operands.end());
  for (Operand& o : moved) o.param = static_cast<uint16_t>(o.param + 2);
  parts[1].operands = zoo.arena.Copy(moved);
  Kernel both;
  both.name = "both";
  both.num_params = 5;
  both.parts = zoo.arena.Copy(parts);
  HostFixture host(Threads(2));
  Module* separate = host.device->LoadModule(zoo.plan).Take();
  std::vector<Memory> want = zoo.memory;
  for (uint32_t k : {0u, 2u}) {
    ASSERT_TRUE(host.device->Launch(separate, k, zoo.Addresses(k, &want), host.stream, 0).ok());
  }
  Module* module = host.Load(both);
  std::vector<Memory> got = zoo.memory;
  std::vector<DeviceAddress> addresses;
  for (size_t k : {size_t{0}, size_t{2}}) {
    for (DeviceAddress a : zoo.Addresses(k, &got)) addresses.push_back(a);
  }
  ASSERT_TRUE(host.device->Launch(module, 0, Span<const DeviceAddress>(addresses), host.stream, 0).ok());
  EXPECT_TRUE(got[0].params == want[0].params);
  EXPECT_TRUE(got[2].params == want[2].params);
  host.device->DestroyModule(separate);
  host.device->DestroyModule(module);
}

TEST(HostDriver, AnIndexOutOfRangeIsReportedOnceByStepAndValue) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {4};
  const uint16_t index = maker.Operand(DType::kI64, Mode::kRead, {0});
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {});
  maker.sizes[1] = 10;
  Indirect indirect;
  indirect.operand = index;
  indirect.stride = 1;
  indirect.extent = 10;
  maker.operands[in].indirects = arena.Copy(std::vector<Indirect>{indirect});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  TapeMaker tape;
  tape.Store(out, DType::kF32, tape.Load(in, DType::kF32));
  maker.part.body = maker.Keep(tape);
  Memory memory;
  memory.Resize(maker);
  const int64_t values[4] = {0, 17, 3, 9};
  std::memcpy(memory.params[0].data(), values, sizeof(values));
  const Kernel kernel = maker.Make();
  HostFixture host;
  Module* module = host.Load(kernel);
  const Status status = host.Launch(module, &memory);
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_EQ(std::string(status.message()).find("step"), std::string::npos)
      << "who is told the step names it: " << status.message();
  EXPECT_NE(std::string(status.message()).find("17"), std::string::npos) << status.message();
  EXPECT_TRUE(host.device->Synchronize(host.stream, nullptr).ok()) << "reported once";
  host.device->DestroyModule(module);
}

TEST(HostDriver, AKernelThatItCannotRunIsNamed) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {4};
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  TapeMaker tape;
  const uint16_t x = tape.Load(in, DType::kF32);
  tape.Add(TapeOp::kBitNot, TapeType::kI64, 0, x);  // an integer op of a float register
  tape.Store(out, DType::kF32, x);
  tape.list.back().a = 1;
  tape.list.back().type = TapeType::kF32;
  maker.part.body = maker.Keep(tape);
  const Kernel kernel = maker.Make();
  HostFixture host;
  PlanData plan;
  plan.kernels = Span<const Kernel>(&kernel, 1);
  Result<Module*> module = host.device->LoadModule(plan);
  ASSERT_FALSE(module.ok());
  EXPECT_NE(std::string(module.status().message()).find("test_kernel"), std::string::npos);
}

TEST(HostDriver, StreamsOfOneDeviceRunFromSeveralThreadsAtOnce) {
  Zoo zoo;
  HostFixture host(Threads(3));
  Module* module = host.device->LoadModule(zoo.plan).Take();
  std::vector<Memory> want = zoo.memory;
  for (uint32_t k = 0; k < zoo.kernels.size(); ++k) {
    ASSERT_TRUE(host.device->Launch(module, k, zoo.Addresses(k, &want), host.stream, k).ok());
  }
  std::vector<std::thread> threads;
  std::vector<int> good(3, 0);
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Stream* stream = host.device->CreateStream().Take();
      for (int round = 0; round < 20; ++round) {
        std::vector<Memory> mine = zoo.memory;
        bool same = true;
        for (uint32_t k = 0; k < zoo.kernels.size(); ++k) {
          std::vector<DeviceAddress> addresses;
          for (auto& p : mine[k].params) addresses.push_back(reinterpret_cast<DeviceAddress>(p.data()));
          same &= host.device->Launch(module, k, Span<const DeviceAddress>(addresses), stream, k).ok();
          same &= mine[k].params == want[k].params;
        }
        good[t] += same;
      }
      host.device->DestroyStream(stream);
    });
  }
  for (std::thread& t : threads) t.join();
  for (int g : good) EXPECT_EQ(g, 20);
  host.device->DestroyModule(module);
}

TEST(HostDriver, MemoryThatCannotBeHadIsAnError) {
  HostFixture host;
  if (!kSanitized) {  // a sanitizer ends the process instead
    Result<DeviceAddress> much = host.device->Allocate(~uint64_t{0} - 100, 4096);
    EXPECT_FALSE(much.ok());
    EXPECT_EQ(much.status().code(), Code::kOutOfMemory);
  }
  EXPECT_EQ(host.device->Allocate(10, 3).status().code(), Code::kInvalidArgument);
  Result<DeviceAddress> none = host.device->Allocate(0, 64);
  ASSERT_TRUE(none.ok());
  host.device->Free(*none, 0);
  HostOptions options;
  options.threads = 0;
  EXPECT_FALSE(CreateHostDriver(options).ok());
  options.threads = 1;
  options.devices = 65;
  EXPECT_FALSE(CreateHostDriver(options).ok());
}

TEST(HostDriver, SyntheticWeightsAreThoseOfTheGenerator) {
  HostFixture host(Threads(2));
  std::vector<float> got(200000), want(200000);
  ASSERT_TRUE(host.device
                  ->FillSynthetic(reinterpret_cast<DeviceAddress>(got.data()), DType::kF32, got.size(), 42,
                                  0.5f, host.stream)
                  .ok());
  FillSyntheticRange(DType::kF32, 42, 0.5f, 0, want.size(), want.data());
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace rondo::test
