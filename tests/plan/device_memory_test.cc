// Compares the GPU memory that plans state with cuMemGetInfo on an H200 (tools/bench/results/sessions.md).
#include "formats/plan/device_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace rondo {
namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Measured {
  const char* name;
  uint64_t weights, arena, code;
  size_t codes, steps;
  uint64_t first, more;  // MiB
};
constexpr Measured kMeasured[] = {
    {"MiniLM", 45166592, 688128, 200 << 10, 7, 43, 50, 0},
    {"BERT-large", 667639808, 1835008, 240 << 10, 7, 169, 644, 2},
    {"ResNet-50, batch 32", 51011584, 83492864, 732 << 10, 34, 56, 136, 80},
};

// A plan with one device and one program.
struct Plan {
  explicit Plan(const Measured& from)
      : code(from.code / from.codes), codes(from.codes, Span<const uint8_t>(code)), steps(from.steps) {
    device.weights = from.weights;
    device.arena = from.arena;
    module.codes = codes;
    program.steps = steps;
    data.requirements.devices = {&device, 1};
    data.modules = Span<const CodeModule>(&module, 1);
    data.programs = Span<const Program>(&program, 1);
  }
  Plan(const Plan&) = delete;

  std::vector<uint8_t> code;
  std::vector<Span<const uint8_t>> codes;
  std::vector<Step> steps;
  DeviceBytes device;
  CodeModule module;
  Program program;
  PlanData data;
};

TEST(DeviceMemoryTest, IsWithinOnePercentOr4MiBOfWhatTheDeviceGives) {
  for (const Measured& measured : kMeasured) {
    const Plan plan(measured);
    const DeviceMemory memory = EstimateDeviceMemory(plan.data, 0);
    const auto within = [](uint64_t stated, uint64_t given) {
      const uint64_t off = stated > given ? stated - given : given - stated;
      return off <= 4 * kMiB || off <= given / 100;
    };
    EXPECT_TRUE(within(memory.first_session, measured.first * kMiB))
        << measured.name << ": " << memory.first_session;
    EXPECT_TRUE(within(memory.each_session, measured.more * kMiB))
        << measured.name << ": " << memory.each_session;
  }
}

TEST(DeviceMemoryTest, IsNoneWithoutMachineCode) {
  Plan plan(kMeasured[0]);
  plan.data.modules = {};
  const DeviceMemory memory = EstimateDeviceMemory(plan.data, 0);
  EXPECT_EQ(memory.first_session + memory.each_session + memory.code + memory.graphs, 0u);
}

TEST(DeviceMemoryTest, CountsTheLibraryWhereAnyKernelIsComputedByIt) {
  Plan plan(kMeasured[0]);
  KernelBinary function, library;
  library.kind = BinaryKind::kLibraryMatmul;
  DeviceMemoryRates rates;
  rates.library = 5 * kMiB;
  const DeviceMemory without = EstimateDeviceMemory(NeedsOn(plan.data, 0), rates);
  EXPECT_EQ(without.library, 0u);
  for (const auto& binaries :
       {std::vector<KernelBinary>{function, library}, {library, function}, {library}}) {
    plan.module.binaries = binaries;
    EXPECT_TRUE(NeedsOn(plan.data, 0).library);
    const DeviceMemory with = EstimateDeviceMemory(NeedsOn(plan.data, 0), rates);
    EXPECT_EQ(with.library, 5 * kMiB);
    EXPECT_EQ(with.first_session - without.first_session, with.library);
    EXPECT_EQ(with.each_session, without.each_session);
  }
  plan.module.binaries = {&function, 1};
  EXPECT_FALSE(NeedsOn(plan.data, 0).library);
}

TEST(DeviceMemoryTest, CountsTheLargestModuleAndOnlyTheDevicesOwnSteps) {
  Plan plan(kMeasured[0]);
  const DeviceMemory one = EstimateDeviceMemory(plan.data, 0);
  const std::vector<uint8_t> large(9 * kMiB);
  const Span<const uint8_t> codes = large;
  CodeModule modules[2] = {plan.module, plan.module};
  modules[0].codes = {&codes, 1};
  plan.data.modules = modules;
  const DeviceMemory two = EstimateDeviceMemory(plan.data, 0);
  EXPECT_EQ(two.first_session - one.first_session, two.code - one.code);
  EXPECT_GE(two.code, 9 * kMiB);
  for (Step& step : plan.steps) step.device = 1;
  EXPECT_EQ(EstimateDeviceMemory(plan.data, 0).graphs, kDeviceMemoryRates.stream);
  EXPECT_GT(one.graphs, kDeviceMemoryRates.stream);
}

}  // namespace
}  // namespace rondo
