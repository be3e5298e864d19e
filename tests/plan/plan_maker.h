// Maker: programs made by hand, step by step, for tests of the checker.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "tests/plan/sample_plan.h"

namespace rondo {

// A program made step by step; lifetimes are taken from the checker's own report unless set.
class Maker {
 public:
  Maker() {
    program_.name = "p";
    AddBuffer("in", BufferKind::kInput, 64, 0);
    AddBuffer("out", BufferKind::kOutput, 64, 256);
  }
  uint32_t AddBuffer(const char* name, BufferKind kind, int64_t floats, uint64_t offset,
                     uint32_t aliases = kNone) {
    Buffer b;
    b.name = name;
    b.kind = kind;
    b.shape = Shape{floats};
    b.bytes = static_cast<uint64_t>(floats) * 4;
    b.offset = offset;
    b.program = kind == BufferKind::kState || kind == BufferKind::kConstant ? kNone : 0;
    b.aliases = aliases;
    buffers.push_back(b);
    return static_cast<uint32_t>(buffers.size() - 1);
  }
  // A kernel of one part over parameters in order.
  uint32_t AddKernel(const Part& part, uint16_t params) {
    Kernel kernel;
    kernel.num_params = params;
    kernel.parts = List<Part>(arena, {part});
    return AddKernel(kernel);
  }
  uint32_t AddKernel(Kernel kernel) {
    std::string name = "k";
    name += std::to_string(kernels.size());
    kernel.name = arena.CopyText(name);
    kernels.push_back(kernel);
    return static_cast<uint32_t>(kernels.size() - 1);
  }
  Step& Launch(uint32_t kernel, std::vector<Binding> bindings, uint32_t stream = 0) {
    Step step;
    step.kernel = kernel;
    step.bindings = ListOf(arena, bindings);
    step.stream = stream;
    steps.push_back(step);
    return steps.back();
  }
  // Copies `count` floats from element `from` of one buffer to element `to` of another.
  Step& Copy(uint32_t from_buffer, uint32_t to_buffer, int64_t count = 64, int64_t from = 0, int64_t to = 0,
             uint32_t stream = 0) {
    return Launch(AddKernel(CopyKernel(arena, "", count, from, to)), {{from_buffer, 0}, {to_buffer, 0}},
                  stream);
  }
  static constexpr uint32_t kIn = 0, kOut = 1;

  // Finds lifetimes by trial: each of the checker's complaints about them gives the derived ones.
  Status Check(bool set_lifetimes = true, CheckReport* report = nullptr) {
    const PlanData plan = Make(set_lifetimes);
    if (Status status = VerifyPlan(plan); !status.ok()) {
      ADD_FAILURE() << "the verifier refuses what the checker should see: " << status.message();
      return status;
    }
    return CheckPlan(plan, DefaultHostAllocator(), arena, report);
  }
  PlanData Make(bool set_lifetimes = true) {
    program_.steps = ListOf(arena, steps);
    Partition all;
    all.num_steps = static_cast<uint32_t>(steps.size());
    program_.partitions = List<Partition>(arena, {all});
    program_.inputs = List<Port>(arena, {{"in", kIn, false}});
    program_.outputs = List<Port>(arena, {{"out", kOut, false}});
    program_.num_streams = 3;
    program_.num_events = events;
    program_.arena_bytes = program_.arena_lower_bound = arena_bytes;
    if (set_lifetimes) SetLifetimes();
    PlanData plan;
    DeviceBytes device;
    device.arena = arena_bytes;
    device.state = device.weights = 1 << 20;
    plan.requirements.devices = List<DeviceBytes>(arena, {device});
    plan.buffers = ListOf(arena, buffers);
    plan.kernels = ListOf(arena, kernels);
    plan.programs = List<Program>(arena, {program_});
    plan.weights_bytes = 1 << 20;
    return plan;
  }

  Arena arena;
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
  uint32_t events = 0;
  uint64_t arena_bytes = 1 << 20;

 private:
  void SetLifetimes() {
    const uint32_t count = static_cast<uint32_t>(steps.size());
    std::vector<uint32_t> first(buffers.size(), 1), last(buffers.size(), 0);
    for (uint32_t s = 0; s < count; ++s) {
      for (const Binding& binding : steps[s].bindings) {
        if (first[binding.buffer] > last[binding.buffer]) first[binding.buffer] = s;
        last[binding.buffer] = s;
      }
    }
    for (uint32_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].program == kNone) continue;
      if (first[b] <= last[b] && IsInput(buffers[b].kind)) first[b] = 0;
      if (first[b] <= last[b] && IsOutput(buffers[b].kind)) last[b] = count - 1;
      buffers[b].first_step = first[b];
      buffers[b].last_step = last[b];
    }
  }
  Program program_;
};

#define EXPECT_GOOD(maker)                                      \
  do {                                                          \
    const Status expect_status = (maker).Check();               \
    EXPECT_TRUE(expect_status.ok()) << expect_status.message(); \
  } while (0)

#define EXPECT_BROKEN(maker, text)                                                \
  do {                                                                            \
    const Status expect_status = (maker).Check();                                 \
    ASSERT_FALSE(expect_status.ok());                                             \
    EXPECT_NE(std::string(expect_status.message()).find(text), std::string::npos) \
        << expect_status.message();                                               \
  } while (0)

inline constexpr BufferKind kTemp = BufferKind::kTemporary;

// x[i] -> f(x[i]) over 64 floats, from parameter 0 to parameter 1.
inline Part Elementwise(Arena& a, int64_t stride_from = 1, int64_t stride_to = 1) {
  Part p;
  p.outer = 1;
  p.loops = List<int64_t>(a, {64});
  p.operands = List<Operand>(a, {Access(a, 0, Mode::kRead, {stride_from}, stride_from < 0 ? 63 : 0),
                                 Access(a, 1, Mode::kWrite, {stride_to})});
  p.body = List<TapeInst>(a, {Load(0), Apply(TapeOp::kNeg, 0), Store(1, 1)});
  return p;
}

}  // namespace rondo
