#include "tests/plan/sample_plan.h"

#include "formats/plan/certificate.h"

namespace rondo {

TapeInst Load(uint16_t operand, TapeType type) {
  TapeInst inst;
  inst.op = TapeOp::kLoad;
  inst.type = type;
  inst.arg = operand;
  return inst;
}
TapeInst Store(uint16_t a, uint16_t operand, TapeType type) {
  TapeInst inst;
  inst.op = TapeOp::kStore;
  inst.type = type;
  inst.arg = operand;
  inst.a = a;
  return inst;
}
TapeInst Apply(TapeOp op, uint16_t a, uint16_t b, uint16_t c, TapeType type) {
  TapeInst inst;
  inst.op = op;
  inst.type = type;
  inst.a = a;
  inst.b = b;
  inst.c = c;
  return inst;
}
TapeInst Number(double value) {
  TapeInst inst;
  inst.imm.f = value;
  return inst;
}
TapeInst Slot(TapeOp op, uint16_t arg, uint16_t a) {
  TapeInst inst = Apply(op, a);
  inst.arg = arg;
  return inst;
}

Operand Access(Arena& arena, uint16_t param, Mode mode, std::initializer_list<int64_t> strides,
               int64_t offset, DType dtype) {
  Operand operand;
  operand.param = param;
  operand.mode = mode;
  operand.dtype = dtype;
  operand.offset = offset;
  operand.strides = List<int64_t>(arena, strides);
  return operand;
}

namespace {

constexpr Mode kRead = Mode::kRead, kWrite = Mode::kWrite;

// Builds kernels into the sample's arena.
class SampleKernels {
 public:
  explicit SampleKernels(Arena& arena) : a_(arena) {}

  Kernel Make(const char* name, uint16_t params, const std::vector<Part>& parts, const char* label = "") {
    Kernel kernel;
    kernel.name = name;
    kernel.label = label;
    kernel.num_params = params;
    kernel.parts = ListOf(a_, parts);
    return kernel;
  }

  Kernel Contraction() {
    Part p;
    p.skeleton = Skeleton::kMatMul;
    p.m = p.n = p.reduced = 1;
    p.loops = List<int64_t>(a_, {4, 16, 8});
    p.operands = List<Operand>(a_, {Access(a_, 0, kRead, {8, 0, 1}), Access(a_, 1, kRead, {0, 1, 16}),
                                    Access(a_, 2, kWrite, {16, 1, 0})});
    p.lhs = 0;
    p.rhs = List<uint16_t>(a_, {1});
    p.tf32 = true;
    p.prologue =
        List<TapeInst>(a_, {Load(0), Number(2), Apply(TapeOp::kMul, 0, 1), Apply(TapeOp::kYield, 2)});
    p.epilogue =
        List<TapeInst>(a_, {Slot(TapeOp::kAcc, 0), Number(0), Apply(TapeOp::kMax, 0, 1), Store(2, 2)});
    return Make("k0_matmul", 3, {p}, "matmul");
  }

  Kernel Gather() {
    Part p;
    p.outer = 2;
    p.loops = List<int64_t>(a_, {4, 16});
    Operand table = Access(a_, 1, kRead, {0, 1});
    Indirect row;
    row.operand = 0;
    row.wrap = true;
    row.stride = 16;
    row.extent = 10;
    table.indirects = List<Indirect>(a_, {row});
    p.operands = List<Operand>(
        a_, {Access(a_, 0, kRead, {1, 0}, 0, DType::kI64), table, Access(a_, 2, kWrite, {16, 1})});
    p.body = List<TapeInst>(a_, {Load(1), Store(0, 2)});
    return Make("k1_gather", 3, {p});
  }

  Kernel Softmax() {
    Part p;
    p.skeleton = Skeleton::kReduction;
    p.outer = p.reduced = 1;
    p.loops = List<int64_t>(a_, {4, 16});
    p.operands = List<Operand>(a_, {Access(a_, 0, kRead, {16, 1}), Access(a_, 1, kWrite, {16, 1})});
    p.scalars = 3;
    p.kept = 1;
    Stage most, sum, row, out;
    most.tape = List<TapeInst>(a_, {Load(0), Slot(TapeOp::kReduceMax, 0, 0)});
    sum.tape = List<TapeInst>(
        a_, {Load(0), Slot(TapeOp::kScalar, 0), Apply(TapeOp::kSub, 0, 1), Apply(TapeOp::kExp, 2),
             Slot(TapeOp::kKeep, 0, 3), Slot(TapeOp::kReduceSum, 1, 3)});
    row.per_row = true;
    row.tape = List<TapeInst>(
        a_, {Slot(TapeOp::kScalar, 1), Apply(TapeOp::kReciprocal, 0), Slot(TapeOp::kSetScalar, 2, 1)});
    out.tape = List<TapeInst>(
        a_, {Slot(TapeOp::kKept, 0), Slot(TapeOp::kScalar, 2), Apply(TapeOp::kMul, 0, 1), Store(2, 1)});
    p.stages = List<Stage>(a_, {most, sum, row, out});
    return Make("k2_reduction", 2, {p}, "softmax");
  }

