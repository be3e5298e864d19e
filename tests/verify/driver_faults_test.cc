// The lifecycle verifier's findings for each fault of a driver under a sound plan.
#include <cstring>
#include <set>

#include "runtime/verify/guarded_driver.h"
#include "runtime/verify/host_account.h"
#include "tests/verify/chain.h"
#include "tests/verify/faulty_driver.h"

namespace rondo {
namespace {

void Spoil(DeviceAddress at) { *reinterpret_cast<uint8_t*>(at) ^= 0x10; }

// The findings for the chain on a driver with `faults`.
std::string FindingsWith(const Faults& faults, const VerifyOptions& options = {}) {
  Chain chain;
  const PlanData data = chain.MakePlan();
  Result<Plan> plan = Plan::FromData(data, {});
  if (!plan.ok()) return plan.status().message();
  const HostDriverHandle host = MakeHostDriver();
  FaultyDriver driver(host.get(), faults);
  return FindingsOf(*plan, &driver, options);
}

// Spoils a byte of the arena, `offset` from its start, after step 2.
std::string FindingsWithSpoiledByte(int64_t offset, const VerifyOptions& options = {}) {
  Faults faults;
  faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
    if (step == 2) Spoil(addresses[0] - Chain::kB + static_cast<uint64_t>(offset));
  };
  return FindingsWith(faults, options);
}

TEST(DriverFault, NoneIsFound) { EXPECT_EQ(FindingsWith(Faults()), ""); }

TEST(DriverFault, WriteBehindAnOperand) {
  EXPECT_FINDS(FindingsWithSpoiledByte(Chain::kB + 256),
               "stray write: program \"p\", step 2 (Copy \"node_2\"), device 0, byte 1536: expected the "
               "canary between "
               "buffers kept (");
}

// Each place is named once, however often the plan is opened and run, and at most 64 are named.
TEST(DriverFault, OfManyPlacesThatAStepStraysIntoTheFirst64AreNamed) {
  for (const uint64_t places : {1, 64, 65, 100}) {
    Faults faults;
    faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
      if (step != 2) return;
      for (uint64_t i = 0; i < places; ++i) Spoil(addresses[0] + 256 + 2 * i);  // every other byte of a gap
    };
    const std::string text = FindingsWith(faults);
    uint64_t named = 0;
    for (size_t at = text.find("stray write"); at != std::string::npos; at = text.find("stray write", at + 1))
      ++named;
    EXPECT_EQ(named, std::min<uint64_t>(places, 64)) << text;
  }
}

TEST(DriverFault, MemoryLookedAtSeldomIsLookedAtInTheEnd) {
  VerifyOptions options;
  options.scan_bytes = 1;
  EXPECT_FINDS(FindingsWithSpoiledByte(Chain::kB + 256, options),
               "byte 1536: expected the canary between buffers kept");
  EXPECT_FINDS(FindingsWithSpoiledByte(Chain::kB + 256, options), "which one of the last ");
}

TEST(DriverFault, MemoryForTheAccountIsLimited) {
  VerifyOptions options;
  options.host_bytes = 25599;
  EXPECT_EQ(
      FindingsWith(Faults(), options),
      "not verified: keeping account of the plan's arena and state takes 25600 bytes of host memory, more "
      "than 25599");
}

TEST(DriverFault, WriteIntoADeadBuffer) {
  EXPECT_FINDS(FindingsWithSpoiledByte(Chain::kA + 4),
               "step 2 (Copy \"node_2\"), device 0, buffer 2 \"a\" of Copy \"node_0\", byte 4: expected the "
               "poison of a "
               "buffer that ended with step 1");
}

TEST(DriverFault, WriteIntoALiveBuffer) {
  EXPECT_FINDS(FindingsWithSpoiledByte(Chain::kB + 7),
               "step 2 (Copy \"node_2\"), device 0, buffer 3 \"b\" of Copy \"node_1\", byte 7: expected its "
               "contents kept");
}

TEST(DriverFault, WriteIntoABufferNotBegun) {
  EXPECT_FINDS(FindingsWithSpoiledByte(Chain::kC), "expected the poison of a buffer that begins with step 3");
}

TEST(DriverFault, WriteBeforeTheArena) {
  EXPECT_FINDS(FindingsWithSpoiledByte(-3),
               "guard: program \"p\", step 2 (Copy \"node_2\"), device 0: expected canary");
}

TEST(DriverFault, WriteIntoTheState) {
  Faults faults;
  faults.after_launch = [](uint32_t step, Faults::Addresses addresses) {
    if (step == 5) Spoil(addresses[0] - Chain::kC + Chain::kArena + 9);
  };
  EXPECT_FINDS(FindingsWith(faults),
               "state changed: program \"p\", step 5 (Copy \"node_5\"), device 0, buffer 5 \"s\" of Copy "
               "\"node_2\", byte 9");
}

