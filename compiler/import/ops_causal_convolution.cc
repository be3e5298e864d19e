// Causal convolutions along a text that keep their last positions as a state (state-space decoders).
#include <algorithm>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/linear_recurrence.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// x [b, channels, l] follows `past` [b, channels, (k - 1) * dilation] (zeros if absent); each channel has its
// own kernel. Output 1 is the next run's past. With channels_last x is [b, l, d1, ...], and the channels are
// the places in d1 * d2 * ...
Status CausalConvWithState(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  const int64_t dilation = c.Int("dilation", 1);
  const bool last = c.Int("channels_last", 0) != 0;
  const std::string activation = c.String("activation", "none");
  RONDO_ASSIGN_OR_RETURN(const int64_t window, ReadStateWindow(c));
  if (c.Int("ndim", 1) != 1 || c.Int("state_length", 0) != 0 || c.Wants(2) ||
      c.Int("input_channels", 0) != 0 || c.Int("input_channel_offset", 0) != 0 ||
      c.Int("state_channels_last", -1) != -1 || c.rank(0) < 3 || c.rank(0) > (last ? kMaxRank - 1 : 3) ||
      c.rank(1) != 3 || dilation < 1 || dilation > (1 << 20)) {
    return Status::Error(Code::kUnsupported,
                         "rondo knows one spatial dimension (with channels_last, channels along several), "
                         "without the attributes that are for CUDA only (state_length, state_channels_last, "
                         "state_update_capacity, input_channels): export the model without them");
  }
  if (activation != "none" && activation != "silu" && activation != "swish")
    return Status::Error(Code::kUnsupported,
                         "the activation \"%.40s\": rondo knows silu, swish and none here",
                         activation.c_str());
  const Shape given = c.shape(0);
  const auto turned = [&](NodeId x) {
    if (!last) return x;
    const Shape from = b.shape(x);
    const int64_t channels = given.elements() / std::max<int64_t>(given[0] * given[1], 1);
    return b.Transpose(b.Reshape(x, {from[0], from[1], channels}), {0, 2, 1});
  };
  // [b, channels, l] in the layout of x, with `positions` positions.
  const auto turned_back = [&](NodeId x, int64_t positions) {
    return last ? b.Reshape(b.Transpose(x, {0, 2, 1}), WithDim(given, 1, positions)) : x;
  };
  if (given.elements() == 0)
    return Status::Error(Code::kCorrupt, "an input of shape %s", Text(given).c_str());
  NodeId x = turned(c.In(0));
  const Shape s = b.shape(x), w = c.shape(1);
  const int64_t before = (w[2] - 1) * dilation;
  if (w[0] != s[1] || w[1] != 1 || w[2] < 1 || before > (1 << 28))
    return Status::Error(Code::kCorrupt, "a kernel of shape %s for %s", Text(w).c_str(), Text(s).c_str());
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  if (c.Has(3)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 3));
    const Shape held = last ? WithDim(given, 1, before) : WithDim(given, 2, before);
    RONDO_ASSIGN_OR_RETURN(const NodeId past, PastOfWindow(c, 3, window, held));
    if (before > 0) x = b.Concat({turned(past), x}, 2);
  } else {
    x = b.PadConstant(x, b.Scalar(c.dtype(0), 0), {0, 0, before}, {0, 0, 0});
  }
  NodeId y = b.Conv(x, c.In(1), ir::ConvAttrs{{1}, {dilation}, {0}, {0}, s[1]});
  if (c.Has(2)) {
    if (!(c.shape(2) == Shape({s[1]})))
      return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(2)).c_str());
    y = b.Add(y, b.Reshape(c.In(2), {1, s[1], 1}));
  }
  if (activation != "none") y = Silu(b, y);
  c.Set(0, turned_back(y, s[2]));
  std::vector<NodeId> states;
  for (int64_t at = std::max<int64_t>(s[2] - std::max<int64_t>(window, 1), 0); at < s[2]; ++at)
    states.push_back(turned_back(b.Slice(x, 2, at + 1, 1, before), before));
  c.Set(1, StatesOfWindow(b, states, window));
  return Status::Ok();
}

