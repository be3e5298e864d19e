// Convolutions and pools with one thread for each output point.
#include "compiler/codegen/cuda/convolution/convolution_variants.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"elements", "scalar"};

Result<PartLaunch> WritePlain(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("wait_for_earlier();");
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const int64_t points = context.Points(0, first);
  const std::string type = TypeText(part.acc_type);
  const bool max = part.combine == Combine::kMax;
  writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
  writer->Line("if (point >= " + Text(points) + "ull) return;");
  // Neighbouring threads write neighbouring elements.
  writer->DecodeLoops("point", ByStrideOfResult(part, first));
  const std::string lowest =
      part.acc_type == TapeType::kI64 ? "(i64)0x8000000000000000ull" : "bits_float(0xff800000u)";
  writer->Line(type + " acc0 = " + (max ? lowest : "0") + "; i64 present = 0;");
  for (size_t j = 1; j < part.rhs.size(); ++j) writer->Line(type + " acc" + Text(j) + " = 0;");
  writer->Open(first, all);
  const Operand& input = part.operands[part.lhs];
  writer->Line("{");
  writer->Address(input);
  // Absent elements that are not 0 are multiplied too; absent elements never count in a maximum or mean.
  const std::string read = "ld_" + std::string(Name(input.dtype)) + "(p" + Text(input.param) + ", a)";
  const bool pads = !part.rhs.empty() && input.absent != 0;
  const std::string absent = part.acc_type == TapeType::kI64 ? IntText(static_cast<int64_t>(input.absent))
                                                             : NumberText(input.absent, part.acc_type);
  writer->Line(pads ? "{" : "if (ok) { ++present;");
  writer->Line("const " + type + " x = " + (pads ? "!ok ? " + absent + " : " : "") + "(" + type + ")" + read +
               ";");
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    const std::string acc = "acc" + Text(j), weight = "w" + Text(j);
    writer->Load(part.rhs[j], weight);
    writer->Line(acc + " = op_add(" + acc + ", op_mul(x, (" + type + ")" + weight + "));");
  }
  if (part.rhs.empty()) {
    writer->Line(max ? "acc0 = op_max(acc0, x);" : "acc0 = op_add(acc0, x);");
  }
  writer->Line("} }");
  writer->Close(all - first);
  if (part.combine == Combine::kMean) writer->Line("acc0 = acc0 / (" + type + ")present;");
  writer->ZeroLoops(first, all);
  writer->WriteTape(part.epilogue, "r");
  return WithBlocks((points + kCudaBlock - 1) / kCudaBlock);
}

}  // namespace

constinit const KernelVariant kPlainConvolution = {VariantId::kPlain, kHeaders,
                                                   OneCandidate<VariantId::kPlain>, WritePlain};

}  // namespace rondo::cuda
