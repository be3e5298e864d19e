#include "compiler/codegen/cuda/convolution/window_shape.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

// Whether guard `axis` moves only with its own two loops, by positive strides.
bool IsWindowGuard(const Part& part, const Guard& guard, size_t out, size_t tap) {
  for (size_t l = 0; l < part.loops.size(); ++l) {
    if ((l != out && l != tap) && guard.strides[l] != 0) return false;
  }
  return guard.strides[out] > 0 && guard.strides[tap] > 0;
}

// Cycles of the warps' instructions and of the load units, at the occupancy that the number of warps gives.
double Cycles(const PartContext& context, const WindowShape& shape) {
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  const double lanes = static_cast<double>(shape.lanes), points = static_cast<double>(shape.points),
               kernel = static_cast<double>(shape.kernel);
  const size_t first = static_cast<size_t>(EpilogueLoops(part));
  const double lines = static_cast<double>(context.Points(first, part.loops.size())) / kernel;
  const bool product = !part.rhs.empty();
  const int64_t span = WindowOf(shape).span();
  const double read = kernel / static_cast<double>(shape.taps) *
                      static_cast<double>(std::min(span, shape.points * shape.taps));
  const double factors = product ? kernel * (shape.weight_vector ? 1 : lanes) : 0;
  // Neighbouring threads have neighbouring groups or pixels; where neither lie close together, a warp's load
  // is many.
  constexpr int64_t kClose = 8;  // elements
  const std::vector<int64_t> strides = Flatten(part, part.operands[part.lhs]).strides;
  const bool apart = lanes == 1 && strides[kChannels] > kClose && strides[first - 1] > kClose;
  const double loads = lines * (read * (apart ? gpu.window_apart : 1) + factors);
  const double work = lines * (read * (gpu.window_read + lanes) + factors + (product ? kernel * lanes : 0) +
                               kernel * points * lanes) +
                      points * (lanes * EpilogueInstructions(gpu, part) + gpu.window_output) +
                      gpu.window_start;
  const bool chain = lines >= static_cast<double>(gpu.window_lines);
  const double warps = static_cast<double>(WindowUnits(context, shape)) / 32 / context.Processors();
  const double bytes = lanes * static_cast<double>(ByteSize(part.operands[part.lhs].dtype));
  return std::max({work * std::max(1.0, warps / gpu.window_issue),
                   loads * warps * std::max(1.0, bytes / gpu.window_load_bytes),
                   work + (chain ? gpu.window_chain : gpu.window_line) * lines});
}

// Whether floats hold the sums of products of bytes exactly: true for the window of one channel. Several
// channels are a matmul.
bool HasExactSums(const Part& part) {
  constexpr int64_t kMostTaps = 256;
  const size_t channels = static_cast<size_t>(EpilogueLoops(part));
  int64_t taps = 1;
  for (size_t l = channels + 1; l < part.loops.size(); ++l) taps *= part.loops[l];
  return part.combine == Combine::kProduct && part.loops[channels] == 1 && taps <= kMostTaps;
}

// The window of the part's operands; none if the part is no window. A thread's share of it is left open.
std::optional<WindowShape> ReadWindow(const PartContext& context) {
  const Part& part = context.part;
  const Operand& input = part.operands[part.lhs];
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  WindowShape shape;
  shape.spatial = part.reduced - 1u;
  // A maximum of bytes is computed on floats, and sums of their products are exact in floats.
  const bool floats = part.acc_type == TapeType::kF32 && HasVectors(input.dtype);
  const bool bytes = part.acc_type == TapeType::kI64 && Is8Bit(input.dtype) &&
                     (part.combine == Combine::kMax || HasExactSums(part));
  if ((!floats && !bytes) || !input.indirects.empty() || shape.spatial < 1 ||
      input.guards.size() != shape.spatial || (part.combine == Combine::kProduct) == part.rhs.empty())
    return std::nullopt;
  for (size_t a = 0; a < shape.spatial; ++a) {
    if (!IsWindowGuard(part, input.guards[a], first - shape.spatial + a, all - shape.spatial + a))
      return std::nullopt;
  }
  if (!part.rhs.empty()) {
    const Operand& weight = part.operands[part.rhs[0]];
    const bool whole = Is8Bit(weight.dtype) || weight.dtype == DType::kI16;  // less the zero point
    if ((bytes ? !whole : weight.dtype != input.dtype) || !IsPlain(weight)) return std::nullopt;
  }
  const Guard& along = input.guards[shape.spatial - 1];
  // What the last axis adds to the address besides the guard's coordinate.
  if (input.strides[first - 1] != 0 || input.strides[all - 1] != 0) return std::nullopt;
  shape.kernel = part.loops[all - 1];
  shape.stride = along.strides[first - 1];
  shape.dilation = along.strides[all - 1];
  constexpr int64_t kMost = 1 << 20;  // keeps all int computations in range
  if (shape.kernel > kMost || shape.stride > kMost || shape.dilation > kMost) return std::nullopt;
  return shape;
}

// Neighbouring channels that a thread can read at once; `weights`: from the weights as well.
int64_t ChannelLanes(const PartContext& context, bool weights) {
  const Part& part = context.part;
  const Operand& operand = part.operands[weights && !part.rhs.empty() ? part.rhs[0] : part.lhs];
  return VectorAlong(part, operand, kChannels, context.params[operand.param]);
}

// Whether a thread has registers for the shape.
bool FitsRegisters(const WindowShape& shape) {
  constexpr int64_t kMostSpan = 40, kMostFloats = 112;
  const int64_t span = WindowOf(shape).span();
  return span <= kMostSpan &&
         ((std::min(span, shape.points * shape.taps) + shape.points + 1) * shape.lanes <= kMostFloats ||
          shape.points * shape.taps * shape.lanes <= 8);
}

}  // namespace

int64_t WindowUnits(const PartContext& context, const WindowShape& shape) {
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part));
  const int64_t width = part.loops[first - 1];
  return context.Points(0, first) / width * ((width + shape.points - 1) / shape.points) / shape.lanes;
}

std::vector<WindowCandidate> WindowCandidates(const PartContext& context) {
  const Part& part = context.part;
  const std::optional<WindowShape> window = ReadWindow(context);
  if (!window) return {};
  const int64_t most_lanes = ChannelLanes(context, false), weight_lanes = ChannelLanes(context, true);
  const int64_t least = 4 / std::min<int64_t>(4, ByteSize(part.operands[part.lhs].dtype));
  const int64_t width = part.loops[static_cast<size_t>(EpilogueLoops(part)) - 1];
  std::vector<WindowCandidate> candidates;
  for (int64_t lanes = most_lanes; lanes >= 1; lanes = lanes / 2 < least && lanes > 1 ? 1 : lanes / 2) {
    for (int64_t points : {8, 4, 2, 1}) {
      for (int64_t taps : {8, 7, 5, 4, 3, 2, 1}) {
        WindowShape shape = *window;
        shape.lanes = lanes;
        shape.points = points;
        shape.taps = taps;
        shape.weight_vector = lanes > 1 && weight_lanes >= lanes;
        if (points > width || taps > window->kernel || !FitsRegisters(shape)) continue;
        candidates.push_back({shape, Cycles(context, shape)});
      }
    }
  }
  return candidates;
}

}  // namespace rondo::cuda
