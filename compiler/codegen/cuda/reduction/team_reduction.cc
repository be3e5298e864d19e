// Long rows, and few of them: the blocks of a cluster share a row, whose elements stay in their registers, if
// they find room there.
// Stages that repeat are a loop: text that is run once waits for its own instructions.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduce_ops.h"
#include "compiler/codegen/cuda/reduction/reduction_templates.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"row_team"};

constexpr int64_t kMostRegisters = 128;  // of one thread, for what a row keeps
constexpr int64_t kMostBlocks = 8;       // of a cluster, everywhere

// None if rows are short, or so many that each may as well have one block.
std::optional<RowShape> ShapeOfTeamRow(const PartContext& context) {
  const Part& part = context.part;
  const int64_t elements = context.Points(part.outer, part.loops.size()),
                rows = context.Points(0, part.outer);
  if (!context.target.clusters() || part.reduced == 0 || elements < kLeastTeamRow) return std::nullopt;
  RowShape shape;
  shape.cluster = kMostBlocks;
  while (part.kept == 0 && static_cast<double>(rows * shape.cluster) > context.Processors())
    shape.cluster /= 2;
  if (shape.cluster < 2 || (context.cluster != 0 && context.cluster != shape.cluster)) return std::nullopt;
  shape.along = part.loops.size() - 1;
  shape.lanes = LanesFor(context, RowOperands(part), shape.along);
  shape.vectors = elements / shape.lanes;
  shape.width = kCudaBlock * shape.cluster;
  shape.rounds = (shape.vectors + shape.width - 1) / shape.width;
  if (shape.lanes > 1) shape.cached = CachedOperands(context, shape);
  if (RegistersOf(part, shape) > kMostRegisters) shape.cached.clear();
  const int64_t registers = RegistersOf(part, shape);
  if (registers > kMostRegisters) return std::nullopt;
  shape.in_registers = registers > 0;
  return shape;
}

bool IsSame(const TapeInst& a, const TapeInst& b) {
  return a.op == b.op && a.type == b.type && a.arg == b.arg && a.a == b.a && a.b == b.b && a.c == b.c &&
         a.imm.i == b.imm.i;
}
bool IsSame(const Stage& a, const Stage& b) {
  return a.per_row == b.per_row &&
         std::equal(a.tape.begin(), a.tape.end(), b.tape.begin(), b.tape.end(),
                    [](const TapeInst& x, const TapeInst& y) { return IsSame(x, y); });
}

// Stages from one on that come again and again.
struct Repeat {
  size_t stages = 1, times = 1;
};
Repeat RepeatFrom(Span<const Stage> stages, size_t first) {
  constexpr size_t kMostStages = 8;
  Repeat best;
  for (size_t length = 1; length <= kMostStages; ++length) {
    size_t same = first + length;
    while (same < stages.size() && IsSame(stages[same], stages[same - length])) ++same;
    const size_t times = (same - first) / length;
    if (times > 1 && times * length > best.times * best.stages) best = {length, times};
  }
  return best;
}

// One exchange between the blocks for all that the stage reduces: sK of vK (and atK).
void JoinTeam(Tape tape, const RowShape& shape, PartWriter* writer) {
  std::vector<const TapeInst*> reductions;
  for (const TapeInst& inst : tape)
    if (IsReduction(inst.op)) reductions.push_back(&inst);
  if (reductions.empty()) return;
  const auto each = [&](const char* step, const auto& line) {
    for (size_t r = 0; r < reductions.size(); ++r) {
      const TapeInst& inst = *reductions[r];
      const bool position = IsArgReduction(inst.op);
      const std::string call = "team_" + std::string(step) + (position ? "_position<" : "<") +
                               (position ? ArgArguments(inst) : Combiner(inst.op)) + ", ";
      line(r, Text(inst.arg), call, std::string(TypeText(tape[inst.a].type)), position);
    }
  };
  const std::string blocks = Text(shape.cluster);
  const auto mine = [](size_t r) { return "team_warps[" + Text(r) + "]"; };
  const auto all = [](size_t r) { return "team_all[turn][" + Text(r) + "]"; };
  each("warp",
       [&](size_t r, const std::string& slot, const std::string& call, const std::string& type, bool at) {
         writer->Line(call + type + ">(v" + slot + (at ? ", at" + slot : "") + ", " + mine(r) + ");");
       });
  writer->Line("__syncthreads();");
  each("send", [&](size_t r, const std::string&, const std::string& call, const std::string& type, bool) {
    writer->Line("if (threadIdx.x / 32 == " + Text(r % 8) + ") " + call + type + ", " + blocks + ">(" +
                 mine(r) + ", " + all(r) + ", rank);");
  });
  writer->Line("cluster_barrier();");
  each("take",
       [&](size_t r, const std::string& slot, const std::string& call, const std::string& type, bool) {
         writer->Line("s" + slot + " = " + call + type + ", " + blocks + ">(" + all(r) + ");");
       });
  writer->Line("turn ^= 1;");
}

