// No Run of a real model allocates, not even the first. Every allocation of the process is counted.
#include <cstdlib>
#include <filesystem>

#include "runtime/testing/allocation_counter.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

void ExpectRunsAllocateNothing(std::vector<ModelSource> models, uint32_t threads) {
  LiveModel model(std::move(models), threads);
  ASSERT_TRUE(model.session().valid());
  for (uint32_t program = 0; program < model.data().programs.size(); ++program) {
    LiveModel::Buffers buffers = model.MakeBuffers(program);
    for (int run = 0; run < 3; ++run) {
      ResetAllocationCount();
      Status status = model.session().Run(program, buffers.inputs, buffers.outputs);
      uint64_t count = AllocationCount();
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(count, 0u) << "run " << run << " of program " << program << " with " << threads << " threads";
    }
  }
}

TEST(NoAllocation, TheCounterCounts) {
  ResetAllocationCount();
  void* (*volatile allocate)(size_t) = malloc;  // volatile: not optimised away
  void (*volatile release)(void*) = free;
  release(allocate(1 << 20));
  EXPECT_GE(AllocationCount(), 2u);
}

TEST(NoAllocation, Pycoder) {
  for (uint32_t threads : {1, 2}) {
    ExpectRunsAllocateNothing(
        {{"prefill", DataPath("pycoder/prefill64.onnx")}, {"decode", DataPath("pycoder/decode.onnx")}},
        threads);
  }
}

TEST(NoAllocation, EveryFixture) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DataPath("fixtures"))) {
    std::filesystem::path path = entry.path() / "model.onnx";
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(path.string());
    ExpectRunsAllocateNothing({{"main", path.string()}}, 2);
    ++models;
  }
  EXPECT_GE(models, 5);
}

}  // namespace
}  // namespace rondo
