// Reductions of long rows that are few, or that one block cannot keep: the blocks of a cluster share a row.
// Its elements stay in the blocks' registers or, for rows of many stages that fit, in shared memory: loops
// have short code, and fetching instructions is slow. Repeated stages become a loop, since code that runs
// once waits for its own instructions. The loop ends when a round finds the same row scalars as the round
// before.
#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduce_ops.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"
#include "compiler/codegen/cuda/reduction/stage_repeats.h"
#include "compiler/codegen/cuda/reduction/team_limits.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"row_team"};

constexpr size_t kManyStages = 8;
constexpr int64_t kExchangeBytes =
    8 << 10;  // bytes of shared memory for the exchange between blocks, at most

// Blocks for each multiprocessor: two if there are more blocks than multiprocessors. Not every multiprocessor
// can be part of a cluster: if all are needed for long, two blocks share one as well.
uint32_t ResidentBlocks(const PartContext& context, int64_t rows, int64_t cluster) {
  const bool all = 2 * rows * cluster > context.target.processors;
  const bool more = static_cast<double>(rows * cluster) > context.Processors();
  return more || (all && context.part.stages.size() > kManyStages) ? 2 : 1;
}

// Whether a row of many stages fits shared memory, in vectors of four words.
bool FitsShared(const PartContext& context, const RowShape& shape, int64_t rows) {
  const Part& part = context.part;
  if (part.stages.size() <= kManyStages || shape.lanes % 4 != 0) return false;
  for (size_t index : shape.cached)
    if (shape.lanes * ByteSize(part.operands[index].dtype) % 16 != 0) return false;
  const int64_t most = ResidentBlocks(context, rows, shape.cluster) > 1
                           ? context.target.shared_processor / 2 - 1024
                           : context.target.shared;
  return RegistersOf(part, shape) > 0 && SharedBytesOf(part, shape) + kExchangeBytes <= most;
}

// Whether all reductions are maxima and minima, which give the same in any order.
bool HasOnlyMinMax(const Part& part) {
  return std::all_of(part.stages.begin(), part.stages.end(), [](const Stage& stage) {
    return std::all_of(stage.tape.begin(), stage.tape.end(), [](const TapeInst& inst) {
      return !IsReduction(inst.op) || inst.op == TapeOp::kReduceMax || inst.op == TapeOp::kReduceMin;
    });
  });
}

// A row shared by the blocks of a cluster, all it can keep in registers.
RowShape SharedBy(const PartContext& context, int64_t cluster) {
  RowShape shape;
  shape.cluster = cluster;
  SetVectors(context, &shape);
  shape.width = kCudaBlock * cluster;
  shape.rounds = (shape.vectors + shape.width - 1) / shape.width;
  if (shape.lanes > 1) shape.cached = CachedOperands(context, shape);
  return shape;
}

// The fewest blocks of a cluster that keep a row which stages read again and one block cannot keep; 1: none
// do. Where rows are many, each would be read from L2 once a stage instead (softmax of 1,094 rows of 27,399
// floats).
int64_t SmallestClusterThatFits(const PartContext& context) {
  const std::optional<RowShape> by_block = ShapeOfRow(context);
  if (!by_block || by_block->in_registers || by_block->width != kCudaBlock) return 1;
  for (int64_t cluster = 2; cluster <= kTeamBlocks; cluster *= 2) {
    const int64_t registers = RegistersOf(context.part, SharedBy(context, cluster));
    if (registers > 0 && registers <= kTeamRegisters / 2) return cluster;
  }
  return 1;
}

// None if rows are short, or so many that one block for each is enough. `resident`: blocks of a
// multiprocessor at most.
std::optional<RowShape> ShapeOfTeamRow(const PartContext& context, int resident = 2) {
  const Part& part = context.part;
  const int64_t elements = context.Points(part.outer, part.loops.size()),
                rows = context.Points(0, part.outer);
  const int64_t least =
      rows == 1 && HasOnlyMinMax(part) ? GpuTableOf(context.target).team_extremes : kLeastTeamRow;
  if (!context.target.clusters() || part.reduced == 0 || elements < least) return std::nullopt;
  int64_t cluster = kTeamBlocks;
  const double most_blocks = resident * context.Processors();
  while (part.kept == 0 && static_cast<double>(rows * cluster) > most_blocks) cluster /= 2;
  if (cluster < 2) cluster = SmallestClusterThatFits(context);
  if (cluster < 2 || (context.cluster != 0 && context.cluster != cluster)) return std::nullopt;
  RowShape shape = SharedBy(context, cluster);
  shape.in_shared = FitsShared(context, shape, rows);
  if (shape.in_shared) return shape;
  const int64_t most = kTeamRegisters / ResidentBlocks(context, rows, shape.cluster);
  if (RegistersOf(part, shape) > most) shape.cached.clear();
  const int64_t registers = RegistersOf(part, shape);
  if (registers > kTeamRegisters) return std::nullopt;
  if (registers == 0 && resident > 1 && !FillsSectors(part)) return ShapeOfTeamRow(context, 1);
  shape.in_registers = registers > 0;
  return shape;
}