// A step writes row INDEX (0) of a state of 4 rows. The fault writes into row `row`.
std::string FindingsOfRowUpdate(int64_t row) {
  Chain chain;
  const uint32_t index = chain.AddBuffer("index", BufferKind::kConstant, 2, 256);
  chain.buffers[index].dtype = DType::kI64;
  chain.buffers[index].shape = Shape{1};
  chain.buffers[index].weight = WeightSource::kSynthetic;
  const uint32_t rows = chain.AddBuffer("rows", BufferKind::kState, 64, 256);
  Part part;
  part.outer = 1;
  part.loops = List<int64_t>(chain.arena, {16});
  Operand to = Access(chain.arena, 2, Mode::kWrite, {1});
  Indirect by;
  by.operand = 0;
  by.stride = 16;
  by.extent = 4;
  to.indirects = List<Indirect>(chain.arena, {by});
  part.operands = List<Operand>(chain.arena, {Access(chain.arena, 0, Mode::kRead, {0}, 0, DType::kI64),
                                              Access(chain.arena, 1, Mode::kRead, {1}), to});
  part.body = List<TapeInst>(chain.arena, {Load(1), Store(0, 2)});
  chain.Launch(chain.AddKernel(part, 3), {{index, 0}, {chain.c, 0}, {rows, 0}});
  const PlanData data = chain.MakePlan();
  const_cast<DeviceBytes&>(data.requirements.devices[0]).weights = 512;
  Result<Plan> plan = Plan::FromData(data, {});
  if (!plan.ok()) return plan.status().message();
  Faults faults;
  faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
    if (step == 6 && row > 0) Spoil(addresses[2] + static_cast<uint64_t>(row) * 64);
  };
  const HostDriverHandle host = MakeHostDriver();
  FaultyDriver driver(host.get(), faults);
  return FindingsOf(*plan, &driver);
}

TEST(DriverFault, WriteIntoARowThatTheIndexDoesNotName) {
  EXPECT_EQ(FindingsOfRowUpdate(0), "");
  EXPECT_FINDS(FindingsOfRowUpdate(2), "state changed: program \"p\", step 6");
}

TEST(DriverFault, WriteIntoTheWeights) {
  Faults faults;
  faults.after_launch = [](uint32_t step, Faults::Addresses addresses) {
    if (step == 3) *reinterpret_cast<uint8_t*>(addresses[0] + 5) = 0x5a;
  };
  EXPECT_FINDS(FindingsWith(faults), "weights: device 0, buffer 6 \"w\"");
}

TEST(DriverFault, WeightsLoadedWrong) {
  Faults faults;
  faults.after_synthetic = [](DeviceAddress to) { Spoil(to + 3); };
  EXPECT_FINDS(FindingsWith(faults), "weights: device 0, buffer 6 \"w\", byte 3: expected");
  EXPECT_FINDS(FindingsWith(faults), " after loading");
}

TEST(DriverFault, OutputNotWritten) {
  Faults faults;
  faults.skip = [](uint32_t step) { return step == 1; };
  EXPECT_FINDS(FindingsWith(faults),
               "not written: program \"p\", step 1 (Copy \"node_1\"), device 0, buffer 3 \"b\" of Copy "
               "\"node_1\", byte 0");
}

TEST(DriverFault, LastByteNotWritten) {
  Faults faults;
  uint8_t before = 0;
  faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
    auto* b = reinterpret_cast<uint8_t*>(step == 0 ? addresses[1] - Chain::kA + Chain::kB + 255 : 0);
    if (step == 0) before = *b;
    if (step == 1) *reinterpret_cast<uint8_t*>(addresses[1] + 255) = before;
  };
  EXPECT_FINDS(FindingsWith(faults),
               "not written: program \"p\", step 1 (Copy \"node_1\"), device 0, buffer 3 \"b\" of "
               "Copy \"node_1\", byte 255");
}

TEST(DriverFault, ReadBehindAnOperand) {
  Faults faults;
  faults.after_launch = [](uint32_t step, Faults::Addresses addresses) {
    if (step == 5)
      std::memcpy(reinterpret_cast<void*>(addresses[1]), reinterpret_cast<void*>(addresses[0] + 256), 4);
  };
  EXPECT_FINDS(FindingsWith(faults),
               "poison seen: program \"p\", device 0, buffer 1 \"out\" of Copy \"node_5\", bytes 0 to 3");
}

