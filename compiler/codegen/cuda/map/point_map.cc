// Maps: each thread computes a point, or neighbouring points whose results it writes as vectors.
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

namespace {

Result<PartLaunch> WriteMap(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const size_t loops = context.part.loops.size();
  const int lanes = LanesOfMap(context);
  const int64_t threads = context.Points(0, loops) / lanes;
  writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
  writer->Line("if (point >= " + Text(threads) + "ull) return;");
  if (lanes == 1) {
    writer->Decode("point", 0, loops);
    writer->WriteTape(context.part.body, "r");
  } else {
    writer->Line("const u64 first = point * " + Text(lanes) + "u;");
    writer->Decode("first", 0, loops);
    writer->WriteLanes(context.part.body, "r", loops - 1, lanes, "");
  }
  return WithBlocks((threads + kCudaBlock - 1) / kCudaBlock);
}

bool Suits(const PartContext& context) { return !context.part.sequential; }

}  // namespace

constinit const KernelVariant kPointMap = {
    VariantId::kAny, {}, OneCandidate<VariantId::kAny, Suits>, WriteMap};

}  // namespace rondo::cuda