void WriteStage(const PartContext& context, const RowShape& shape, const Stage& stage,
                const std::string& prefix, PartWriter* writer) {
  if (stage.per_row) return WriteRowScalars(context.part, stage, prefix, writer);
  writer->Line("{");
  StartReductions(stage.tape, writer);
  WriteElements(context, shape, stage, prefix, writer);
  JoinTeam(stage.tape, shape, writer);
  writer->Line("}");
}

// Most reductions of one stage.
size_t MostReductions(const Part& part) {
  size_t most = 1;
  for (const Stage& stage : part.stages) {
    const auto is = [](const TapeInst& inst) { return IsReduction(inst.op); };
    most = std::max(most, static_cast<size_t>(std::count_if(stage.tape.begin(), stage.tape.end(), is)));
  }
  return most;
}

Result<PartLaunch> WriteTeams(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const RowShape shape = *ShapeOfTeamRow(context);
  const RowTypes types = RowTypesOf(part);
  const int64_t blocks = context.Points(0, part.outer) * shape.cluster;
  const std::string most = Text(MostReductions(part));
  writer->Line("__shared__ TeamWarps team_warps[" + most + "];");
  writer->Line("__shared__ TeamBlocks team_all[2][" + most + "];");
  writer->Line("const u32 rank = block % " + Text(shape.cluster) + "u, row = block / " + Text(shape.cluster) +
               "u;");
  writer->Line("const u32 lane = rank * " + Text(kCudaBlock) + "u + threadIdx.x;");
  writer->Line("u32 turn = 0; (void)turn;");
  writer->Decode("row", 0, part.outer);
  DeclareKept(types, shape, writer);
  const bool early = context.LeavesRoom(blocks);
  if (early) writer->Line("launch_dependents();");
  CacheOperands(context, shape, true, writer);
  writer->Line("cluster_barrier();");  // who is written to must have begun
  writer->Line("wait_for_earlier();");
  CacheOperands(context, shape, false, writer);
  DeclareScalars(types, writer);
  for (size_t s = 0; s < part.stages.size();) {
    const Repeat repeat = RepeatFrom(part.stages, s);
    if (!early && s + repeat.stages * repeat.times == part.stages.size())
      writer->Line("launch_dependents();");
    if (repeat.times > 1) {
      writer->Line("#pragma unroll 1");
      writer->Line("for (int time = 0; time < " + Text(repeat.times) + "; ++time) {");
    }
    for (size_t k = 0; k < repeat.stages; ++k)
      WriteStage(context, shape, part.stages[s + k], "r" + Text(s + k) + "_", writer);
    if (repeat.times > 1) writer->Line("}");
    s += repeat.stages * repeat.times;
  }
  PartLaunch launch;
  launch.cluster = static_cast<uint32_t>(shape.cluster);
  return WithBlocks(launch, blocks);
}

// The shape settles the cluster.
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  const std::optional<RowShape> shape = ShapeOfTeamRow(context);
  if (!shape) return {};
  KernelConfiguration configuration;
  configuration.cluster = shape->cluster;
  return {{configuration, kNotEstimated}};
}

}  // namespace

constinit const PartTemplate kTeamReduction = {TemplateFamily::kAny, kHeaders, Candidates, WriteTeams};

}  // namespace rondo::cuda
