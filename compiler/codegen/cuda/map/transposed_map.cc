// Maps whose reads are contiguous along another loop than their results. Each thread reads a block of points
// as vectors along the one loop, transposes it in registers, and writes vectors along the other.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"transposed"};

struct TransposedTile {
  // The loop along which `operands` are contiguous; results are contiguous along the last loop.
  size_t across = 0;
  int lanes = 1, deep = 1;  // a thread's points along the last loop, and along `across`
  std::vector<size_t> operands;

  int64_t Threads(const PartContext& context) const {
    return context.Points(0, context.part.loops.size()) / (lanes * deep);
  }
};

bool Combines(Tape tape) {
  return std::any_of(tape.begin(), tape.end(), [](const TapeInst& inst) { return rondo::Combines(inst.op); });
}

// Operands whose elements are far apart along the last loop.
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

// None if no operand is transposed, or too few threads would be left.
std::optional<TransposedTile> TransposedTileOf(const PartContext& context) {
  constexpr double kLeastThreads = 64;  // a multiprocessor
  const Part& part = context.part;
  if (part.sequential || part.loops.size() < 2 || Combines(part.body)) return std::nullopt;
  TransposedTile tile;
  tile.lanes = LanesOfMap(context);
  if (tile.lanes == 1) return std::nullopt;
  const std::vector<size_t> far = FarApart(context, tile.lanes);
  for (tile.deep = 8; tile.deep > 1; tile.deep /= 2) {
    if (static_cast<double>(tile.Threads(context)) < kLeastThreads * context.Processors()) continue;
    for (tile.across = 0; tile.across + 1 < part.loops.size(); ++tile.across) {
      tile.operands.clear();
      std::copy_if(far.begin(), far.end(), std::back_inserter(tile.operands),
                   [&](size_t index) { return FitsLanes(context, index, tile.across, tile.deep); });
      if (!tile.operands.empty()) return tile;
    }
  }
  return std::nullopt;
}

// Writes the counters of this thread's first point; neighbouring threads write neighbouring vectors.
void WriteFirstPoint(const PartContext& context, const TransposedTile& tile, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("u64 rest = point;");
  for (size_t l = part.loops.size(); l-- > 0;) {
    const int64_t each = l + 1 == part.loops.size() ? tile.lanes : l == tile.across ? tile.deep : 1;
    const std::string extent = Text(part.loops[l] / each) + "u", i = Counter(l);
    writer->Line("i64 " + i + " = (i64)(rest % " + extent + ") * " + Text(each) + "; rest /= " + extent +
                 "; (void)" + i + ";");
  }
}

// Writes transposedK[]: the operand's words along the last loop, for each point along `across`.
void WriteBlock(const PartContext& context, const TransposedTile& tile, size_t index, PartWriter* writer) {
  const int64_t bytes = ByteSize(context.part.operands[index].dtype);
  const std::string lanes = Text(tile.lanes), deep = Text(tile.deep), name = Text(index),
                    along = Counter(context.part.loops.size() - 1);
  writer->Line("u32 transposed" + name + "[" + deep + "][" + Text(tile.lanes * bytes / 4) + "];");
  writer->Line("{ u32 block[" + lanes + "][" + Text(tile.deep * bytes / 4) + "]; const i64 first = " + along +
               ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int e = 0; e < " + lanes + "; ++e) {");
  writer->Line("const i64 " + along + " = first + e;");
  writer->LoadWords(index, tile.deep, "block[e]");
  writer->Line("}");
  writer->Line("transpose_words<" + Text(bytes) + ", " + lanes + ", " + deep + ">(block, transposed" + name +
               "); }");
}

Result<PartLaunch> WriteTransposed(const PartContext& context, const KernelConfiguration&,
                                   PartWriter* writer) {
  const Part& part = context.part;
  const TransposedTile tile = *TransposedTileOf(context);
  const std::string across = Counter(tile.across);
  const int64_t threads = tile.Threads(context);
  writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
  writer->Line("if (point >= " + Text(threads) + "ull) return;");
  WriteFirstPoint(context, tile, writer);
  for (size_t index : tile.operands) WriteBlock(context, tile, index, writer);
  writer->Line("const i64 start = " + across + ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int t = 0; t < " + Text(tile.deep) + "; ++t) {");
  writer->Line("const i64 " + across + " = start + t; (void)" + across + ";");
  writer->scope.lanes.assign(part.operands.size(), "");
  for (size_t index : tile.operands) writer->scope.lanes[index] = "transposed" + Text(index) + "[t]";
  writer->WriteLanes(part.body, "r", part.loops.size() - 1, tile.lanes, "");
  writer->scope.lanes.clear();
  writer->Line("}");
  return WithBlocks((threads + kCudaBlock - 1) / kCudaBlock);
}

bool Suits(const PartContext& context) { return TransposedTileOf(context).has_value(); }

}  // namespace

constinit const KernelVariant kTransposedMap = {VariantId::kAny, kHeaders,
                                                OneCandidate<VariantId::kAny, Suits>, WriteTransposed};

}  // namespace rondo::cuda
