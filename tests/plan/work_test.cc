// The work of verifying and checking a plan is proportional to its size, whatever it contains.
#include <gtest/gtest.h>
#include <time.h>

#include <functional>
#include <vector>

#include "formats/plan/encode.h"
#include "tests/plan/plan_maker.h"

namespace rondo {
namespace {

double Seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Limits that hold also on slow CPUs; the promise is 2 s a megabyte. Sanitizers need more time.
#ifdef __SANITIZE_ADDRESS__
constexpr double kBase = 4, kEachMegabyte = 4;
#else
constexpr double kBase = 0.6, kEachMegabyte = 0.3;
#endif

// Verifies and checks within the time limit, whatever the result.
Status WithinTheLimit(const PlanData& plan) {
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(EncodePlan(plan, &bytes).ok());
  const double start = Seconds();
  Status status = VerifyPlan(plan);
  const double verified = Seconds();
  if (status.ok()) status = CheckPlan(plan);
  const double checked = Seconds(), megabytes = static_cast<double>(bytes.size()) * 1e-6;
  testing::Test::RecordProperty("megabytes", std::to_string(megabytes));
  testing::Test::RecordProperty("verifier", std::to_string(verified - start));
  testing::Test::RecordProperty("checker", std::to_string(checked - verified));
  EXPECT_LT(verified - start, kBase + kEachMegabyte * megabytes);
  EXPECT_LT(checked - verified, kBase + kEachMegabyte * megabytes);
  return status;
}

std::vector<Guard> SomeGuards(Arena& a, size_t count) {
  Guard guard;
  guard.stride = 1;
  guard.extent = 64;
  guard.strides = List<int64_t>(a, {0});
  return std::vector<Guard>(count, guard);
}

TEST(WorkOfThePlan, LoadsOfAnOperandWithManyGuards) {
  Maker m;
  Part p = Elementwise(m.arena);
  Operand from = p.operands[0];
  from.guards = ListOf(m.arena, SomeGuards(m.arena, 40000));
  p.operands = List<Operand>(m.arena, {from, p.operands[1]});
  p.skeleton = Skeleton::kReduction;
  p.outer = 0;
  p.reduced = 1;
  std::vector<TapeInst> tape(4000, Load(0));
  tape.push_back(Store(0, 1));
  p.body = {};
  Stage stage;
  stage.tape = ListOf(m.arena, tape);
  p.stages = ListOf(m.arena, std::vector<Stage>(20, stage));
  m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
  const Status status = WithinTheLimit(m.Make());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(WorkOfThePlan, IndicesThatAllHaveManyGuards) {
  Maker m;
  Part p = Elementwise(m.arena);
  Indirect by;
  by.operand = 2;
  by.extent = 64;
  Operand from = p.operands[0], index = Access(m.arena, 2, Mode::kRead, {1}, 0, DType::kI32);
  from.indirects = ListOf(m.arena, std::vector<Indirect>(40000, by));
  index.guards = ListOf(m.arena, SomeGuards(m.arena, 40000));
  p.operands = List<Operand>(m.arena, {from, p.operands[1], index});
  const uint32_t ids = m.AddBuffer("ids", BufferKind::kState, 64, 0);
  m.buffers[ids].dtype = DType::kI32;
  m.Launch(m.AddKernel(p, 3), {{m.kIn, 0}, {m.kOut, 0}, {ids, 0}});
  const Status status = WithinTheLimit(m.Make());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(WorkOfThePlan, StoresOfAnOperandWithManyGuards) {
  Maker m;
  Part p = Elementwise(m.arena);
  Operand to = p.operands[1];
  to.guards = ListOf(m.arena, SomeGuards(m.arena, 30000));
  p.operands = List<Operand>(m.arena, {p.operands[0], to});
  std::vector<TapeInst> body = {Load(0)};
  body.resize(4000, Store(0, 1));
  p.body = ListOf(m.arena, body);
  m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
  (void)WithinTheLimit(m.Make());
}

TEST(WorkOfThePlan, StagesOfAPartWithManyOperands) {
  Maker m;
  Part p = Elementwise(m.arena);
  p.skeleton = Skeleton::kReduction;
  p.outer = 0;
  p.reduced = 1;
  std::vector<Operand> operands = {p.operands[0], p.operands[1]};
  operands.resize(4000, p.operands[0]);
  p.operands = ListOf(m.arena, operands);
  Stage stage;
  stage.tape = p.body;
  p.body = {};
  p.stages = ListOf(m.arena, std::vector<Stage>(40000, stage));
  m.Launch(m.AddKernel(p, 2), {{m.kIn, 0}, {m.kOut, 0}});
  const Status status = WithinTheLimit(m.Make());
  EXPECT_TRUE(status.ok()) << status.message();
}

// Operands whose boxes are cut into 81 and 32 pieces when they are compared; no pieces overlap.
TEST(WorkOfThePlan, PairsOfOperandsInManyPieces) {
  Maker m;
  m.arena_bytes = 1 << 26;
  Part p;
  p.outer = 5;
  p.loops = List<int64_t>(m.arena, {9, 9, 9, 9, 9});
  std::vector<Operand> operands;
  std::vector<TapeInst> body = {Number(1)};
  for (int64_t i = 0; i < 2000; ++i) {
    // Strides are 3 times even powers, or 3 times odd powers, of 4.
    operands.push_back(
        i % 2 == 0 ? Access(m.arena, 0, Mode::kWrite, {196608, 12288, 768, 48, 3}, 3 * (1 + 16 + 256 + 4096))
                   : Access(m.arena, 0, Mode::kWrite, {786432, 49152, 3072, 192, 12}, 1));
    body.push_back(Store(0, static_cast<uint16_t>(i)));
  }
  p.operands = ListOf(m.arena, operands);
  p.body = ListOf(m.arena, body);
  const uint32_t a = m.AddBuffer("a", kTemp, 8 << 20, 4096);
  m.Launch(m.AddKernel(p, 1), {{a, 0}});
  m.Copy(m.kIn, m.kOut);
  const Status status = WithinTheLimit(m.Make());
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(std::string(status.message()).find("more work to check than its size explains"),
            std::string::npos)
      << status.message();
}

// ------------------------------------------------------------------------- what a large model has

TEST(WorkOfThePlan, AChainThatReusesThreePlacesPasses) {
  for (uint32_t streams : {1u, 3u}) {
    Maker m;
    const uint32_t kernel = m.AddKernel(Elementwise(m.arena), 2);
    constexpr uint32_t kSteps = 50000;
    m.events = streams > 1 ? kSteps : 0;
    uint32_t previous = m.kIn;
    for (uint32_t i = 0; i < kSteps; ++i) {
      const uint32_t next =
          i + 1 == kSteps ? m.kOut : m.AddBuffer("t", kTemp, 64, 512 + 256 * uint64_t{i % 3});
      Step& step = m.Launch(kernel, {{previous, 0}, {next, 0}}, i % streams);
      if (streams > 1) {
        step.records = i;
        if (i > 0) step.waits = List<uint32_t>(m.arena, {i - 1});
      }
      previous = next;
    }
    const Status status = WithinTheLimit(m.Make());
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(WorkOfThePlan, AChainInPlacePasses) {
  Maker m;
  const uint32_t kernel = m.AddKernel(Elementwise(m.arena), 2);
  uint32_t previous = m.AddBuffer("t", kTemp, 64, 512);
  m.Copy(m.kIn, previous);
  for (uint32_t i = 0; i < 30000; ++i) {
    const uint32_t next = m.AddBuffer("t", kTemp, 64, 512, previous);
    m.Launch(kernel, {{previous, 0}, {next, 0}});
    previous = next;
  }
  m.Copy(previous, m.kOut);
  const Status status = WithinTheLimit(m.Make());
  EXPECT_TRUE(status.ok()) << status.message();
}

// A recurrent layer: each step reads the result of the one before, and the end reads all results.
TEST(WorkOfThePlan, ASequenceWrittenStepByStepPasses) {
  Maker m;
  constexpr int64_t kSteps = 20000;
  m.arena_bytes = 1 << 24;
  const uint32_t kernel = m.AddKernel(Elementwise(m.arena), 2);
  const uint32_t all = m.AddBuffer("all", kTemp, kSteps * 64, 4096);
  m.Copy(m.kIn, all);
  for (uint64_t i = 1; i < kSteps; ++i) m.Launch(kernel, {{all, (i - 1) * 256}, {all, i * 256}});
  Part p = Elementwise(m.arena, kSteps);
  m.Launch(m.AddKernel(p, 2), {{all, 0}, {m.kOut, 0}});
  const Status status = WithinTheLimit(m.Make());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(WorkOfThePlan, ManyConstantsOfTheSameBytesPass) {
  Maker m;
  const uint32_t kernel = m.AddKernel(Elementwise(m.arena), 2);
  for (int i = 0; i < 30000; ++i)
    m.Launch(kernel, {{m.AddBuffer("c", BufferKind::kConstant, 64, 0), 0}, {m.kOut, 0}});
  const Status status = WithinTheLimit(m.Make());
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace rondo
