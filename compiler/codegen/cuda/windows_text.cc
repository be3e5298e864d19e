// Convolutions of few channels a group, and pools: a thread slides along the last spatial axis (WindowLine of
// device/windows.cuh).
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

std::string Text(int64_t n) { return std::to_string(n); }

const char* LaneType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "LaneF32";
    case DType::kF16: return "LaneF16";
    case DType::kBF16: return "LaneBF16";
    default: return nullptr;
  }
}

const char* KindText(const Part& part) {
  switch (part.combine) {
    case Combine::kProduct: return "WINDOW_PRODUCT";
    case Combine::kMax: return "WINDOW_MAX";
    case Combine::kSum: return "WINDOW_SUM";
    case Combine::kMean: return "WINDOW_MEAN";
  }
  return "";
}

constexpr size_t kChannels = 1;  // the loop of groups

// Whether guard `axis` moves with its own two loops alone, by positive strides.
bool IsWindowGuard(const Part& part, const Guard& guard, size_t out, size_t tap) {
  for (size_t l = 0; l < part.loops.size(); ++l) {
    if ((l != out && l != tap) && guard.strides[l] != 0) return false;
  }
  return guard.strides[out] > 0 && guard.strides[tap] > 0;
}

}  // namespace

// Instructions of a warp and what its multiprocessor's load units do, with as many warps as there are.
double PartText::WindowCycles(const WindowShape& shape) const {
  const double lanes = static_cast<double>(shape.lanes), points = static_cast<double>(shape.points),
               kernel = static_cast<double>(shape.kernel);
  const size_t first = static_cast<size_t>(EpilogueLoops(part_));
  const double lines = static_cast<double>(Points(first, part_.loops.size())) / kernel;
  const bool product = !part_.rhs.empty();
  const int64_t span = (shape.points - 1) * shape.stride + (shape.taps - 1) * shape.dilation + 1;
  const double read = kernel / static_cast<double>(shape.taps) *
                      static_cast<double>(std::min(span, shape.points * shape.taps));
  const double factors = product ? kernel * (shape.weight_vector ? 1 : lanes) : 0;
  const double loads = lines * (read + factors);
  const double work =
      lines * (read * (6 + lanes) + factors + (product ? kernel * lanes : 0) + kernel * points * lanes) +
      points * (lanes * FinishCost() + 12) + 60;
  const double warps = static_cast<double>(WindowUnits(shape)) / 32 / Processors();
  const double bytes = lanes * static_cast<double>(ByteSize(part_.operands[part_.lhs].dtype));
  return std::max(
      {work * std::max(1.0, warps / 4), loads * warps * std::max(1.0, bytes / 4), work + 40 * lines});
}

int64_t PartText::WindowUnits(const WindowShape& shape) const {
  const size_t first = static_cast<size_t>(EpilogueLoops(part_));
  const int64_t width = part_.loops[first - 1];
  return Points(0, first) / width * ((width + shape.points - 1) / shape.points) / shape.lanes;
}

