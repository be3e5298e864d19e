// Matmuls: a thread an output point, or a warp where K is the contiguous loop.
#include "compiler/codegen/cuda/matmul/matmul_templates.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"reductions", "scalar"};

Result<PartLaunch> WritePlain(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("wait_for_earlier();");
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const int64_t points = context.Points(0, first), k = context.Points(first, all);
  const std::string type = TypeText(part.acc_type);
  const Operand& rhs = part.operands[part.rhs[0]];
  const bool warp = rhs.strides[all - 1] == 1 && k >= 32;
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
    writer->Load(part.rhs[j], "rhs" + n);
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

constinit const PartTemplate kPlainMatmul = {TemplateFamily::kPlain, kHeaders,
                                             OneCandidate<TemplateFamily::kPlain>, WritePlain};

}  // namespace rondo::cuda