// Exchanges all reductions of a stage between the blocks at once: sK of vK (and atK).
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
  const auto all = [](size_t r) { return "team_all[round_of_team & 1][" + Text(r) + "]"; };
  each("warp",
       [&](size_t r, const std::string& slot, const std::string& call, const std::string& type, bool at) {
         writer->Line(call + type + ">(v" + slot + (at ? ", at" + slot : "") + ", " + mine(r) + ");");
       });
  const auto places = [](size_t n, const TapeInst* inst) { return n + (IsArgReduction(inst->op) ? 2 : 1); };
  const size_t words = std::accumulate(reductions.begin(), reductions.end(), size_t{0}, places);
  writer->Line("__syncthreads();");
  writer->Line("team_expect(team_done, round_of_team, " + Text(words * 8) + "u * " + blocks + "u);");
  each("send", [&](size_t r, const std::string&, const std::string& call, const std::string& type, bool) {
    writer->Line("if (threadIdx.x / 32 == " + Text(r % 8) + ") " + call + type + ", " + blocks + ">(" +
                 mine(r) + ", " + all(r) + ", team_done[round_of_team & 1], rank);");
  });
  writer->Line("team_wait(team_done, round_of_team);");
  each("take",
       [&](size_t r, const std::string& slot, const std::string& call, const std::string& type, bool) {
         writer->Line("s" + slot + " = " + call + type + ", " + blocks + ">(" + all(r) + ");");
       });
  writer->Line("++round_of_team;");
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

// Writes the stage that ends a loop, and the end test. `later`: not in the first round.
void WriteEnd(const PartContext& context, const Stage& stage, const RowTypes& types,
              const std::string& prefix, bool later, PartWriter* writer) {
  std::string same = later ? "time > 0" : "";
  for (const TapeInst& inst : stage.tape) {
    if (inst.op != TapeOp::kSetScalar) continue;
    const std::string slot = Text(inst.arg);
    writer->Line("const " + std::string(TypeText(types.scalars[inst.arg])) + " was" + slot + " = s" + slot +
                 ";");
    same += (same.empty() ? "" : " && ") + ("team_bits(was" + slot) + ") == team_bits(s" + slot + ")";
  }
  WriteRowScalars(context.part, stage, prefix, writer);
  writer->Line("if (" + same + ") break;");
}

// The largest number of reductions in one stage.
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
  writer->Line("__shared__ __align__(8) u64 team_done[2];");
  writer->Line("u32 round_of_team = 0; (void)round_of_team;");
  writer->Decode("row", 0, part.outer);
  DeclareRow(context, shape, writer);
  DeclareKept(types, shape, writer);
  const bool early = context.LeavesRoom(blocks);
  if (early) writer->Line("launch_dependents();");
  CacheOperands(context, shape, true, writer);
  writer->Line("team_begin(team_done);");  // blocks that get remote writes must have begun
  writer->Line("wait_for_earlier();");
  CacheOperands(context, shape, false, writer);
  DeclareScalars(types, writer);
  for (size_t s = 0; s < part.stages.size();) {
    const Repeat repeat = RepeatFrom(part.stages, s);
    if (!early && s + repeat.all() == part.stages.size()) writer->Line("launch_dependents();");
    if (repeat.times > 1) {
      writer->Line("#pragma unroll 1");
      writer->Line("for (int time = 0; time < " + Text(repeat.times + (repeat.rest > 0)) + "; ++time) {");
    }
    const size_t end = repeat.times > 1 ? StageThatEnds(part.stages, repeat, s) : repeat.stages;
    for (size_t k = 0; k < repeat.stages; ++k) {
      const std::string prefix = "r" + Text(s + k) + "_";
      if (repeat.rest > 0 && k == repeat.rest) writer->Line("if (time == " + Text(repeat.times) + ") break;");
      if (k == end) {
        // If the loop begins with this stage, the first round's results were not reduced by the loop.
        const bool later = k == 0 && (s == 0 || repeat.stages != 2 ||
                                      !ReducesTheSame(part.stages[s - 1], part.stages[s + 1]));
        WriteEnd(context, part.stages[s + k], types, prefix, later, writer);
      } else {
        WriteStage(context, shape, part.stages[s + k], prefix, writer);
      }
    }
    if (repeat.times > 1) writer->Line("}");
    s += repeat.all();
  }
  PartLaunch launch;
  launch.cluster = static_cast<uint32_t>(shape.cluster);
  if (shape.in_shared) launch.shared = static_cast<uint32_t>(SharedBytesOf(part, shape));
  launch.resident = ResidentBlocks(context, context.Points(0, part.outer), shape.cluster);
  return WithBlocks(launch, blocks);
}

// The shape decides the cluster.
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  const std::optional<RowShape> shape = ShapeOfTeamRow(context);
  if (!shape) return {};
  KernelConfiguration configuration;
  configuration.cluster = shape->cluster;
  return {{configuration, kNotEstimated}};
}

}  // namespace

constinit const KernelVariant kTeamReduction = {VariantId::kAny, kHeaders, Candidates, WriteTeams};

}  // namespace rondo::cuda