std::optional<PartText::WindowShape> PartText::ShapeOfWindows() const {
  const Operand& input = part_.operands[part_.lhs];
  const size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
  WindowShape shape;
  shape.spatial = part_.reduced - 1u;
  if (part_.acc_type != TapeType::kF32 || LaneType(input.dtype) == nullptr || !input.indirects.empty() ||
      shape.spatial < 1 || input.guards.size() != shape.spatial ||
      (part_.combine == Combine::kProduct) == part_.rhs.empty())
    return std::nullopt;
  for (size_t a = 0; a < shape.spatial; ++a) {
    if (!IsWindowGuard(part_, input.guards[a], first - shape.spatial + a, all - shape.spatial + a))
      return std::nullopt;
  }
  const Guard& along = input.guards[shape.spatial - 1];
  // What the last axis adds to the address besides the guard's coordinate.
  if (input.strides[first - 1] != 0 || input.strides[all - 1] != 0) return std::nullopt;
  shape.kernel = part_.loops[all - 1];
  shape.stride = along.strides[first - 1];
  shape.dilation = along.strides[all - 1];
  int64_t most_lanes = VectorAlong(part_, input, kChannels, params_[input.param]), weight_lanes = most_lanes;
  if (!part_.rhs.empty()) {
    const Operand& weight = part_.operands[part_.rhs[0]];
    if (weight.dtype != input.dtype || !IsPlain(weight)) return std::nullopt;
    weight_lanes = VectorAlong(part_, weight, kChannels, params_[weight.param]);
  }
  const int64_t least = 4 / std::min<int64_t>(4, ByteSize(input.dtype));
  const int64_t width = part_.loops[first - 1];
  constexpr int64_t kMostSpan = 40, kMostFloats = 112;
  std::optional<WindowShape> best;
  double best_cycles = 0;
  for (int64_t lanes = most_lanes; lanes >= 1; lanes = lanes / 2 < least && lanes > 1 ? 1 : lanes / 2) {
    for (int64_t points : {8, 4, 2, 1}) {
      for (int64_t taps : {8, 7, 5, 4, 3, 2, 1}) {
        const int64_t span = (points - 1) * shape.stride + (taps - 1) * shape.dilation + 1;
        if (points > width || taps > shape.kernel || span > kMostSpan) continue;
        if ((std::min(span, points * taps) + points + 1) * lanes > kMostFloats && points * taps * lanes > 8)
          continue;
        WindowShape candidate = shape;
        candidate.lanes = lanes;
        candidate.points = points;
        candidate.taps = taps;
        candidate.weight_vector = lanes > 1 && weight_lanes >= lanes;
        const double cycles = WindowCycles(candidate);
        if (best && cycles >= best_cycles) continue;
        best = candidate;
        best_cycles = cycles;
      }
    }
  }
  return best;
}

// sums, present: what this thread's windows add up to.
void PartText::WriteWindowLines(const WindowShape& shape) {
  const Operand& input = part_.operands[part_.lhs];
  const size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
  const Guard& along = input.guards[shape.spatial - 1];
  const std::string points = Text(shape.points), lanes = Text(shape.lanes),
                    width = "i" + Text(static_cast<int64_t>(first) - 1);
  const bool max = part_.combine == Combine::kMax;
  Line("float sums[" + points + "][" + lanes + "]; int present[" + points + "]; (void)present;");
  Line("#pragma unroll");
  Line("for (int t = 0; t < " + points + "; ++t) {");
  Line("present[t] = 0;");
  Line("#pragma unroll");
  Line("for (int e = 0; e < " + lanes + "; ++e) sums[t][e] = " + (max ? "bits_float(0xff800000u)" : "0.0f") +
       ";");
  Line("}");
  // All lines: the loops before the last kernel axis.
  constexpr int64_t kUnrolled = 1024;
  const bool unroll = Points(first, all) * shape.points * shape.lanes <= kUnrolled;
  for (size_t l = first; l + 1 < all; ++l) {
    Line(unroll ? "#pragma unroll" : "#pragma unroll 1");
    Open(l, l + 1);
  }
  Line("i64 a = " + AffineText(input) + "; bool inside = true;");
  for (size_t g = 0; g + 1 < shape.spatial; ++g) {
    const Guard& guard = input.guards[g];
    const std::string out = Text(static_cast<int64_t>(first - shape.spatial + g)),
                      tap = Text(static_cast<int64_t>(all - shape.spatial + g));
    Line("{ const int c = (int)(" + IntText(guard.offset) + " + " +
         IntText(guard.strides[first - shape.spatial + g]) + " * i" + out + " + " +
         IntText(guard.strides[all - shape.spatial + g]) + " * i" + tap + ");");
    Line("inside = inside && (u32)c < " + Text(guard.extent) + "u; a += " + IntText(guard.stride) +
         " * c; }");
  }
  const std::string line = std::string("WindowLine<") + LaneType(input.dtype) + ", " + KindText(part_) +
                           ", " + lanes + ", " + points + ", " + Text(shape.kernel) + ", " +
                           Text(shape.taps) + ", " + Text(shape.stride) + ", " + Text(shape.dilation) + ", " +
                           (shape.weight_vector ? "true" : "false") + ">::add(p" + Text(input.param) +
                           ", a, " + IntText(along.stride) + ", (int)(" + IntText(along.offset) + " + " +
                           IntText(shape.stride) + " * " + width + "), " + Text(along.extent) + ", ";
  std::string weights = "nullptr, 0, 0, 0";
  if (!part_.rhs.empty()) {
    const Operand& weight = part_.operands[part_.rhs[0]];
    Line("const i64 i" + Text(static_cast<int64_t>(all) - 1) + " = 0;");
    weights = "p" + Text(weight.param) + ", " + AffineText(weight) + ", " + IntText(weight.strides[all - 1]) +
              ", " + IntText(weight.strides[kChannels]);
  }
  Line("if (inside) " + line + weights + ", sums, present);");
  Close(all - 1 - first);
}