  Part Rows(uint16_t from, uint16_t to, int64_t offset, int64_t row) {
    Part p;
    p.outer = 2;
    p.loops = List<int64_t>(a_, {4, 16});
    p.operands =
        List<Operand>(a_, {Access(a_, from, kRead, {16, 1}), Access(a_, to, kWrite, {row, 1}, offset)});
    p.body = List<TapeInst>(a_, {Load(0), Store(0, 1)});
    return p;
  }

  Kernel Pad() {
    Part p;
    p.outer = 2;
    p.loops = List<int64_t>(a_, {6, 8});
    Operand x = Access(a_, 0, kRead, {0, 1});
    Guard row;
    row.stride = 8;
    row.offset = -1;
    row.extent = 4;
    row.strides = List<int64_t>(a_, {1, 0});
    x.guards = List<Guard>(a_, {row});
    x.absent = -1;
    p.operands = List<Operand>(a_, {x, Access(a_, 1, kWrite, {8, 1})});
    p.body = List<TapeInst>(a_, {Load(0), Store(0, 1)});
    return Make("k5_pad", 2, {p});
  }

  Kernel Attention() {
    Part p;
    p.skeleton = Skeleton::kAttention;
    p.outer = p.m = p.n = p.reduced = p.features = 1;
    p.loops = List<int64_t>(a_, {1, 4, 16, 4, 16});
    p.operands = List<Operand>(
        a_, {Access(a_, 0, kRead, {0, 16, 0, 0, 1}), Access(a_, 1, kRead, {0, 0, 0, 16, 1}, 64),
             Access(a_, 1, kRead, {0, 0, 1, 16, 0}, 64),
             Access(a_, 2, kRead, {0, 1, 0, 0, 0}, 0, DType::kI64), Access(a_, 3, kWrite, {0, 16, 1, 0, 0})});
    p.lhs = 0;
    p.keys = 1;
    p.values = 2;
    p.limit = 3;
    p.scale = 0.25f;
    p.softcap = 30;
    p.nan_to_zero = true;
    p.epilogue = List<TapeInst>(a_, {Slot(TapeOp::kAcc, 0), Store(0, 4)});
    return Make("k6_attention", 4, {p}, "attention");
  }

  Kernel Pool() {
    Part p;
    p.skeleton = Skeleton::kConvolution;
    p.combine = Combine::kMax;
    p.outer = 1;
    p.m = 2;
    p.n = 1;
    p.reduced = 2;
    p.loops = List<int64_t>(a_, {1, 4, 1, 4, 1, 3});
    Operand x = Access(a_, 0, kRead, {0, 8, 0, 0, 0, 0});
    Guard column;
    column.stride = 1;
    column.offset = -1;
    column.extent = 8;
    column.strides = List<int64_t>(a_, {0, 0, 0, 2, 0, 1});
    x.guards = List<Guard>(a_, {column});
    p.operands = List<Operand>(a_, {x, Access(a_, 1, kWrite, {0, 4, 0, 1, 0, 0})});
    p.lhs = 0;
    p.epilogue = List<TapeInst>(a_, {Slot(TapeOp::kAcc, 0), Store(0, 1)});
    return Make("k7_pool", 2, {p}, "max_pool");
  }

