// Pools, and convolutions with few channels in each group: a thread slides along the last spatial axis
// (WindowLine of device/windows.cuh).
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/convolution/convolution_variants.h"
#include "compiler/codegen/cuda/convolution/window_shape.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"windows"};

// The device type of the elements read; WindowCandidates offers no others.
const char* LaneType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "LaneF32";
    case DType::kF16: return "LaneF16";
    case DType::kI8: return "LaneI8";
    case DType::kU8: return "LaneU8";
    case DType::kI16: return "LaneI16";
    default: return "LaneBF16";
  }
}

const char* KindText(const Part& part) {
  switch (part.combine) {
    case Combine::kProduct: return "WINDOW_PRODUCT";
    case Combine::kMax: return "WINDOW_MAX";
    case Combine::kSum: return "WINDOW_SUM";
    case Combine::kMean: return "WINDOW_MEAN";
    case Combine::kMin: break;  // of kTopK alone
  }
  return "";
}

// Writes `a`, the start of the current line, and `inside`, whether the line exists.
void WriteAddress(const Part& part, const WindowShape& shape, PartWriter* writer) {
  const Operand& input = part.operands[part.lhs];
  const size_t first = static_cast<size_t>(EpilogueLoops(part)) - shape.spatial,
               taps = part.loops.size() - shape.spatial;
  writer->Line("i64 a = " + AffineText(input.offset, input.strides) + "; bool inside = true;");
  for (size_t g = 0; g + 1 < shape.spatial; ++g) {
    const Guard& guard = input.guards[g];
    writer->Line("{ const int c = (int)(" + IntText(guard.offset) + " + " +
                 IntText(guard.strides[first + g]) + " * " + Counter(first + g) + " + " +
                 IntText(guard.strides[taps + g]) + " * " + Counter(taps + g) + ");");
    writer->Line("inside = inside && (u32)c < " + Text(guard.extent) + "u; a += " + IntText(guard.stride) +
                 " * c; }");
  }
}

void StartSums(const PartContext& context, const WindowShape& shape, PartWriter* writer) {
  const std::string points = Text(shape.points), lanes = Text(shape.lanes);
  const bool max = context.part.combine == Combine::kMax;
  writer->Line("float sums[" + points + "][" + lanes + "]; int present[" + points + "]; (void)present;");
  writer->Line("#pragma unroll");
  writer->Line("for (int t = 0; t < " + points + "; ++t) {");
  writer->Line("present[t] = 0;");
  writer->Line("#pragma unroll");
  writer->Line("for (int e = 0; e < " + lanes +
               "; ++e) sums[t][e] = " + (max ? "bits_float(0xff800000u)" : "0.0f") + ";");
  writer->Line("}");
}

// Writes `sums` and `present` of this thread's windows.
void WriteLines(const PartContext& context, const WindowShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const Operand& input = part.operands[part.lhs];
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const Guard& along = input.guards[shape.spatial - 1];
  const std::string width = Counter(first - 1);
  StartSums(context, shape, writer);
  // All lines are the loops before the last kernel axis.
  constexpr int64_t kUnrolled = 1024;
  const bool unroll = context.Points(first, all) * shape.points * shape.lanes <= kUnrolled;
  for (size_t l = first; l + 1 < all; ++l) {
    writer->Line(unroll ? "#pragma unroll" : "#pragma unroll 1");
    writer->Open(l, l + 1);
  }
  WriteAddress(part, shape, writer);
  // If bytes are padded with a value other than 0, lines outside the input count too.
  const int64_t absent = part.rhs.empty() ? 0 : static_cast<int64_t>(input.absent);
  const std::string extent = Text(along.extent);
  std::string types;
  if (!part.rhs.empty() && NaturalType(input.dtype) == TapeType::kI64)
    types = ", " + Text(absent) + ", " + LaneType(part.operands[part.rhs[0]].dtype);
  const std::string line = std::string("WindowLine<") + LaneType(input.dtype) + ", " + KindText(part) + ", " +
                           Aggregate("Window", WindowOf(shape)) + types + ">::add(p" + Text(input.param) +
                           ", a, " + IntText(along.stride) + ", (int)(" + IntText(along.offset) + " + " +
                           IntText(shape.stride) + " * " + width + "), " +
                           (absent == 0 ? extent : "inside ? " + extent + " : 0") + ", ";
  std::string weights = "nullptr, 0, 0, 0";
  if (!part.rhs.empty()) {
    const Operand& weight = part.operands[part.rhs[0]];
    writer->Line("const i64 " + Counter(all - 1) + " = 0;");
    weights = "p" + Text(weight.param) + ", " + AffineText(weight.offset, weight.strides) + ", " +
              IntText(weight.strides[all - 1]) + ", " + IntText(weight.strides[kChannels]);
  }
  writer->Line((absent == 0 ? "if (inside) " : "") + line + weights + ", sums, present);");
  writer->Close(all - 1 - first);
}

