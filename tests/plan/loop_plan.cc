#include "tests/plan/loop_plan.h"

namespace rondo {
namespace {

constexpr uint64_t kRow = 16;  // bytes

Buffer Rows(const char* name, BufferKind kind, int64_t rows, uint64_t offset, uint32_t first, uint32_t last) {
  Buffer b;
  b.name = name;
  b.kind = kind;
  b.shape = Shape{rows, 4};
  b.bytes = static_cast<uint64_t>(rows) * kRow;
  b.offset = offset;
  b.program = 0;
  b.first_step = first;
  b.last_step = last;
  return b;
}

// out = a + b, or a + a.
Kernel Sum(Arena& arena, const char* name, uint16_t inputs) {
  Part part;
  part.outer = 1;
  part.loops = List<int64_t>(arena, {4});
  const Operand out = Access(arena, inputs, Mode::kWrite, {1}), a = Access(arena, 0, Mode::kRead, {1});
  part.operands = inputs == 1 ? List<Operand>(arena, {a, out})
                              : List<Operand>(arena, {a, Access(arena, 1, Mode::kRead, {1}), out});
  const uint16_t other = static_cast<uint16_t>(inputs - 1);
  part.body = List<TapeInst>(arena, {Load(0), Load(other), Apply(TapeOp::kAdd, 0, 1), Store(2, inputs)});
  Kernel kernel;
  kernel.name = name;
  kernel.num_params = static_cast<uint16_t>(inputs + 1);
  kernel.parts = List<Part>(arena, {part});
  return kernel;
}

Step StepOver(Arena& arena, uint32_t kernel, std::initializer_list<Binding> bindings) {
  Step step;
  step.kind = kernel == kNone ? StepKind::kCopy : StepKind::kLaunch;
  step.bytes = kernel == kNone ? kRow : 0;
  step.kernel = kernel;
  step.bindings = List<Binding>(arena, bindings);
  return step;
}

}  // namespace

Sample MakeLoopSample() {
  Sample s;
  s.data.producer = "rondo test";
  DeviceBytes device;
  device.arena = 512;
  s.data.requirements.devices = List<DeviceBytes>(s.arena, {device});
  s.data.requirements.target = "host";
  constexpr int64_t kRounds = kLoopRounds;
  Buffer e = Rows("e", BufferKind::kTemporary, 1, 448, 2, 4);
  e.aliases = kLoopG;
  s.data.buffers = List<Buffer>(
      s.arena,
      {Rows("x", BufferKind::kInput, kRounds, 0, 0, 4), Rows("start", BufferKind::kInput, 1, 128, 0, 0),
       Rows("y", BufferKind::kOutput, kRounds, 192, 1, 5), Rows("last", BufferKind::kOutput, 1, 320, 5, 5),
       Rows("h", BufferKind::kTemporary, 1, 384, 0, 5), Rows("g", BufferKind::kTemporary, 1, 448, 1, 2), e});
  s.data.kernels = List<Kernel>(s.arena, {Sum(s.arena, "k0_sum", 2), Sum(s.arena, "k1_twice", 1)});
  Program program;
  program.name = "main";
  program.inputs = List<Port>(s.arena, {{"x", kLoopX, false}, {"start", kLoopStart, false}});
  program.outputs = List<Port>(s.arena, {{"y", kLoopY, false}, {"last", kLoopLast, false}});
  constexpr int64_t kStride = kRow;
  program.steps = List<Step>(
      s.arena,
      {StepOver(s.arena, kNone, {{kLoopStart, 0}, {kLoopH, 0}}),
       StepOver(s.arena, 0, {{kLoopX, 0, kStride}, {kLoopH, 0}, {kLoopG, 0}}),
       StepOver(s.arena, 1, {{kLoopG, 0}, {kLoopE, 0}}), StepOver(s.arena, kNone, {{kLoopE, 0}, {kLoopH, 0}}),
       StepOver(s.arena, kNone, {{kLoopE, 0}, {kLoopY, (kLoopRounds - 1) * kRow, -kStride}}),
       StepOver(s.arena, kNone, {{kLoopH, 0}, {kLoopLast, 0}})});
  program.loops = List<Loop>(s.arena, {{1, 4, kLoopRounds}});
  Partition all;
  all.num_steps = 6;
  all.detail = "the program ends";
  program.partitions = List<Partition>(s.arena, {all});
  program.arena_lower_bound = 192;
  program.arena_bytes = 464;
  s.data.programs = List<Program>(s.arena, {program});
  return s;
}

}  // namespace rondo