TEST(DriverFault, ReplayWithOtherResults) {
  Faults faults;
  DeviceAddress out = 0;
  faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
    if (step == 5) out = addresses[1];
  };
  faults.after_graph = [&](int modules) {
    if (modules == 1) Spoil(out + 17);  // later ones lie elsewhere
  };
  EXPECT_FINDS(
      FindingsWith(faults),
      "replay differs: program \"p\", device 0, buffer 1 \"out\" of Copy \"node_5\", byte 17: expected");
}

TEST(DriverFault, ReplayThatWritesBetweenBuffers) {
  Faults faults;
  DeviceAddress out = 0;
  faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
    if (step == 5) out = addresses[1];
  };
  faults.after_graph = [&](int modules) {
    if (modules == 1) Spoil(out + 256);  // later ones lie elsewhere
  };
  EXPECT_FINDS(FindingsWith(faults), "stray write: program \"p\", device 0, byte 512: expected the canary");
}

TEST(DriverFault, OtherResultsAfterOpeningAgain) {
  Faults faults;
  std::set<DeviceAddress> bases;
  DeviceAddress arena = 0;
  faults.after_launch = [&](uint32_t step, Faults::Addresses addresses) {
    if (step == 0) arena = addresses[0];
  };
  // The last steps get the same block again, because nothing else is allocated meanwhile.
  faults.after_graph = [&](int modules) {
    if (modules > 1) Spoil(arena + 256);
  };
  Faults again = faults;
  again.same_memory = true;  // so that the address stays valid
  EXPECT_FINDS(FindingsWith(again), "reload differs: program \"p\", device 0, buffer 1 \"out\"");
}

TEST(DriverFault, MemoryGivenTwice) {
  Faults faults;
  faults.same_memory = true;
  EXPECT_FINDS(FindingsWith(faults), "given twice: device 0: expected memory that nobody has; found ");
}

TEST(DriverFault, MemoryThatGrows) {
  if (verify::HeapBytes() == 0) GTEST_SKIP() << "nobody counts the heap here: a sanitizer's malloc";
  Faults faults;
  faults.leak = true;
  EXPECT_FINDS(FindingsWith(faults),
               "not flat: device 0: expected as much of the process's heap in use after each "
               "opening and closing; found at least 4");
}

TEST(DriverFault, StepThatFails) {
  Faults faults;
  faults.fail = [](uint32_t step) {
    return step == 4 ? Status::Error(Code::kInternal, "out of order") : Status::Ok();
  };
  EXPECT_FINDS(FindingsWith(faults),
               "run failed: program \"p\", device 0: expected a run step by step that ends well; "
               "found ");
}

class GuardedTest : public testing::Test {
 protected:
  Chain chain_;
  const PlanData data_ = chain_.MakePlan();
  FindingList findings_{data_};
  const HostDriverHandle host_ = MakeHostDriver();
  verify::GuardedDriver driver_{host_.get(), &findings_};

  std::string Text() const {
    std::string text;
    for (const Finding& finding : findings_.list()) text += finding.Text() + "\n";
    return text;
  }
};

TEST_F(GuardedTest, MemoryGivenBackInAnotherSize) {
  Device* device = *driver_.Open(0);
  Result<DeviceAddress> block = device->Allocate(256, 64);
  ASSERT_TRUE(block.ok());
  device->Free(*block, 255);
  EXPECT_FINDS(Text(), "freed wrongly: device 0: expected 256 bytes at ");
}

TEST_F(GuardedTest, MemoryGivenBackTwice) {
  Device* device = *driver_.Open(0);
  Result<DeviceAddress> block = device->Allocate(256, 64);
  ASSERT_TRUE(block.ok());
  device->Free(*block, 256);
  EXPECT_EQ(Text(), "");
  device->Free(*block, 256);
  EXPECT_FINDS(Text(), "freed wrongly: device 0: expected memory that is taken; found 256 bytes at ");
}

TEST_F(GuardedTest, ObjectsThatAreLeft) {
  Device* device = *driver_.Open(0);
  Result<Stream*> stream = device->CreateStream();
  Result<Event*> event = device->CreateEvent();
  Result<DeviceAddress> block = device->Allocate(100, 64);
  ASSERT_TRUE(stream.ok() && event.ok() && block.ok());
  device->DestroyEvent(*event);
  driver_.ExpectEmpty();
  const std::string text = Text();
  EXPECT_FINDS(text,
               "not given back: device 0: expected 0 bytes of device memory in use after all is closed; "
               "found 100 left");
  EXPECT_FINDS(text, "expected 0 streams in use after all is closed; found 1 left");
  EXPECT_EQ(text.find("events"), std::string::npos) << text;
  (*host_->Open(0))->DestroyStream(*stream);
}

}  // namespace
}  // namespace rondo
