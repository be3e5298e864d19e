#include "tests/plan/call_plan.h"

#include <cstdio>
#include <cstring>
#include <new>

namespace rondo {
namespace {

int64_t Elements(const rondo_op_type& type) {
  int64_t n = 1;
  for (int32_t i = 0; i < type.rank; ++i) n *= type.dims[i];
  return n;
}

bool SameType(const rondo_op_type& a, const rondo_op_type& b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int32_t i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

int32_t Refuse(const char* why, char* error, size_t error_size) {
  std::snprintf(error, error_size, "%s", why);
  return 1;
}

// All ops work on floats, and their outputs have the first input's type.
int32_t InferLikeFirst(void*, const rondo_op_node* node, rondo_op_type* outputs, char* error,
                       size_t error_size) {
  for (size_t i = 0; i < node->num_inputs; ++i) {
    if (node->inputs[i].dtype == RONDO_OP_ABSENT) continue;
    if (node->inputs[i].dtype != RONDO_OP_F32) return Refuse("it works on f32 only", error, error_size);
    if (!SameType(node->inputs[i], node->inputs[0]))
      return Refuse("its inputs differ in shape", error, error_size);
  }
  outputs[0] = node->inputs[0];
  return 0;
}

struct Instance {
  int64_t elements = 0;
  float factor = 1;
};

int32_t Create(void*, const rondo_op_node* node, void** instance, char* error, size_t error_size) {
  auto* made = new (std::nothrow) Instance;
  if (made == nullptr) {
    Refuse("no memory", error, error_size);
    return RONDO_OP_NO_MEMORY;
  }
  made->elements = Elements(node->outputs[0]);
  for (size_t i = 0; i < node->num_attributes; ++i) {
    const rondo_op_attribute& a = node->attributes[i];
    if (std::strcmp(a.name, "factor") != 0) continue;
    if (a.kind == RONDO_OP_FLOAT && a.count == 1) {
      made->factor = a.floats[0];
      continue;
    }
    delete made;
    return Refuse("attribute factor is not a float", error, error_size);
  }
  ++CountsOfTestOps().created;
  *instance = made;
  return 0;
}

void Destroy(void* instance) {
  ++CountsOfTestOps().destroyed;
  delete static_cast<Instance*>(instance);
}

int32_t RunScale(void* instance, const rondo_op_call* call, char*, size_t) {
  const auto& self = *static_cast<const Instance*>(instance);
  const auto* x = static_cast<const float*>(call->inputs[0]);
  const auto* bias = static_cast<const float*>(call->num_inputs > 1 ? call->inputs[1] : nullptr);
  auto* y = static_cast<float*>(call->outputs[0]);
  for (int64_t i = 0; i < self.elements; ++i) y[i] = self.factor * x[i] + (bias == nullptr ? 0 : bias[i]);
  ++CountsOfTestOps().scaled;
  return RONDO_OP_OK;
}

int32_t RunAccumulate(void* instance, const rondo_op_call* call, char* error, size_t error_size) {
  if (call->outputs[0] != call->inputs[0]) {
    Refuse("its output is not its input's memory", error, error_size);
    return RONDO_OP_FAILED;
  }
  const auto* x = static_cast<const float*>(call->inputs[1]);
  auto* total = static_cast<float*>(call->outputs[0]);
  for (int64_t i = 0; i < static_cast<const Instance*>(instance)->elements; ++i) total[i] += x[i];
  return RONDO_OP_OK;
}

int32_t RunTap(void* instance, const rondo_op_call* call, char* error, size_t error_size) {
  ++CountsOfTestOps().taps;
  const float first =
      static_cast<const Instance*>(instance)->elements > 0 ? *static_cast<const float*>(call->inputs[0]) : 0;
  if (first != 1000 && first != 2000) return RONDO_OP_OK;
  std::snprintf(error, error_size, "its first element is %g", static_cast<double>(first));
  return first == 1000 ? RONDO_OP_BAD_DATA : RONDO_OP_FAILED;
}

rondo_op MakeOp(const char* name, uint32_t inputs,
                int32_t (*run)(void*, const rondo_op_call*, char*, size_t)) {
  rondo_op op = {};
  op.size = sizeof(op);
  op.domain = "test";
  op.name = name;
  op.since_version = 1;
  op.min_inputs = op.max_inputs = inputs;
  op.min_outputs = op.max_outputs = 1;
  op.infer = InferLikeFirst;
  op.create = Create;
  op.run = run;
  op.destroy = Destroy;
  return op;
}

CustomArgument Floats(Mode mode, uint32_t alias = kNone) {
  CustomArgument a;
  a.shape = Shape{4};
  a.mode = mode;
  a.alias = alias;
  return a;
}

std::vector<CustomAttribute> SampleAttributes(Arena& arena) {
  std::vector<CustomAttribute> all(7);
  const char* const names[] = {"count", "factor", "label", "axes", "points", "labels", "table"};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].name = names[i];
    all[i].kind = static_cast<AttributeKind>(i);
  }
  all[0].ints = List<int64_t>(arena, {-3});
  all[1].floats = List<float>(arena, {2});
  all[2].texts = List<std::string_view>(arena, {"first"});
  all[3].ints = List<int64_t>(arena, {0, 1, 2});
  all[4].floats = List<float>(arena, {0.5f, -1});
  all[5].texts = List<std::string_view>(arena, {"a", "", "c"});
  all[6].dtype = DType::kI16;
  all[6].shape = Shape{2};
  all[6].data = List<uint8_t>(arena, {1, 0, 2, 0});
  return all;
}

std::vector<CustomOp> SampleOps(Arena& arena) {
  std::vector<CustomOp> ops(3);
  const char* const names[] = {"Scale", "Accumulate", "Tap"};
  for (size_t i = 0; i < ops.size(); ++i) {
    ops[i].domain = "test";
    ops[i].name = names[i];
    ops[i].library = "libtest.so";
  }
  CustomArgument absent;
  absent.absent = true;
  ops[0].num_inputs = 2;
  ops[0].arguments = List<CustomArgument>(arena, {Floats(Mode::kRead), absent, Floats(Mode::kWrite)});
  ops[0].attributes = ListOf(arena, SampleAttributes(arena));
  ops[1].num_inputs = 2;
  ops[1].arguments =
      List<CustomArgument>(arena, {Floats(Mode::kReadWrite), Floats(Mode::kRead), Floats(Mode::kWrite, 0)});
  ops[2].num_inputs = 1;
  ops[2].arguments = List<CustomArgument>(arena, {Floats(Mode::kRead), Floats(Mode::kRead, 0)});
  ops[2].graph_safe = false;
  ops[2].reason = "it counts its calls";
  return ops;
}

Buffer Vector(const char* name, BufferKind kind, uint64_t offset, uint32_t first, uint32_t last) {
  Buffer b;
  b.name = name;
  b.kind = kind;
  b.shape = Shape{4};
  b.bytes = 16;
  b.offset = offset;
  b.first_step = first;
  b.last_step = last;
  b.program = kind == BufferKind::kState ? kNone : 0;
  return b;
}

Step Call(Arena& arena, uint32_t op, std::initializer_list<uint32_t> buffers) {
  Step step;
  step.kind = StepKind::kCustom;
  step.custom = op;
  std::vector<Binding> bindings;
  for (uint32_t b : buffers) bindings.push_back({b, 0});
  step.bindings = ListOf(arena, bindings);
  step.source = op;
  return step;
}

Partition Run(uint32_t first, uint32_t count, BreakReason reason, const char* detail) {
  Partition p;
  p.first_step = first;
  p.num_steps = count;
  p.reason = reason;
  p.detail = detail;
  return p;
}

}  // namespace

