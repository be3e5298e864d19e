// Maps: each thread computes points one block apart, or vectors of neighbouring points, also over the ends of
// rows.
#include <algorithm>

#include "compiler/codegen/cuda/batches.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

int LanesOfMap(const PartContext& context) {
  const Part& part = context.part;
  if (part.loops.empty()) return 1;
  // Reads may have any layout; writes decide the vectors.
  std::vector<size_t> stored = Touched(part.body, TapeOp::kStore);
  if (stored.empty()) stored = Touched(part.body, TapeOp::kLoad);  // tapes that only combine
  const size_t along = part.loops.size() - 1;
  for (size_t index : stored) {
    if (!MovesAlong(part, part.operands[index], along)) return 1;
  }
  return LanesFor(context, stored, along);
}

int RunOfMap(const PartContext& context) {
  constexpr double kLeastBlocks = 2;  // a multiprocessor
  const Part& part = context.part;
  if (part.loops.size() < 2 || LanesOfMap(context) > 1) return 1;
  const std::vector<size_t> stored = Touched(part.body, TapeOp::kStore);
  int64_t least = 4;
  for (size_t index : stored) least = std::min(least, ByteSize(part.operands[index].dtype));
  const int lanes = static_cast<int>(16 / std::max<int64_t>(least, 2));
  const double blocks = static_cast<double>(context.Points(0, part.loops.size())) / lanes / kCudaBlock;
  const bool flat = !stored.empty() && std::all_of(stored.begin(), stored.end(), [&](size_t index) {
    return IsFlat(context, index, lanes);
  });
  return flat && blocks >= kLeastBlocks * context.Processors() ? lanes : 1;
}

std::vector<bool> VectorsOfRun(const PartContext& context, int lanes) {
  std::vector<bool> vectors;
  for (size_t index = 0; index < context.part.operands.size(); ++index)
    vectors.push_back(IsFlat(context, index, lanes));
  return vectors;
}

// Several if all that they read can be read before the first is stored. Blocks of one point a thread take
// longer to begin and end than to compute: adding two images of odd width took 306 us (an H200, 126 MB
// written).
int64_t PointsOfMapThread(const PartContext& context) {
  const Part& part = context.part;
  const int lanes = LanesOfMap(context);
  const std::vector<size_t> ahead = ReadableAhead(context, part.body, lanes);
  const int64_t vectors = context.Points(0, part.loops.size()) / lanes;
  int64_t bytes = 0;
  for (size_t index : Touched(part.body, TapeOp::kLoad)) {
    if (std::find(ahead.begin(), ahead.end(), index) != ahead.end())
      bytes += std::max<int64_t>(4, lanes * ByteSize(part.operands[index].dtype));
    else if (lanes == 1 || MovesAlong(part, part.operands[index], part.loops.size() - 1))
      return 1;
  }
  if (bytes == 0 || vectors > INT32_MAX) return 1;
  int64_t most = kMostAhead;
  while (most > 1 && most * bytes > kBytesAhead) most /= 2;
  return PointsOfThread(context, vectors, most);
}

namespace {

// Vectors of points one after another, whose counters carry from loop to loop.
Result<PartLaunch> WriteRuns(const PartContext& context, int lanes, PartWriter* writer) {
  const Part& part = context.part;
  const int64_t points = context.Points(0, part.loops.size()), vectors = (points + lanes - 1) / lanes;
  writer->Line("const u64 first = ((u64)block * kBlockThreads + threadIdx.x) * " + Text(lanes) + "u;");
  writer->Line("if (first >= " + Text(points) + "ull) return;");
  if (points % lanes != 0) {
    writer->Line("if (first + " + Text(lanes) + "u > " + Text(points) + "ull) {");
    writer->Line("for (u64 number = first; number < " + Text(points) + "ull; ++number) {");
    writer->Decode("number", 0, part.loops.size());
    writer->WriteTape(part.body, "r");
    writer->Line("} return; }");
  }
  writer->Decode("first", 0, part.loops.size());
  writer->scope.vectors = VectorsOfRun(context, lanes);
  writer->WriteRun(part.body, "r", lanes);
  return WithBlocks((vectors + kCudaBlock - 1) / kCudaBlock);
}

Result<PartLaunch> WriteMap(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  if (const int run = RunOfMap(context); run > 1) return WriteRuns(context, run, writer);
  const size_t loops = context.part.loops.size();
  const int lanes = LanesOfMap(context);
  const int64_t vectors = context.Points(0, loops) / lanes;
  Batches batches;
  batches.lanes = lanes;
  batches.operands = ReadableAhead(context, context.part.body, lanes);
  batches.size = PointsOfMapThread(context);
  const int64_t of_block = batches.size * kCudaBlock;
  const auto decode = [&](std::string_view from) {
    if (lanes == 1) return writer->Decode(from, 0, loops);
    writer->Line("const u64 first = (u64)" + std::string(from) + " * " + Text(lanes) + "u;");
    writer->Decode("first", 0, loops);
  };
  const auto compute = [&] {
    if (lanes == 1)
      writer->WriteTape(context.part.body, "r");
    else
      writer->WriteLanes(context.part.body, "r", loops - 1, lanes, "");
  };
  if (batches.size == 1) {
    writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
    writer->Line("if (point >= " + Text(vectors) + "ull) return;");
    decode("point");
    compute();
  } else {
    batches.number = "block * " + Text(of_block) + "u + threadIdx.x + r * kBlockThreads";
    batches.numbers = Text(vectors) + "u";
    WriteBatches(
        context, batches, "", [&] { decode("number"); }, compute, writer);
  }
  return WithBlocks((vectors + of_block - 1) / of_block);
}

bool Suits(const PartContext& context) { return !context.part.sequential; }

}  // namespace

constinit const KernelVariant kPointMap = {
    VariantId::kAny, {}, OneCandidate<VariantId::kAny, Suits>, WriteMap};

}  // namespace rondo::cuda
