// Maps that read what lies along another loop than their results: a thread computes a block of points, reads
// it as vectors along the one loop, transposes it in registers and writes vectors along the other.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"turned"};

struct Turn {
  size_t across = 0;        // the loop along which `operands` lie; results lie along the last loop
  int lanes = 1, deep = 1;  // points of a thread along the last loop, and across
  std::vector<size_t> operands;

  int64_t Threads(const PartContext& context) const {
    return context.Points(0, context.part.loops.size()) / (lanes * deep);
  }
};

bool Combines(Tape tape) {
  return std::any_of(tape.begin(), tape.end(), [](const TapeInst& inst) { return rondo::Combines(inst.op); });
}

// What is read far apart along the last loop.
std::vector<size_t> FarApart(const PartContext& context, int lanes) {
  const Part& part = context.part;
  const size_t last = part.loops.size() - 1;
  std::vector<size_t> far;
  for (size_t index : Touched(part.body, TapeOp::kLoad)) {
    const Operand& operand = part.operands[index];
    const int64_t bytes = ByteSize(operand.dtype);
    if (MovesAlong(part, operand, last) && !FitsLanes(context, index, last, lanes) && bytes <= 4 &&
        lanes * bytes % 4 == 0 && operand.absent == 0 && operand.indirects.empty() &&
        !IsWritten(part, operand.param))
      far.push_back(index);
  }
  return far;
}

// None where nothing lies so, or too few threads would be left.
std::optional<Turn> TurnOf(const PartContext& context) {
  constexpr double kLeastThreads = 64;  // a multiprocessor
  const Part& part = context.part;
  if (part.sequential || part.loops.size() < 2 || Combines(part.body)) return std::nullopt;
  Turn turn;
  turn.lanes = LanesOfMap(context);
  if (turn.lanes == 1) return std::nullopt;
  const std::vector<size_t> far = FarApart(context, turn.lanes);
  for (turn.deep = 8; turn.deep > 1; turn.deep /= 2) {
    if (static_cast<double>(turn.Threads(context)) < kLeastThreads * context.Processors()) continue;
    for (turn.across = 0; turn.across + 1 < part.loops.size(); ++turn.across) {
      turn.operands.clear();
      std::copy_if(far.begin(), far.end(), std::back_inserter(turn.operands),
                   [&](size_t index) { return FitsLanes(context, index, turn.across, turn.deep); });
      if (!turn.operands.empty()) return turn;
    }
  }
  return std::nullopt;
}

// Counters of this thread's first point; neighbouring threads write neighbouring vectors.
void WriteFirstPoint(const PartContext& context, const Turn& turn, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("u64 rest = point;");
  for (size_t l = part.loops.size(); l-- > 0;) {
    const int64_t each = l + 1 == part.loops.size() ? turn.lanes : l == turn.across ? turn.deep : 1;
    const std::string extent = Text(part.loops[l] / each) + "u", i = Counter(l);
    writer->Line("i64 " + i + " = (i64)(rest % " + extent + ") * " + Text(each) + "; rest /= " + extent +
                 "; (void)" + i + ";");
  }
}

// turnedK[]: words of the operand along the last loop, for each point across.
void WriteBlock(const PartContext& context, const Turn& turn, size_t index, PartWriter* writer) {
  const int64_t bytes = ByteSize(context.part.operands[index].dtype);
  const std::string lanes = Text(turn.lanes), deep = Text(turn.deep), name = Text(index),
                    along = Counter(context.part.loops.size() - 1);
  writer->Line("u32 turned" + name + "[" + deep + "][" + Text(turn.lanes * bytes / 4) + "];");
  writer->Line("{ u32 block[" + lanes + "][" + Text(turn.deep * bytes / 4) + "]; const i64 first = " + along +
               ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int e = 0; e < " + lanes + "; ++e) {");
  writer->Line("const i64 " + along + " = first + e;");
  writer->LoadWords(index, turn.deep, "block[e]");
  writer->Line("}");
  writer->Line("turn_words<" + Text(bytes) + ", " + lanes + ", " + deep + ">(block, turned" + name + "); }");
}

Result<PartLaunch> WriteTurned(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const Turn turn = *TurnOf(context);
  const std::string across = Counter(turn.across);
  const int64_t threads = turn.Threads(context);
  writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
  writer->Line("if (point >= " + Text(threads) + "ull) return;");
  WriteFirstPoint(context, turn, writer);
  for (size_t index : turn.operands) WriteBlock(context, turn, index, writer);
  writer->Line("const i64 start = " + across + ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int t = 0; t < " + Text(turn.deep) + "; ++t) {");
  writer->Line("const i64 " + across + " = start + t; (void)" + across + ";");
  writer->scope.lanes.assign(part.operands.size(), "");
  for (size_t index : turn.operands) writer->scope.lanes[index] = "turned" + Text(index) + "[t]";
  writer->WriteLanes(part.body, "r", part.loops.size() - 1, turn.lanes, "");
  writer->scope.lanes.clear();
  writer->Line("}");
  return WithBlocks((threads + kCudaBlock - 1) / kCudaBlock);
}

bool Suits(const PartContext& context) { return TurnOf(context).has_value(); }

}  // namespace

constinit const KernelVariant kTurnedMap = {VariantId::kAny, kHeaders, OneCandidate<VariantId::kAny, Suits>,
                                            WriteTurned};

}  // namespace rondo::cuda