OpCounts& CountsOfTestOps() {
  static OpCounts counts;
  return counts;
}

extern "C" int32_t RegisterTestOps(const rondo_op_registrar* registrar) {
  static const uint32_t kFirstChanges[] = {RONDO_OP_MUTATED, 0};
  static const int32_t kFirst[] = {0};
  rondo_op ops[] = {MakeOp("Scale", 2, RunScale), MakeOp("Accumulate", 2, RunAccumulate),
                    MakeOp("Tap", 1, RunTap)};
  ops[0].min_inputs = 1;
  ops[1].input_flags = kFirstChanges;
  ops[1].output_aliases = kFirst;
  ops[2].output_aliases = kFirst;
  ops[2].flags = RONDO_OP_NO_GRAPH | RONDO_OP_SIDE_EFFECTS;
  ops[2].no_graph_reason = "it counts its calls";
  for (const rondo_op& op : ops) {
    if (registrar->add(registrar->context, &op) != 0) return 1;
  }
  return 0;
}

Sample MakeCallSample() {
  Sample s;
  s.data.producer = "rondo test";
  DeviceBytes device;
  device.arena = 256;
  device.state = 64;
  s.data.requirements.devices = List<DeviceBytes>(s.arena, {device});
  s.data.requirements.target = "host";
  s.data.sources = List<std::string_view>(s.arena, {"Scale \"scale\"", "Accumulate \"acc\"", "Tap \"tap\""});
  Buffer b = Vector("b", BufferKind::kTemporary, 64, 3, 4);
  b.aliases = kCallA;
  s.data.buffers = List<Buffer>(
      s.arena,
      {Vector("x", BufferKind::kInput, 0, 0, 3), Vector("y", BufferKind::kOutput, 128, 4, 4),
       Vector("total", BufferKind::kState, 0, 0, 0), Vector("a", BufferKind::kTemporary, 64, 0, 3), b});
  s.data.custom_ops = ListOf(s.arena, SampleOps(s.arena));
  Program program;
  program.name = "main";
  program.inputs = List<Port>(s.arena, {{"x", kCallX, false}, {"total", kCallTotal, true}});
  program.outputs = List<Port>(s.arena, {{"y", kCallY, false}, {"total_out", kCallTotal, true}});
  Step copy;
  copy.kind = StepKind::kCopy;
  copy.bytes = 16;
  copy.bindings = List<Binding>(s.arena, {{kCallB, 0}, {kCallY, 0}});
  program.steps = List<Step>(
      s.arena, {Call(s.arena, 0, {kCallX, kNone, kCallA}), Call(s.arena, 1, {kCallTotal, kCallA, kCallTotal}),
                Call(s.arena, 2, {kCallA, kCallA}), Call(s.arena, 1, {kCallA, kCallX, kCallB}), copy});
  program.partitions = List<Partition>(
      s.arena, {Run(0, 2, BreakReason::kUnsafeStep, "step 2 (Tap \"tap\"): it counts its calls"),
                Run(2, 1, BreakReason::kUnsafeStep, "step 2 (Tap \"tap\") cannot share a graph"),
                Run(3, 2, BreakReason::kProgramEnd, "the program ends")});
  program.arena_lower_bound = 48;
  program.arena_bytes = 192;
  s.data.programs = List<Program>(s.arena, {program});
  return s;
}

void CallOutsideGraphs(PlanData* plan, Arena& arena) {
  std::vector<CustomOp> ops(plan->custom_ops.begin(), plan->custom_ops.end());
  for (CustomOp& op : ops) {
    if (!op.graph_safe) continue;
    op.graph_safe = false;
    op.reason = "it runs on the host";
  }
  plan->custom_ops = arena.Copy(ops);
  std::vector<Program> programs(plan->programs.begin(), plan->programs.end());
  for (Program& program : programs) {
    std::vector<Partition> partitions;
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      const bool call = program.steps[s].kind == StepKind::kCustom;
      if (s == 0 || call || program.steps[s - 1].kind == StepKind::kCustom) {
        partitions.push_back(
            {program.steps[s].device, s, 0, BreakReason::kUnsafeStep, "it runs on the host"});
      }
      ++partitions.back().num_steps;
    }
    program.partitions = arena.Copy(partitions);
  }
  plan->programs = arena.Copy(programs);
}

}  // namespace rondo