// The epilogue of this thread's outputs.
void PartText::WriteWindowPoints(const WindowShape& shape) {
  const size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size(), width = first - 1;
  const std::string type = TypeText(part_.acc_type), i = "i" + Text(static_cast<int64_t>(width));
  for (size_t l = first; l < all; ++l)
    Line("const i64 i" + Text(static_cast<int64_t>(l)) + " = 0; (void)i" + Text(static_cast<int64_t>(l)) +
         ";");
  const std::string mean = part_.combine == Combine::kMean ? " / (float)present[t]" : "";
  // Outputs of one channel, side by side: the lanes of a vector.
  if (shape.lanes == 1 && shape.points > 1 && part_.loops[width] % shape.points == 0) {
    Line("{");
    WriteLanes(part_.epilogue, "r", width, static_cast<int>(shape.points),
               "const int t = e; (void)t; const float acc0 = sums[e][0]" + mean + ";");
    Line("}");
    return;
  }
  Line("const i64 start = " + i + ";");
  Line("#pragma unroll");
  Line("for (int t = 0; t < " + Text(shape.points) + "; ++t) {");
  Line("const i64 " + i + " = start + t;");
  Line("if (" + i + " < " + Text(part_.loops[width]) + ") {");
  if (shape.lanes == 1) {
    Line("const float acc0 = sums[t][0]" + mean + ";");
    WriteTape(part_.epilogue, "r");
  } else {
    WriteLanes(part_.epilogue, "r", kChannels, static_cast<int>(shape.lanes),
               "const float acc0 = sums[t][e]" + mean + ";");
  }
  Line("} }");
}

Result<bool> PartText::Windows() {
  const std::optional<WindowShape> shape = ShapeOfWindows();
  if (!shape) return false;
  headers_.insert("windows");
  const size_t first = static_cast<size_t>(EpilogueLoops(part_)), width = first - 1;
  const int64_t units = WindowUnits(*shape),
                segments = (part_.loops[width] + shape->points - 1) / shape->points;
  // Small blocks where there are few threads, so that they lie on many multiprocessors.
  launch_.block = kCudaBlock;
  while (launch_.block > 64 && static_cast<double>(units) < Processors() * launch_.block) launch_.block /= 2;
  // Neighbouring threads write neighbouring elements.
  std::vector<size_t> order;
  for (size_t l = 0; l < first; ++l) order.push_back(l);
  for (const Operand& operand : part_.operands) {
    if (operand.mode == Mode::kRead) continue;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::abs(operand.strides[a]) > std::abs(operand.strides[b]);
    });
    break;
  }
  Line("const u64 unit = (u64)block * " + Text(launch_.block) + " + threadIdx.x;");
  Line("if (unit >= " + Text(units) + "ull) return;");
  Line(units <= 0x7fffffff ? "u32 rest = (u32)unit;" : "u64 rest = unit;");
  for (size_t n = order.size(); n-- > 0;) {
    const size_t l = order[n];
    const int64_t own = l == width       ? segments
                        : l == kChannels ? part_.loops[l] / shape->lanes
                                         : part_.loops[l];
    const int64_t each = l == width ? shape->points : l == kChannels ? shape->lanes : 1;
    Line("const i64 i" + Text(static_cast<int64_t>(l)) + " = (i64)(rest % " + Text(own) + "u) * " +
         Text(each) + "; rest /= " + Text(own) + "u; (void)i" + Text(static_cast<int64_t>(l)) + ";");
  }
  Line("wait_for_earlier();");
  WriteWindowLines(*shape);
  WriteWindowPoints(*shape);
  RONDO_RETURN_IF_ERROR(SetBlocks((units + launch_.block - 1) / launch_.block));
  return true;
}

}  // namespace rondo::cuda
