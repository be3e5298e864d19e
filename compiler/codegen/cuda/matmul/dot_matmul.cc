// Small matmuls: a warp computes each output element. It reads A and B as vectors along K; a constant B
// before the earlier kernels are complete.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"reductions", "vectors"};

struct DotShape {
  int lanes = 1;                    // elements of a vector
  int64_t words = 0;                // of one vector of every B
  int64_t vectors = 0, rounds = 0;  // along K, and for each lane
};

std::optional<DotShape> ShapeOfDots(const PartContext& context) {
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const Operand& lhs = part.operands[part.lhs];
  if (part.acc_type != TapeType::kF32 || !part.prologue.empty() || all == first || !HasVectors(lhs.dtype) ||
      !IsPlain(lhs))
    return std::nullopt;
  DotShape shape;
  int lanes = VectorAlong(part, lhs, all - 1, context.params[lhs.param]);
  for (uint16_t index : part.rhs) {
    const Operand& rhs = part.operands[index];
    if (!HasVectors(rhs.dtype) || !IsPlain(rhs)) return std::nullopt;
    lanes = std::min(lanes, VectorAlong(part, rhs, all - 1, context.params[rhs.param]));
    // Vectors consist of whole words.
    if (lanes * ByteSize(rhs.dtype) % 4 != 0) return std::nullopt;
    shape.words += lanes * ByteSize(rhs.dtype) / 4;
  }
  if (lanes < 2 || lanes * ByteSize(lhs.dtype) % 4 != 0) return std::nullopt;
  shape.lanes = lanes;
  shape.vectors = context.Points(first, all) / lanes;
  shape.rounds = (shape.vectors + 31) / 32;
  constexpr int64_t kMostWords = 64;
  if (shape.rounds * shape.words > kMostWords) return std::nullopt;
  return shape;
}

// Opens the loop over this lane's vectors (close it with two braces), with counters at the first element.
void OpenRounds(const PartContext& context, const DotShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("#pragma unroll");
  writer->Line("for (int round = 0; round < " + Text(shape.rounds) + "; ++round) {");
  writer->Line("const u32 vector = lane + round * 32;");
  writer->Line(shape.vectors % 32 == 0 ? "{" : "if (vector < " + Text(shape.vectors) + "u) {");
  writer->Line("const u32 first = vector * " + Text(shape.lanes) + "u;");
  writer->Decode("first", static_cast<size_t>(EpilogueLoops(part)), part.loops.size());
}

// Reads the vectors of B: a constant B before the earlier kernels are complete.
void WriteLoads(const PartContext& context, const DotShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const bool early = AreConstant(context, part.rhs);
  if (!early) writer->Line("wait_for_earlier();");
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    const int64_t words = shape.lanes * ByteSize(part.operands[part.rhs[j]].dtype) / 4;
    writer->Line("float acc" + Text(j) + " = 0; u32 b" + Text(j) + "_words[" + Text(shape.rounds) + "][" +
                 Text(words) + "];");
  }
  OpenRounds(context, shape, writer);
  for (size_t j = 0; j < part.rhs.size(); ++j)
    writer->LoadWords(part.rhs[j], shape.lanes, "b" + Text(j) + "_words[round]");
  writer->Close(2);
  if (early) writer->Line("wait_for_earlier();");
}

void WriteMultiplies(const PartContext& context, const DotShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const std::string lanes = Text(shape.lanes);
  const Operand& lhs = part.operands[part.lhs];
  OpenRounds(context, shape, writer);
  writer->Line("u32 a_words[" + Text(shape.lanes * ByteSize(lhs.dtype) / 4) + "]; float x[" + lanes +
               "], y[" + lanes + "];");
  writer->LoadWords(part.lhs, shape.lanes, "a_words");
  writer->Line(std::string("widen_") + Name(lhs.dtype) + "<" + lanes + ">(a_words, x);");
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    const std::string n = Text(j), acc = Accumulator(j);
    writer->Line(std::string("widen_") + Name(part.operands[part.rhs[j]].dtype) + "<" + lanes + ">(b" + n +
                 "_words[round], y);");
    writer->Line("#pragma unroll");
    writer->Line("for (int e = 0; e < " + lanes + "; ++e) " + acc + " = __fmaf_rn(x[e], y[e], " + acc + ");");
  }
  writer->Close(2);
}

Result<PartLaunch> WriteDots(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const DotShape shape = *ShapeOfDots(context);
  const size_t first = static_cast<size_t>(EpilogueLoops(part));
  const int64_t points = context.Points(0, first);
  const GpuTable& gpu = GpuTableOf(context.target);
  PartLaunch launch;
  launch.block = static_cast<double>(points) >= gpu.dot_points * context.Processors() ? kCudaBlock : 64;
  const int64_t points_a_block = launch.block / 32;
  writer->Line("const u64 point = (u64)block * " + Text(points_a_block) + " + threadIdx.x / 32;");
  writer->Line("if (point >= " + Text(points) + "ull) return;");
  writer->Line("const u32 lane = threadIdx.x % 32;");
  writer->Decode("point", 0, first);
  WriteLoads(context, shape, writer);
  WriteMultiplies(context, shape, writer);
  for (size_t j = 0; j < part.rhs.size(); ++j)
    writer->Line(Accumulator(j) + " = reduce<Sum, 32>(" + Accumulator(j) + ");");
  writer->Line("if (lane != 0) return;");
  writer->ZeroLoops(first, part.loops.size());
  writer->WriteTape(part.epilogue, "r");
  return WithBlocks(launch, (points + points_a_block - 1) / points_a_block);
}

bool Suits(const PartContext& context) { return ShapeOfDots(context).has_value(); }

}  // namespace

constinit const KernelVariant kDotMatmul = {VariantId::kDot, kHeaders, OneCandidate<VariantId::kDot, Suits>,
                                            WriteDots};

}  // namespace rondo::cuda
