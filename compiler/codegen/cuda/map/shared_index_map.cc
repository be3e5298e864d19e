// Maps that read at places from data which are the same along some loop: all channels of a picture are
// sampled at the same places. A thread computes points along that loop; it reads once what they share.
#include <algorithm>

#include "compiler/codegen/cuda/batches.h"
#include "compiler/codegen/cuda/map/colliding_writes.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

// Operands read at places from data that move along the last loop, so that they cannot be read as vectors.
std::vector<size_t> ReadApart(const Part& part) {
  std::vector<size_t> apart = Touched(part.body, TapeOp::kLoad);
  std::erase_if(
      apart, [&](size_t index) { return !IndicesMove(part, part.operands[index], part.loops.size() - 1); });
  return apart;
}

// Few enough that indices and weights fit in registers. A thread's neighbouring points read one channel: what
// its block reads of it may still be in L1.
int LanesOfShared(const PartContext& context, const std::vector<size_t>& apart) {
  constexpr int kMostLanes = 4;
  const Part& part = context.part;
  const int lanes = std::min(LanesOfMap(context), kMostLanes);
  const bool vectors = std::all_of(apart.begin(), apart.end(), [&](size_t index) {
    const Span<const Indirect> by = part.operands[index].indirects;
    return std::all_of(by.begin(), by.end(), [&](const Indirect& indirect) {
      return IsVectorIndex(context, indirect, part.loops.size() - 1, lanes);
    });
  });
  return vectors ? lanes : 1;
}

// What all points along the loop read, and what fits in registers of it.
std::vector<size_t> ReadOnce(const PartContext& context, size_t along, int lanes) {
  constexpr int64_t kMostBytes = 256;
  const Part& part = context.part;
  std::vector<size_t> once = Touched(part.body, TapeOp::kLoad);
  for (size_t k = 0, loaded = once.size(); k < loaded; ++k) {
    for (const Indirect& by : part.operands[once[k]].indirects) {
      if (std::find(once.begin(), once.end(), by.operand) == once.end()) once.push_back(by.operand);
    }
  }
  int64_t bytes = 0;
  std::erase_if(once, [&](size_t index) {
    const Operand& operand = part.operands[index];
    if (operand.absent != 0 || IsWritten(part, operand.param) || MovesAlong(part, operand, along) ||
        !IsVectorAlong(context, index, part.loops.size() - 1, lanes))
      return true;
    bytes += std::max<int64_t>(4, lanes * ByteSize(operand.dtype));
    return bytes > kMostBytes;
  });
  return once;
}

}  // namespace

std::optional<SharedIndex> SharedIndexOf(const PartContext& context) {
  constexpr int64_t kMostSteps = 16;
  const Part& part = context.part;
  if (part.sequential || part.loops.size() < 2) return std::nullopt;
  const std::vector<size_t> apart = ReadApart(part), stored = Touched(part.body, TapeOp::kStore);
  if (apart.empty() || stored.empty()) return std::nullopt;
  SharedIndex shared;
  int64_t longest = 1;
  for (size_t l = 0; l + 1 < part.loops.size(); ++l) {
    const auto moves = [&](size_t index) { return MovesAlong(part, part.operands[index], l); };
    const auto same = [&](size_t index) { return !IndicesMove(part, part.operands[index], l); };
    if (part.loops[l] <= longest || !std::all_of(apart.begin(), apart.end(), same) ||
        !std::all_of(stored.begin(), stored.end(), moves))
      continue;
    longest = part.loops[l];
    shared.along = l;
  }
  shared.lanes = LanesOfShared(context, apart);
  shared.steps = std::min(
      longest, PointsOfThread(context, context.Points(0, part.loops.size()) / shared.lanes, kMostSteps));
  shared.threads = context.Points(0, part.loops.size()) / longest / shared.lanes *
                   ((longest + shared.steps - 1) / shared.steps);
  shared.once = ReadOnce(context, shared.along, shared.lanes);
  if (shared.steps == 1 || shared.once.empty() || shared.threads > INT32_MAX) return std::nullopt;
  return shared;
}

namespace {

Result<PartLaunch> WriteShared(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const SharedIndex shared = *SharedIndexOf(context);
  const size_t last = part.loops.size() - 1;
  const std::string along = Counter(shared.along), steps = Text(shared.steps);
  Batches batches;
  batches.lanes = shared.lanes;
  batches.operands = shared.once;
  batches.number = "block * kBlockThreads + threadIdx.x";
  batches.numbers = Text(shared.threads) + "u";
  const auto decode = [&] {
    writer->Line("u32 rest = number;");
    for (size_t l = last + 1; l-- > 0;) {
      const int64_t each = l == last ? shared.lanes : l == shared.along ? shared.steps : 1;
      const std::string extent = Text((part.loops[l] + each - 1) / each) + "u", i = Counter(l);
      writer->Line("const i64 " + i + " = (i64)(rest % " + extent + ") * " + Text(each) +
                   "; rest /= " + extent + "; (void)" + i + ";");
    }
  };
  const auto compute = [&] {
    writer->Line("const i64 begin = " + along + ";");
    writer->Line("#pragma unroll 1");
    writer->Line("for (i64 " + along + " = begin; " + along + " < begin + " + steps + " && " + along + " < " +
                 IntText(part.loops[shared.along]) + "; ++" + along + ") {");
    if (shared.lanes == 1)
      writer->WriteTape(part.body, "r");
    else
      writer->WriteLanes(part.body, "r", last, shared.lanes, "");
    writer->Line("}");
  };
  WriteBatches(context, batches, "", decode, compute, writer);
  return WithBlocks((shared.threads + kCudaBlock - 1) / kCudaBlock);
}

bool Suits(const PartContext& context) { return SharedIndexOf(context).has_value(); }

}  // namespace

constinit const KernelVariant kSharedIndexMap = {
    VariantId::kAny, {}, OneCandidate<VariantId::kAny, Suits>, WriteShared};

}  // namespace rondo::cuda
