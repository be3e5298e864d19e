#include "tests/runtime/tiny_plan.h"

#include <array>
#include <vector>

#include "core/synthetic.h"

namespace rondo {
namespace {

enum : uint32_t { kX, kW, kY, kTotal, kIndex, kZ, kNow, kNumBuffers };

Buffer MakeBuffer(std::string_view name, BufferKind kind, DType dtype, int64_t elements, uint32_t program,
                  uint64_t offset) {
  Buffer b;
  b.name = name;
  b.kind = kind;
  b.dtype = dtype;
  b.shape = {elements};
  b.bytes = static_cast<uint64_t>(elements * ByteSize(dtype));
  b.program = program;
  b.offset = offset;
  b.first_step = 0;
  b.last_step = 0;
  return b;
}

TapeInst Inst(TapeOp op, uint16_t arg, uint16_t a = 0, uint16_t b = 0, TapeType type = TapeType::kF32) {
  TapeInst inst;
  inst.op = op;
  inst.type = type;
  inst.arg = arg;
  inst.a = a;
  inst.b = b;
  return inst;
}

class Maker {
 public:
  explicit Maker(Arena* arena) : arena_(arena) {}

  template <typename T>
  Span<const T> List(std::initializer_list<T> list) {
    return arena_->Copy(std::vector<T>(list));
  }

  Operand MakeOperand(uint16_t param, DType dtype, Mode mode, int64_t stride) {
    Operand o;
    o.param = param;
    o.dtype = dtype;
    o.mode = mode;
    o.strides = List<int64_t>({stride});
    return o;
  }

  // A map over `extent` points.
  Kernel MakeMap(std::string_view name, uint16_t params, int64_t extent,
                 std::initializer_list<Operand> operands, std::initializer_list<TapeInst> tape) {
    Part part;
    part.skeleton = Skeleton::kMap;
    part.outer = 1;
    part.loops = List<int64_t>({extent});
    part.operands = List<Operand>(operands);
    part.body = List<TapeInst>(tape);
    Kernel kernel;
    kernel.name = name;
    kernel.num_params = params;
    kernel.parts = List<Part>({part});
    return kernel;
  }

  Step MakeStep(StepKind kind, uint32_t kernel, std::initializer_list<uint32_t> buffers, uint32_t source) {
    Step step;
    step.kind = kind;
    step.kernel = kernel;
    step.source = source;
    std::vector<Binding> bindings;
    for (uint32_t b : buffers) bindings.push_back({b, 0});
    step.bindings = arena_->Copy(bindings);
    return step;
  }

