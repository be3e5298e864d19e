// No run on several devices allocates on any of its threads, not even the first run.
#include "runtime/testing/allocation_counter.h"
#include "tests/collectives/mesh.h"

namespace rondo {
namespace {

TEST(NoAllocationTest, InAnyRunTheFirstIncluded) {
  for (bool reorder : {false, true}) {
    HostOptions options = MeshOptions(4);
    options.threads = 2;
    options.faults.reorder = reorder;
    RuntimeOptions runtime_options;
    runtime_options.async_workers = 1;
    const Mesh mesh(options, runtime_options);
    Layers layers(4, 3, 300, true);
    Session session = mesh.MakeSession(layers.plan);
    ASSERT_TRUE(session.valid());
    bool right = false;
    RunOptions stepwise;
    stepwise.stepwise = true;
    for (int run = 0; run < 3; ++run) {
      ResetAllocationCount();
      Status status = layers.Run(&session, &right);
      const uint64_t in_run = AllocationCount();
      EXPECT_TRUE(right) << status.message();
      ResetAllocationCount();
      status = layers.Run(&session, &right, stepwise);
      const uint64_t in_steps = AllocationCount();
      EXPECT_TRUE(right) << status.message();
      ResetAllocationCount();
      status = session.RunAsync(0, layers.inputs, layers.outputs, Completion());
      EXPECT_TRUE(session.Wait().ok());
      const uint64_t in_async = AllocationCount();
      EXPECT_TRUE(status.ok() && session.status().ok()) << status.message();
      EXPECT_EQ(in_run, 0u);
      EXPECT_EQ(in_steps, 0u);
      EXPECT_EQ(in_async, 0u);
    }
  }
}

}  // namespace
}  // namespace rondo
