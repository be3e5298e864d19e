// The bytes and operations of kernels by their contracts. tests/tools tests whole plans.
#include "formats/plan/traffic.h"

#include <gtest/gtest.h>

#include "tests/plan/matmul_plan.h"
#include "tests/plan/plan_maker.h"

namespace rondo {
namespace {

TEST(KernelTraffic, OfAMapIsWhatItReadsAndWrites) {
  Arena arena;
  Kernel kernel;
  kernel.num_params = 2;
  kernel.parts = List<Part>(arena, {Elementwise(arena)});
  const std::vector<uint64_t> bound = {256, 256};
  const Traffic traffic = KernelTraffic(kernel, bound);
  EXPECT_EQ(traffic.read, 256u);
  EXPECT_EQ(traffic.written, 256u);
  EXPECT_EQ(traffic.operations, 0u);  // only matmuls, convolutions and attention count
}

TEST(KernelTraffic, OfAMatmulIsTwoOperationsAPoint) {
  const Sample s = MakeProductSample();
  const std::vector<uint64_t> bound = {128, 512, 256, 64, 256, kProductScratchBytes};
  const Traffic traffic = KernelTraffic(s.data.kernels[0], bound);
  EXPECT_EQ(traffic.read, 128u + 512 + 256 + 64);
  EXPECT_EQ(traffic.written, 256u);
  EXPECT_EQ(traffic.operations, 2u * 4 * 16 * 8);
}

}  // namespace
}  // namespace rondo