// Writes the epilogue of this thread's outputs.
void WritePoints(const PartContext& context, const WindowShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size(), width = first - 1;
  const std::string type = TypeText(part.acc_type), i = Counter(width);
  // Sums of integer products are exact floats that fit 32 bits.
  const bool whole = part.acc_type == TapeType::kI64 && part.combine == Combine::kProduct;
  const std::string acc = "const " + type + " acc0 = (" + type + ")" + (whole ? "(int)" : "");
  writer->scope.small_sums = whole;
  writer->ZeroLoops(first, all);
  const std::string mean = part.combine == Combine::kMean ? " / (float)present[t]" : "";
  // Neighbouring outputs of one channel are vector lanes.
  if (shape.lanes == 1 && shape.points > 1 && part.loops[width] % shape.points == 0) {
    writer->Line("{");
    writer->WriteLanes(part.epilogue, "r", width, static_cast<int>(shape.points),
                       "const int t = e; (void)t; " + acc + "sums[e][0]" + mean + ";");
    writer->Line("}");
    return;
  }
  writer->Line("const i64 start = " + i + ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int t = 0; t < " + Text(shape.points) + "; ++t) {");
  writer->Line("const i64 " + i + " = start + t;");
  writer->Line("if (" + i + " < " + Text(part.loops[width]) + ") {");
  if (shape.lanes == 1) {
    writer->Line(acc + "sums[t][0]" + mean + ";");
    writer->WriteTape(part.epilogue, "r");
  } else {
    writer->WriteLanes(part.epilogue, "r", kChannels, static_cast<int>(shape.lanes),
                       acc + "sums[t][e]" + mean + ";");
  }
  writer->Line("} }");
}

// Writes the counters of this thread's first output; neighbouring threads write neighbouring elements.
void WriteUnits(const PartContext& context, const WindowShape& shape, int64_t units, PartWriter* writer) {
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), width = first - 1;
  const int64_t segments = (part.loops[width] + shape.points - 1) / shape.points;
  const std::vector<size_t> order = ByStrideOfResult(part, first);
  writer->Line(units <= 0x7fffffff ? "u32 rest = (u32)unit;" : "u64 rest = unit;");
  for (size_t n = order.size(); n-- > 0;) {
    const size_t l = order[n];
    const int64_t own = l == width ? segments : l == kChannels ? part.loops[l] / shape.lanes : part.loops[l];
    const int64_t each = l == width ? shape.points : l == kChannels ? shape.lanes : 1;
    writer->Line("const i64 " + Counter(l) + " = (i64)(rest % " + Text(own) + "u) * " + Text(each) +
                 "; rest /= " + Text(own) + "u; (void)" + Counter(l) + ";");
  }
}

KernelConfiguration ConfigurationOf(const WindowShape& shape) {
  KernelConfiguration configuration;
  configuration.variant = VariantId::kWindows;
  configuration.m = shape.lanes;
  configuration.n = shape.points;
  configuration.k = shape.taps;
  return configuration;
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  const GpuTable& gpu = GpuTableOf(context.target);
  std::vector<KernelCandidate> candidates;
  for (const WindowCandidate& one : WindowCandidates(context)) {
    candidates.push_back(
        {ConfigurationOf(one.shape), (gpu.map_start + one.cycles) / gpu.cycles_a_microsecond});
  }
  return candidates;
}

// The candidate with this configuration.
WindowShape ShapeOf(const PartContext& context, const KernelConfiguration& configuration) {
  const std::vector<WindowCandidate> candidates = WindowCandidates(context);
  return std::find_if(candidates.begin(), candidates.end(),
                      [&](const WindowCandidate& one) { return ConfigurationOf(one.shape) == configuration; })
      ->shape;
}

Result<PartLaunch> WriteWindows(const PartContext& context, const KernelConfiguration& configuration,
                                PartWriter* writer) {
  const WindowShape shape = ShapeOf(context, configuration);
  const int64_t units = WindowUnits(context, shape);
  // Few threads use small blocks, so that they spread over many multiprocessors.
  PartLaunch launch;
  while (launch.block > 64 && static_cast<double>(units) < context.Processors() * launch.block)
    launch.block /= 2;
  writer->Line("const u64 unit = (u64)block * " + Text(launch.block) + " + threadIdx.x;");
  writer->Line("if (unit >= " + Text(units) + "ull) return;");
  WriteUnits(context, shape, units, writer);
  writer->Line("wait_for_earlier();");
  WriteLines(context, shape, writer);
  WritePoints(context, shape, writer);
  return WithBlocks(launch, (units + launch.block - 1) / launch.block);
}

}  // namespace

constinit const KernelVariant kWindowConvolution = {VariantId::kWindows, kHeaders, Candidates, WriteWindows};

}  // namespace rondo::cuda