 private:
  Arena& a_;
};

Buffer Place(const char* name, BufferKind kind, DType dtype, Shape shape, uint64_t offset, uint32_t first,
             uint32_t last, uint32_t program = 0, uint32_t device = 0) {
  Buffer b;
  b.name = name;
  b.kind = kind;
  b.dtype = dtype;
  b.shape = shape;
  b.bytes = static_cast<uint64_t>(shape.elements() * ByteSize(dtype));
  b.device = device;
  b.program = kind == BufferKind::kConstant || kind == BufferKind::kState ? kNone : program;
  b.offset = offset;
  b.first_step = first;
  b.last_step = last;
  return b;
}

std::vector<Buffer> SampleBuffers() {
  const DType f = DType::kF32;
  const BufferKind in = BufferKind::kInput, out = BufferKind::kOutput, temp = BufferKind::kTemporary;
  std::vector<Buffer> b = {
      Place("x", in, f, {4, 8}, 0, 0, 8),
      Place("ids", in, DType::kI64, {4}, 128, 0, 7),
      Place("w", BufferKind::kConstant, f, {8, 16}, 0, 0, 0),
      Place("table", BufferKind::kConstant, f, {10, 16}, 512, 0, 0),
      Place("cache", BufferKind::kState, f, {2, 4, 16}, 0, 0, 0),
      Place("h", temp, f, {4, 16}, 256, 0, 2),
      Place("p", temp, f, {4, 16}, 256, 2, 7),
      Place("g", temp, f, {4, 16}, 512, 1, 3),
      Place("cat", temp, f, {4, 32}, 768, 3, 5),
      Place("y", out, f, {4, 32}, 1280, 5, 8),
      Place("z", out, f, {6, 8}, 1792, 6, 8),
      Place("a", out, f, {4, 16}, 512, 7, 8),
      Place("pool", out, f, {4, 4}, 1984, 8, 8),
      Place("in0", in, f, {16}, 0, 0, 0, 1, 0),
      Place("sum0", temp, f, {16}, 64, 0, 2, 1, 0),
      Place("out0", out, f, {16}, 128, 2, 5, 1, 0),
      Place("in1", in, f, {16}, 0, 0, 4, 1, 1),
      Place("sum1", temp, f, {16}, 64, 3, 5, 1, 1),
      Place("out1", out, f, {16}, 128, 5, 5, 1, 1),
  };
  b[kP].aliases = kH;
  b[kTable].weight = WeightSource::kSynthetic;
  b[kTable].synthetic_key = 0x1234567890abcdefull;
  b[kTable].synthetic_scale = 0.125f;
  b[kTable].synthetic_run = 2;
  b[kTable].synthetic_step = 6;
  b[kH].source = 0;
  b[kIn0].last_step = 1;  // in flight until step 1
  return b;
}

Step Launch(Arena& arena, uint32_t kernel, std::initializer_list<uint32_t> buffers, uint32_t source) {
  Step step;
  step.kernel = kernel;
  std::vector<Binding> bindings;
  for (uint32_t b : buffers) bindings.push_back({b, 0});
  step.bindings = ListOf(arena, bindings);
  step.source = source;
  return step;
}

Step CopyStep(Arena& arena, uint32_t from, uint32_t to, uint64_t bytes, uint32_t device = 0) {
  Step step;
  step.kind = StepKind::kCopy;
  step.device = device;
  step.bytes = bytes;
  step.bindings = List<Binding>(arena, {{from, 0}, {to, 0}});
  return step;
}

Step Collective(Arena& arena, StepKind kind, uint32_t device, uint32_t from, uint32_t to) {
  Step step;
  step.kind = kind;
  step.device = device;
  step.sync_point = 0;
  if (kind == StepKind::kCollectiveStart) step.bindings = List<Binding>(arena, {{from, 0}, {to, 0}});
  step.source = 5;
  return step;
}

Port MakePort(const char* name, uint32_t buffer, bool is_state = false) { return {name, buffer, is_state}; }

Program MainProgram(Arena& arena) {
  Program program;
  program.name = "main";
  program.inputs =
      List<Port>(arena, {MakePort("x", kX), MakePort("ids", kIds), MakePort("cache", kCache, true)});
  program.outputs = List<Port>(arena, {MakePort("y", kY), MakePort("z", kZ), MakePort("a", kA),
                                       MakePort("pool", kPool), MakePort("cache_out", kCache, true)});
  std::vector<Step> steps = {
      Launch(arena, 0, {kX, kW, kH}, 0),    Launch(arena, 1, {kIds, kTable, kG}, 1),
      Launch(arena, 2, {kH, kP}, 2),        Launch(arena, 3, {kP, kG, kCat}, 3),
      Launch(arena, 4, {kP, kCache}, 4),    CopyStep(arena, kCat, kY, 512),
      Launch(arena, 5, {kX, kZ}, kNone),    Launch(arena, 6, {kP, kCache, kIds, kA}, 4),
      Launch(arena, 7, {kX, kPool}, kNone),
  };
  steps[1].stream = 1;
  steps[1].records = 0;
  steps[3].waits = List<uint32_t>(arena, {0});
  steps[5].after = List<uint32_t>(arena, {4});
  program.steps = ListOf(arena, steps);
  Partition first, second;
  first.num_steps = 6;
  first.reason = BreakReason::kUserBreak;
  first.detail = "asked for before Pad \"pad\"";
  second.first_step = 6;
  second.num_steps = 3;
  program.partitions = List<Partition>(arena, {first, second});
  program.num_streams = 2;
  program.num_events = 1;
  program.arena_lower_bound = 1984;
  program.arena_bytes = 2048;
  return program;
}

Program PairProgram(Arena& arena) {
  Program program;
  program.name = "pair";
  program.inputs = List<Port>(arena, {MakePort("in0", kIn0), MakePort("in1", kIn1)});
  program.outputs = List<Port>(arena, {MakePort("out0", kOut0), MakePort("out1", kOut1)});
  std::vector<Step> steps;
  for (uint32_t device = 0; device < 2; ++device) {
    const uint32_t first = device == 0 ? kIn0 : kIn1;
    steps.push_back(Collective(arena, StepKind::kCollectiveStart, device, first, first + 1));
    steps.push_back(Collective(arena, StepKind::kCollectiveWait, device, first, first + 1));
    steps.push_back(CopyStep(arena, first + 1, first + 2, 64, device));
  }
  program.steps = ListOf(arena, steps);
  Partition zero, one;
  zero.num_steps = one.num_steps = one.first_step = 3;
  zero.reason = BreakReason::kDeviceChange;
  one.device = 1;
  program.partitions = List<Partition>(arena, {zero, one});
  SyncPoint point;
  point.bytes = 64;
  point.participants = List<uint32_t>(arena, {0, 1});
  point.source = 5;
  program.sync_points = List<SyncPoint>(arena, {point});
  program.certificates = List<uint64_t>(arena, {OrderCertificate(program, 0), OrderCertificate(program, 1)});
  program.arena_lower_bound = 192;
  program.arena_bytes = 192;
  return program;
}

}  // namespace

Kernel CopyKernel(Arena& arena, const char* name, int64_t count, int64_t from, int64_t to) {
  Part p;
  p.outer = 1;
  p.loops = List<int64_t>(arena, {count});
  p.operands = List<Operand>(
      arena, {Access(arena, 0, Mode::kRead, {1}, from), Access(arena, 1, Mode::kWrite, {1}, to)});
  p.body = List<TapeInst>(arena, {Load(0), Store(0, 1)});
  return SampleKernels(arena).Make(name, 2, {p});
}

Sample MakeSample() {
  Sample s;
  SampleKernels k(s.arena);
  s.data.producer = "rondo test";
  DeviceBytes zero, one;
  zero.weights = 1152;
  zero.arena = 2048;
  zero.state = 512;
  one.arena = 192;
  one.communicator = 1 << 20;
  s.data.requirements.devices = List<DeviceBytes>(s.arena, {zero, one});
  s.data.requirements.target = "host";
  s.data.requirements.least_driver_version = 3;
  s.data.requirements.scratch = 1 << 24;
  s.data.requirements.work = 1 << 16;
  s.data.sources = List<std::string_view>(
      s.arena, {"MatMul \"mm\"", "Gather \"embed\"", "Softmax \"sm\"", "Concat \"cat\"",
                "Attention \"att\"; Cache \"kv\"", "AllReduce \"sum\""});
  s.data.buffers = ListOf(s.arena, SampleBuffers());
  s.data.kernels = List<Kernel>(s.arena, {k.Contraction(), k.Gather(), k.Softmax(),
                                          k.Make("k3_concat", 3, {k.Rows(0, 2, 0, 32), k.Rows(1, 2, 16, 32)}),
                                          k.Make("k4_cache", 2, {k.Rows(0, 1, 64, 16)}, "cache_update"),
                                          k.Pad(), k.Attention(), k.Pool()});
  s.data.programs = List<Program>(s.arena, {MainProgram(s.arena), PairProgram(s.arena)});
  s.data.weights_bytes = 512;
  return s;
}

Status FillSample(const PlanData& plan, uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out) {
  for (uint64_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<uint8_t>(7 * (plan.buffers[buffer].file_offset + first + i) + 1);
  }
  return Status::Ok();
}

}  // namespace rondo