// Rows of several texts one after another, [rows, channels]; text i has rows ends[i] to ends[i + 1]. `past`
// [texts, channels, before] precedes each text's first row. Taps are `dilation` rows apart.
Status VarlenCausalConvWithState(OpContext& c) {
  Builder& b = c.b;
  enum Inputs { kX, kKernel, kEnds, kBias, kPast, kCaptured };
  if (!c.Has(kPast)) return Status::Error(Code::kCorrupt, "input %d is missing", kPast);
  for (const int i : {kX, kKernel, kPast}) RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(kEnds));
  const Shape x = c.shape(kX), w = c.shape(kKernel), p = c.shape(kPast);
  const int64_t dilation = c.Int("dilation", 1), slots = c.Int("state_update_capacity", 0);
  const std::string activation = c.String("activation", "none");
  if (c.Has(6) || c.Has(7) || (activation != "none" && activation != "silu" && activation != "swish"))
    return Status::Error(
        Code::kUnsupported,
        "kernel_delta, previous_mask or the activation \"%.40s\": rondo knows a kernel that stays, and "
        "silu, swish and none; export the model with these",
        activation.c_str());
  if (x.rank != 2 || w.rank != 3 || p.rank != 3 || x.elements() == 0 || w[0] != x[1] || w[1] != 1 ||
      w[2] < 1 || w[2] > 64 || dilation < 1 || dilation > (1 << 20) || p[1] != x[1] ||
      p[2] != (w[2] - 1) * dilation || p[0] < 1 || !(c.shape(kEnds) == Shape({p[0] + 1})) || slots < 0 ||
      slots > 8 || (slots > 0) != c.Has(kCaptured) || c.dtype(kPast) != c.dtype(kX) ||
      c.dtype(kKernel) != c.dtype(kX)) {
    return Status::Error(Code::kCorrupt,
                         "rows %s, a kernel %s, ends %s and a past %s with %lld slots do not fit",
                         Text(x).c_str(), Text(w).c_str(), Text(c.shape(kEnds)).c_str(), Text(p).c_str(),
                         static_cast<long long>(slots));
  }
  const int64_t rows = x[0], texts = p[0], before = p[2];
  const NodeId ends = b.Cast(c.In(kEnds), DType::kI64);
  // Row `at` of each text; before the first row, a row of its past: [n, channels].
  const NodeId past = b.Reshape(b.Transpose(c.In(kPast), {0, 2, 1}), {texts * before, x[1]});
  const auto read = [&](NodeId text, NodeId start, NodeId at) {
    const NodeId row = Clamp(b, b.Add(start, at), 0, static_cast<double>(rows - 1));
    const NodeId now = b.Gather(c.In(kX), row, 0, false);
    if (before == 0) return now;
    NodeId earlier = b.BinaryScalar(TapeOp::kAdd, at, static_cast<double>(before));
    earlier = Clamp(b, earlier, 0, static_cast<double>(before - 1));
    earlier = b.Add(b.BinaryScalar(TapeOp::kMul, text, static_cast<double>(before)), earlier);
    const NodeId was = b.Gather(past, earlier, 0, false);
    const NodeId begun = b.BinaryScalar(TapeOp::kLess, at, 0);
    return b.Select(b.Expand(b.Unsqueeze(begun, 1), b.shape(now)), was, now);
  };
  const NodeId row = b.Iota({rows}, 0);
  const NodeId later = b.Expand(b.Unsqueeze(row, 1), {rows, texts});
  NodeId ended = b.Expand(b.Reshape(b.Slice(ends, 0, 1, 1, texts), {1, texts}), {rows, texts});
  ended = b.Cast(b.Unary(TapeOp::kNot, b.Binary(TapeOp::kLess, later, ended)), DType::kI64);
  const NodeId text =
      Clamp(b, b.Reduce(ir::ReduceKind::kSum, ended, {1}, false), 0, static_cast<double>(texts - 1));
  const NodeId start = b.Gather(ends, text, 0, false);
  const NodeId place = b.Sub(row, start);
  NodeId y = kNoNode;
  for (int64_t tap = 0; tap < w[2]; ++tap) {
    const NodeId at = b.BinaryScalar(TapeOp::kSub, place, static_cast<double>((w[2] - 1 - tap) * dilation));
    const NodeId kernel = b.Reshape(Widen(b, b.Slice(c.In(kKernel), 2, tap, 1, 1)), {1, x[1]});
    const NodeId part = b.Mul(Widen(b, read(text, start, at)), kernel);
    y = y == kNoNode ? part : b.Add(y, part);
  }
  if (c.Has(kBias)) {
    RONDO_ASSIGN_OR_RETURN(const NodeId bias, VectorInput(c, kBias, x[1]));
    y = b.Add(y, bias);
  }
  if (activation != "none") y = Silu(b, y);
  c.Set(0, b.Cast(y, c.dtype(kX)));
  const NodeId first = b.Slice(ends, 0, 0, 1, texts), count = b.Sub(b.Slice(ends, 0, 1, 1, texts), first);
  // Repeats a value per text for n places, flattened to [texts * n].
  const auto each = [&](NodeId of, int64_t n) {
    return b.Reshape(b.Expand(b.Unsqueeze(of, 1), {texts, n}), {texts * n});
  };
  const auto line = [&](int64_t n) { return b.Reshape(b.Iota({texts, n}, 1), {texts * n}); };
  if (c.Wants(1)) {
    NodeId kept = c.In(kPast);
    if (before > 0) {
      const NodeId at =
          b.BinaryScalar(TapeOp::kSub, b.Add(each(count, before), line(before)), static_cast<double>(before));
      kept = read(each(b.Iota({texts}, 0), before), each(first, before), at);
      kept = b.Transpose(b.Reshape(kept, {texts, before, x[1]}), {0, 2, 1});
    }
    c.Set(1, kept);
  }
  if (c.Wants(2)) {
    if (slots == 0)
      return Status::Error(Code::kCorrupt, "state_update is wanted, and state_update_capacity is 0");
    RONDO_RETURN_IF_ERROR(c.RequireInteger(kCaptured));
    if (!(c.shape(kCaptured) == Shape({texts}))) return DoesNotFit(c, kCaptured, Shape({texts}));
    const NodeId most = b.Binary(TapeOp::kMin, b.Cast(c.In(kCaptured), DType::kI64), count);
    const NodeId taken = b.Binary(TapeOp::kLess, line(slots), each(most, slots));
    const NodeId now = read(each(b.Iota({texts}, 0), slots), each(first, slots), line(slots));
    const NodeId none = b.Expand(b.Scalar(c.dtype(kX), 0), b.shape(now));
    c.Set(2, b.Reshape(b.Select(b.Expand(b.Unsqueeze(taken, 1), b.shape(now)), now, none),
                       {texts, slots, x[1]}));
  }
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"CausalConvWithState", 2, CausalConvWithState, 27},
    {"CausalConvWithState", 2, CausalConvWithState, 1, kLatest, kDomain},
    {"VarlenCausalConvWithState", 3, VarlenCausalConvWithState, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> CausalConvolutionOps() { return kOps; }

}  // namespace rondo::importer
