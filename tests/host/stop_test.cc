// Kernels that would run for centuries, one for each path, end soon after a request to stop.
#include "core/stop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>

#include "tests/host/driver_case.h"

namespace rondo::test {
namespace {

constexpr int64_t kEndless = int64_t{1}
                             << 40;  // the extent of loop 0 or the reduced loop; no operand moves along it

struct Case {
  const char* name;
  Skeleton skeleton;
  DType dtype;
  std::vector<int64_t> loops;
  int outer, m, n, reduced, features;
};

const Case kCases[] = {
    {"a map", Skeleton::kMap, DType::kF32, {kEndless, 300}, 2, 0, 0, 0, 0},
    {"many rows", Skeleton::kReduction, DType::kF32, {kEndless, 40}, 1, 0, 0, 1, 0},
    {"a long row", Skeleton::kReduction, DType::kF32, {2, kEndless}, 1, 0, 0, 1, 0},
    {"a single long row", Skeleton::kReduction, DType::kF32, {kEndless}, 0, 0, 0, 1, 0},
    {"long columns", Skeleton::kReduction, DType::kF32, {kEndless, 64}, 1, 0, 0, 1, 0},
    {"a long sum of doubles", Skeleton::kMatMul, DType::kF64, {3, 5, kEndless}, 0, 1, 1, 1, 0},
    {"many products of a few rows", Skeleton::kMatMul, DType::kF32, {kEndless, 2, 70, 40}, 1, 1, 1, 1, 0},
    {"many products", Skeleton::kMatMul, DType::kF32, {kEndless, 50, 70, 40}, 1, 1, 1, 1, 0},
    {"many products of bytes", Skeleton::kMatMul, DType::kU8, {kEndless, 50, 70, 40}, 1, 1, 1, 1, 0},
    {"many pictures of bytes", Skeleton::kConvolution, DType::kI8, {kEndless, 1, 20, 9, 8, 3}, 1, 2, 1, 2, 0},
    {"many pictures of channels of bytes",
     Skeleton::kConvolution,
     DType::kU8,
     {kEndless, 20, 1, 9, 1, 3},
     1,
     2,
     1,
     2,
     0},
    {"many rows of a product", Skeleton::kMatMul, DType::kF32, {kEndless, 70, 40}, 0, 1, 1, 1, 0},
    {"many pictures", Skeleton::kConvolution, DType::kF32, {kEndless, 2, 20, 9, 8, 3}, 1, 2, 1, 2, 0},
    {"many planes", Skeleton::kConvolution, DType::kF32, {1, kEndless, 1, 9, 1, 3}, 1, 2, 1, 2, 0},
    {"many groups of channels",
     Skeleton::kConvolution,
     DType::kF32,
     {1, kEndless, 20, 9, 8, 3},
     1,
     2,
     1,
     2,
     0},
    {"attention", Skeleton::kAttention, DType::kF32, {kEndless, 9, 20, 30, 40}, 1, 1, 1, 1, 1},
    {"attention of doubles", Skeleton::kAttention, DType::kF64, {kEndless, 9, 20, 30, 40}, 1, 1, 1, 1, 1},
};

// An operand that moves only along loop `along`, or not at all if that loop is endless.
uint16_t OperandAlong(PartMaker& maker, DType dtype, Mode mode, size_t along) {
  const std::vector<int64_t> loops = maker.loops;
  for (int64_t& extent : maker.loops) extent = extent == kEndless ? 1 : extent;
  const uint16_t operand = maker.Operand(dtype, mode, {static_cast<int>(along)});
  maker.loops = loops;
  if (loops[along] == kEndless) {
    Span<int64_t> strides = maker.arena->New<int64_t>(loops.size());
    maker.operands[operand].strides = strides;
  }
  return operand;
}

void Fill(const Case& c, PartMaker& maker) {
  Part& part = maker.part;
  maker.loops = c.loops;
  part.skeleton = c.skeleton;
  part.outer = static_cast<uint8_t>(c.outer);
  part.m = static_cast<uint8_t>(c.m);
  part.n = static_cast<uint8_t>(c.n);
  part.reduced = static_cast<uint8_t>(c.reduced);
  part.features = static_cast<uint8_t>(c.features);
  part.acc_type = NaturalType(c.dtype);
  const size_t last = c.loops.size() - 1;
  // With adjacent output channels, or with groups of one channel.
  const bool convolution = c.skeleton == Skeleton::kConvolution;
  const bool channels = convolution && c.dtype == DType::kU8;
  const size_t n = channels ? 1 : convolution ? 2 : static_cast<size_t>(c.outer + c.m);
  const uint16_t in = OperandAlong(maker, c.dtype, Mode::kRead, channels ? n : last);
  TapeMaker tape;
  if (c.skeleton == Skeleton::kMap || c.skeleton == Skeleton::kReduction) {
    const bool map = c.skeleton == Skeleton::kMap;
    const uint16_t out = OperandAlong(maker, c.dtype, Mode::kWrite, map ? last : 0);
    if (map) {
      tape.Store(out, c.dtype, tape.Load(in, c.dtype));
      part.body = maker.Keep(tape);
      return;
    }
    const TapeOp op = c.outer == 0 ? TapeOp::kReduceMax : TapeOp::kReduceSum;
    tape.Add(op, part.acc_type, 0, tape.Load(in, c.dtype));
    TapeMaker store;
    store.Store(out, c.dtype, store.Add(TapeOp::kScalar, part.acc_type, 0));
    part.scalars = 1;
    part.stages = maker.arena->Copy(std::vector<Stage>{{false, maker.Keep(tape)}, {true, maker.Keep(store)}});
    return;
  }
  part.lhs = in;
  if (convolution) {  // padded by one point
    std::vector<int64_t> walk(c.loops.size(), 0);
    walk[last] = 1;
    maker.operands[in].guards =
        maker.arena->Copy(std::vector<Guard>{{0, -1, c.loops[last], maker.arena->Copy(walk)}});
  }
  if (c.skeleton == Skeleton::kAttention) {
    part.keys = OperandAlong(maker, c.dtype, Mode::kRead, last);
    part.values = OperandAlong(maker, c.dtype, Mode::kRead, n);
  } else {
    part.rhs = maker.arena->Copy(std::vector<uint16_t>{OperandAlong(maker, c.dtype, Mode::kRead, n)});
  }
  const uint16_t out = OperandAlong(maker, c.dtype, Mode::kWrite, n);
  tape.Store(out, c.dtype, tape.Add(TapeOp::kAcc, part.acc_type, 0));
  part.epilogue = maker.Keep(tape);
}

TEST(Stop, KernelsOfEveryPathEndSoon) {
  for (uint32_t threads : {1u, 3u}) {
    HostOptions options;
    options.threads = threads;
    HostFixture host(options);
    StopSignal stop;
    host.device->SetStop(host.stream, &stop);
    for (const Case& c : kCases) {
      Arena arena;
      PartMaker maker(&arena);
      Fill(c, maker);
      Memory memory;
      memory.Resize(maker);
      Module* module = host.Load(maker.Make());
      ASSERT_NE(module, nullptr) << c.name;
      const std::clock_t before = std::clock();
      const auto start = std::chrono::steady_clock::now();
      stop.Begin(20'000'000);
      const Status status = host.Launch(module, &memory);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      const double worked = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
      EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << c.name << ": " << status.message();
      EXPECT_GE(took.count(), 0.02) << c.name;
      // The CPU time of the driver's own threads, so that other load on the machine does not count.
      EXPECT_LT(worked, 0.32 * threads) << c.name << " on " << threads << " threads";
      stop.End();
      host.device->DestroyModule(module);
    }
  }
}

TEST(Stop, NothingBeginsOnceItHasBeenAsked) {
  HostFixture host;
  StopSignal stop;
  host.device->SetStop(host.stream, &stop);
  stop.Cancel();
  EXPECT_FALSE(stop.Asked()) << "nothing was under way";
  stop.Begin(0);
  stop.Cancel();
  const DeviceAddress block = host.device->Allocate(64, 64).Take();
  uint32_t step = kNone;
  ASSERT_TRUE(host.device->Fill(block, 7, 64, host.stream).ok());
  EXPECT_EQ(host.device->Synchronize(host.stream, &step).code(), Code::kCancelled);
  stop.End();
  ASSERT_TRUE(host.device->Fill(block, 1, 64, host.stream).ok());
  EXPECT_TRUE(host.device->Synchronize(host.stream, &step).ok());
  EXPECT_EQ(*reinterpret_cast<uint8_t*>(block), 1);
  host.device->Free(block, 64);
}

}  // namespace
}  // namespace rondo::test
