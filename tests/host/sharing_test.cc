// The division of matmuls among threads.
#include "drivers/host/sharing.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "drivers/host/module.h"
#include "tests/host/driver_case.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

TEST(RowsOfBlock, AreEvenAndAsManyAsTheirMemoryHoldsForOneThread) {
  EXPECT_EQ(host::RowsOfBlock({196, 224, 14, 6, 1}, 1), 196);
  EXPECT_EQ(host::RowsOfBlock({300, 224, 14, 6, 1}, 1), 150);
  EXPECT_EQ(host::RowsOfBlock({1, 0, 14, 6, 1}, 1), 1);
}

TEST(RowsOfBlock, AreFewerWhereThreadsWouldHaveNone) {
  EXPECT_EQ(host::RowsOfBlock({196, 224, 14, 6, 1}, 4),
            56);  // four threads share the blocks of 14 rows as 4, 4, 4 and 2
  EXPECT_EQ(host::RowsOfBlock({128, 224, 14, 6, 2}, 4), 70);
  EXPECT_EQ(host::RowsOfBlock({12544, 64, 1, 2, 1}, 4), 64);  // with many rows, blocks have the full size
}

TEST(RowsOfBlock, StayWithinTheirMemoryAndAreNoWorseThanAll) {
  for (int64_t rows = 1; rows < 400; rows += 7) {
    for (int64_t most : {1, 5, 28, 64, 500}) {
      for (int64_t step : {1, 4, 14}) {
        for (int64_t shares : {1, 2, 3, 16}) {
          const int64_t block = host::RowsOfBlock({rows, most, step, 6, 3}, shares);
          ASSERT_GE(block, 1);
          ASSERT_LE(block, std::min(most, rows));
        }
      }
    }
  }
}

// The number of tasks of a matmul with these sizes on `threads` threads.
int64_t TasksOf(bool bytes, int64_t m, int64_t n, int64_t k, uint32_t threads) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {m, n, k};
  maker.part.skeleton = Skeleton::kMatMul;
  maker.part.m = maker.part.n = maker.part.reduced = 1;
  if (bytes) maker.part.acc_type = TapeType::kI64;
  maker.part.lhs = maker.Operand(bytes ? DType::kU8 : DType::kF32, Mode::kRead, {0, 2});
  const std::vector<uint16_t> right = {maker.Operand(bytes ? DType::kI8 : DType::kF32, Mode::kRead, {1, 2})};
  maker.part.rhs = arena.Copy(right);
  maker.StoreAccumulators(maker.Operand(bytes ? DType::kI32 : DType::kF32, Mode::kWrite, {0, 1}),
                          bytes ? TapeType::kI64 : TapeType::kF32);
  KernelPlan plan;
  plan.Add(maker);
  Status status = Status::Ok();
  const std::unique_ptr<host::HostModule> module(
      host::HostModule::Create(plan.data, Engines().back(), {threads}, nullptr, &status));
  EXPECT_TRUE(status.ok()) << status.message();
  return module->kernel(0)->parts[0]->tasks;
}

TEST(Sharing, LeavesNoThreadWithoutWork) {
  for (const bool bytes : {false, true}) {
    for (const uint32_t threads : {2u, 4u, 8u}) {  // threads get whole register blocks of rows
      EXPECT_GE(8 * TasksOf(bytes, 196, 256, 2304, threads), 7 * threads) << bytes;
      EXPECT_GE(4 * TasksOf(bytes, 128, 384, 384, threads), 3 * threads) << bytes;
      EXPECT_GE(4 * TasksOf(bytes, 49, 512, 4608, threads), 3 * threads) << bytes;
      EXPECT_GE(TasksOf(bytes, 1, 512, 8192, threads), threads) << bytes;
    }
  }
  // A single thread packs 16 register blocks of rows at a time.
  const int64_t at_once = 16 * Engines().back().rows;
  EXPECT_EQ(TasksOf(false, 196, 256, 2304, 1), (196 + at_once - 1) / at_once);
  EXPECT_EQ(TasksOf(false, 64, 64, 64, 8), 1) << "no more than one thread's work";
}

}  // namespace
}  // namespace rondo::test