 private:
  Arena* arena_;
};

Span<const Kernel> MakeKernels(Maker& m) {
  constexpr DType kF = DType::kF32;
  Kernel mul = m.MakeMap("k0_mul", 3, 4,
                         {m.MakeOperand(0, kF, Mode::kRead, 1), m.MakeOperand(1, kF, Mode::kRead, 1),
                          m.MakeOperand(2, kF, Mode::kWrite, 1)},
                         {Inst(TapeOp::kLoad, 0), Inst(TapeOp::kLoad, 1), Inst(TapeOp::kMul, 0, 0, 1),
                          Inst(TapeOp::kStore, 2, 2)});
  Kernel add = m.MakeMap("k1_add", 2, 4,
                         {m.MakeOperand(0, kF, Mode::kReadWrite, 1), m.MakeOperand(1, kF, Mode::kRead, 1)},
                         {Inst(TapeOp::kLoad, 0), Inst(TapeOp::kLoad, 1), Inst(TapeOp::kAdd, 0, 0, 1),
                          Inst(TapeOp::kStore, 0, 2)});
  Operand picked = m.MakeOperand(1, kF, Mode::kRead, 0);
  Indirect by_index;
  by_index.operand = 0;
  by_index.stride = 1;
  by_index.extent = 4;
  picked.indirects = m.List<Indirect>({by_index});
  Kernel pick = m.MakeMap(
      "k2_pick", 3, 1,
      {m.MakeOperand(0, DType::kI64, Mode::kRead, 1), picked, m.MakeOperand(2, kF, Mode::kWrite, 1)},
      {Inst(TapeOp::kLoad, 1), Inst(TapeOp::kStore, 2, 0)});
  return m.List<Kernel>({mul, add, pick});
}

Span<const Buffer> MakeBuffers(Maker& m, bool synthetic) {
  std::array<Buffer, kNumBuffers> b;
  b[kX] = MakeBuffer("x", BufferKind::kInput, DType::kF32, 4, TinyPlan::kAdd, 0);
  b[kW] = MakeBuffer("w", BufferKind::kConstant, DType::kF32, 4, kNone, 0);
  b[kY] = MakeBuffer("y", BufferKind::kOutput, DType::kF32, 4, TinyPlan::kAdd, 64);
  b[kY].last_step = 1;
  b[kTotal] = MakeBuffer("total_buffer", BufferKind::kState, DType::kF32, 4, kNone, 0);
  b[kIndex] = MakeBuffer("index", BufferKind::kInput, DType::kI64, 1, TinyPlan::kPick, 0);
  b[kZ] = MakeBuffer("z", BufferKind::kOutput, DType::kF32, 1, TinyPlan::kPick, 64);
  b[kNow] = MakeBuffer("now", BufferKind::kOutput, DType::kF32, 4, TinyPlan::kPeek, 0);
  if (synthetic) {
    b[kW].weight = WeightSource::kSynthetic;
    b[kW].synthetic_key = SyntheticKey(7, "w");
    b[kW].synthetic_scale = 2;
  }
  return m.List<Buffer>({b[0], b[1], b[2], b[3], b[4], b[5], b[6]});
}

Program MakeProgram(Maker& m, std::string_view name, Span<const Port> inputs, Span<const Port> outputs,
                    Span<const Step> steps, bool split, uint64_t lower_bound, uint64_t bytes) {
  Program p;
  p.name = name;
  p.inputs = inputs;
  p.outputs = outputs;
  p.steps = steps;
  Partition whole;
  whole.num_steps = static_cast<uint32_t>(steps.size());
  whole.detail = "the program ends";
  p.partitions = m.List<Partition>({whole});
  if (split) {
    Partition first = whole, second = whole;
    first.num_steps = 1;
    first.reason = BreakReason::kUserBreak;
    first.detail = "asked for";
    second.first_step = 1;
    second.num_steps = whole.num_steps - 1;
    p.partitions = m.List<Partition>({first, second});
  }
  p.arena_lower_bound = lower_bound;
  p.arena_bytes = bytes;
  return p;
}

}  // namespace

TinyPlan::TinyPlan(bool split, bool synthetic) {
  Maker m(&arena);
  DeviceBytes bytes;
  bytes.weights = 16;
  bytes.arena = 128;
  bytes.state = 64;
  data.producer = "a test";
  data.requirements.devices = m.List<DeviceBytes>({bytes});
  data.requirements.target = "host";
  data.sources = m.List<std::string_view>(
      {"Mul \"mul_node\"", "Add \"add_node\"", "Gather \"gather_node\"", "Identity \"peek_node\""});
  data.buffers = MakeBuffers(m, synthetic);
  data.kernels = MakeKernels(m);
  data.weights_bytes = synthetic ? 0 : 16;
  constexpr StepKind kLaunch = StepKind::kLaunch;
  Step mul = m.MakeStep(kLaunch, 0, {kX, kW, kY}, 0), add = m.MakeStep(kLaunch, 1, {kTotal, kY}, 1);
  Step pick = m.MakeStep(kLaunch, 2, {kIndex, kW, kZ}, 2);
  Step peek = m.MakeStep(StepKind::kCopy, kNone, {kTotal, kNow}, 3);
  peek.bytes = 16;
  data.programs = m.List<Program>(
      {MakeProgram(m, "add", m.List<Port>({{"x", kX}, {"total", kTotal, true}}),
                   m.List<Port>({{"y", kY}, {"total_out", kTotal, true}}), m.List<Step>({mul, add}), split,
                   32, 80),
       MakeProgram(m, "pick", m.List<Port>({{"index", kIndex}}), m.List<Port>({{"z", kZ}}),
                   m.List<Step>({pick}), false, 12, 68),
       MakeProgram(m, "peek", {}, m.List<Port>({{"now", kNow}}), m.List<Step>({peek}), false, 16, 16)});
}

void TinyPlan::NeedMore(uint64_t more_weights, uint64_t more_arena, uint64_t more_state) {
  Maker m(&arena);
  DeviceBytes bytes = data.requirements.devices[0];
  bytes.weights += more_weights;
  bytes.arena += more_arena;
  bytes.state += more_state;
  data.requirements.devices = m.List<DeviceBytes>({bytes});
  std::vector<Program> programs(data.programs.begin(), data.programs.end());
  for (Program& program : programs) program.arena_bytes += more_arena;
  data.programs = arena.Copy(programs);
}

}  // namespace rondo
