// Matmuls with one thread for each output element, or one warp where K is the contiguous loop.
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"reductions", "scalar"};

// Writes "const float NAME = ": the packed weight at the counters' n and k.
void WritePackedValue(const Part& part, size_t j, const std::string& name, PartWriter* writer) {
  const Operand& codes = part.operands[part.rhs[j]];
  const DType scale = part.operands[part.scales[j]].dtype;
  std::vector<int64_t> over_n(codes.strides.begin(), codes.strides.end()), over_k = over_n;
  PackedShape shape = {1, 1, part.packed.block, BitsOf(part.packed.type)};
  for (size_t l = 0; l < part.loops.size(); ++l) {
    const bool reduced = l >= static_cast<size_t>(EpilogueLoops(part));
    (reduced ? over_n : over_k)[l] = 0;
    (reduced ? shape.k : shape.n) *= codes.strides[l] == 0 ? 1 : part.loops[l];
  }
  const auto pointer = [&](Span<const uint16_t> operands) {
    return operands.empty() ? std::string("nullptr") : "p" + Text(part.operands[operands[j]].param);
  };
  writer->Include("packed_value");
  writer->Line("const float " + name + " = packed_value<" + Text(static_cast<int>(part.packed.type)) + ", " +
               Text(shape.bits) + ", " + Text(static_cast<int>(scale)) + ">(" + pointer(part.rhs) + ", " +
               pointer(part.scales) + ", " + pointer(part.zeros) + ", " + Text(part.packed.zero) + ", (" +
               AffineText(0, {over_n.data(), over_n.size()}) + ") / " + Text(shape.Stride()) + ", " +
               AffineText(0, {over_k.data(), over_k.size()}) + ", " + Text(shape.pieces()) + ", " +
               Text(shape.blocks()) + ", " + IntText(shape.block) + ");");
}

Result<PartLaunch> WritePlain(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("wait_for_earlier();");
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const int64_t points = context.Points(0, first), k = context.Points(first, all);
  const std::string type = TypeText(part.acc_type);
  const bool warp = LanesOfPlainMatmul(context) > 1;
  const int64_t points_a_block = warp ? kCudaBlock / 32 : kCudaBlock;
  writer->Line("const u64 point = (u64)block * " + Text(points_a_block) + " + threadIdx.x" +
               (warp ? " / 32;" : ";"));
  writer->Line("if (point >= " + Text(points) + "ull) return;");
  writer->Decode("point", 0, first);
  for (size_t j = 0; j < part.rhs.size(); ++j) writer->Line(type + " acc" + Text(j) + " = 0;");
  writer->Line("for (i64 k = " + std::string(warp ? "threadIdx.x % 32" : "0") + "; k < " + Text(k) +
               "; k += " + (warp ? "32" : "1") + ") {");
  writer->Decode("k", first, all);
  std::string lhs = "lhs";
  if (part.prologue.empty()) {
    writer->Load(part.lhs, lhs);
  } else {
    lhs = writer->WriteTape(part.prologue, "q");
  }
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    std::string n = Text(j);
    if (part.packed.type == PackedType::kNone) {
      writer->Load(part.rhs[j], "rhs" + n);
    } else {
      WritePackedValue(part, j, "rhs" + n, writer);
    }
    writer->Line("acc" + n + " = op_add(acc" + n + ", op_mul((" + type + ")" + lhs + ", (" + type + ")rhs" +
                 n + "));");
  }
  writer->Line("}");
  if (warp) {
    for (size_t j = 0; j < part.rhs.size(); ++j) {
      std::string n = Text(j);
      writer->Line("acc" + n + " = reduce<Sum, 32>(acc" + n + ");");
    }
    writer->Line("if (threadIdx.x % 32 != 0) return;");
  }
  writer->ZeroLoops(first, all);
  writer->WriteTape(part.epilogue, "r");
  return WithBlocks((points + points_a_block - 1) / points_a_block);
}

}  // namespace

int64_t LanesOfPlainMatmul(const PartContext& context) {
  constexpr int64_t kWarp = 32;
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const bool warp = part.operands[part.rhs[0]].strides[all - 1] == 1 && context.Points(first, all) >= kWarp &&
                    part.packed.type == PackedType::kNone;
  return warp ? kWarp : 1;
}

constinit const KernelVariant kPlainMatmul = {VariantId::kPlain, kHeaders, OneCandidate<VariantId::kPlain>,
                                              WritePlain};

}  // namespace rondo::cuda
