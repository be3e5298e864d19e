// The output at place strides * q + r reads input elements q - u through taps r + strides * u. So the places
// of one r form a convolution of stride 1. All r with the same number of taps form one convolution, with a
// set of output channels for each r; places of an r without taps are zeros. No zero is multiplied.
#include "compiler/import/transposed_convolution.h"

#include <algorithm>

#include "compiler/import/decompose.h"

namespace rondo::importer {
namespace {

// ------------------------------------------------------------------------------------ in phases

// Adjacent r of one axis with the same number of taps.
struct Phases {
  int64_t first = 0, count = 1, taps = 0;
};

std::vector<Phases> PhasesOf(const TransposedWindows& t, size_t axis) {
  const int64_t stride = t.strides[axis], kernel = t.kernel[axis], longer = kernel % stride;
  std::vector<Phases> all;
  if (longer > 0) all.push_back({0, longer, kernel / stride + 1});
  all.push_back({longer, stride - longer, kernel / stride});
  return all;
}

// Whether the taps of every r are evenly spaced, and the intermediate shapes have few enough dims.
bool HasPhases(const TransposedWindows& t) {
  bool all = t.groups == 1 || t.kernel.size() < 3;
  for (size_t i = 0; i < t.kernel.size(); ++i) all = all && (t.strides[i] == 1 || t.dilations[i] == 1);
  return all;
}

class InPhases {
 public:
  InPhases(Builder& b, NodeId x, NodeId w, const TransposedWindows& t)
      : b_(b), x_(x), w_(w), t_(t), in_(b.shape(x)), weight_(b.shape(w)), spatial_(t.kernel.size()) {
    for (size_t i = 0; i < spatial_; ++i) {
      const int64_t stride = t.strides[i], in = in_[static_cast<int>(i) + 2];
      const int64_t out = stride * (in - 1) + t.extra[i] + t.Reach(i) - t.pads_begin[i] - t.pads_end[i];
      const int64_t behind = std::max<int64_t>(PhasesOf(t, i).back().taps - 1, 0) * t.dilations[i];
      out_.push_back(out);
      first_.push_back(std::min(t.pads_begin[i] / stride, behind));
      end_.push_back(std::max(in, (t.pads_begin[i] + out + stride - 1) / stride));
    }
  }

  NodeId Run() {
    std::vector<Phases> chosen;
    NodeId y = WithZeros(Along(&chosen));
    Shape whole{in_[0], t_.groups * weight_[1]};
    for (size_t i = 0; i < spatial_; ++i) whole.dims[whole.rank++] = (end_[i] - first_[i]) * t_.strides[i];
    y = b_.Reshape(y, whole);
    for (size_t i = 0; i < spatial_; ++i)
      y = b_.Slice(y, static_cast<int>(i) + 2, t_.pads_begin[i] - first_[i] * t_.strides[i], 1, out_[i]);
    return y;
  }

 private:
  // [n, o, q0, r0, q1, r1, ...] of all phases; those of the first axes are `chosen`.
  NodeId Along(std::vector<Phases>* chosen) {
    const size_t axis = chosen->size();
    if (axis == spatial_) return Interleaved(*chosen);
    std::vector<NodeId> pieces;
    for (const Phases& phases : PhasesOf(t_, axis)) {
      if (phases.taps == 0) continue;
      chosen->push_back(phases);
      pieces.push_back(Along(chosen));
      chosen->pop_back();
    }
    return pieces.size() == 1 ? pieces[0] : b_.Concat(pieces, static_cast<int>(2 * axis) + 3);
  }

  // The same with the places of each r that has no taps.
  NodeId WithZeros(NodeId y) {
    std::vector<int64_t> before(static_cast<size_t>(b_.shape(y).rank), 0), after = before;
    bool any = false;
    for (size_t i = 0; i < spatial_; ++i) {
      const Phases last = PhasesOf(t_, i).back();
      if (last.taps == 0) after[2 * i + 3] = last.count, any = true;
    }
    return any ? b_.PadConstant(y, b_.Scalar(b_.dtype(y), 0), before, after) : y;
  }

  NodeId Interleaved(const std::vector<Phases>& phases) {
    ir::ConvAttrs attrs;
    attrs.groups = t_.groups;
    for (size_t i = 0; i < spatial_; ++i) {
      attrs.strides.push_back(1);
      attrs.dilations.push_back(t_.dilations[i]);
      attrs.pads_begin.push_back((phases[i].taps - 1) * t_.dilations[i] - first_[i]);
      attrs.pads_end.push_back(end_[i] - in_[static_cast<int>(i) + 2]);
    }
    const NodeId y = b_.Conv(x_, Weight(phases), attrs);
    // From [n, group, r..., o, q...] to [n, group, o, q0, r0, ...].
    const bool grouped = t_.groups > 1;
    Shape split{in_[0]}, out{in_[0], t_.groups * weight_[1]};
    if (grouped) split.dims[split.rank++] = t_.groups;
    const int r = split.rank, o = r + static_cast<int>(spatial_);
    for (const Phases& phase : phases) split.dims[split.rank++] = phase.count;
    split.dims[split.rank++] = weight_[1];
    std::vector<int> order = grouped ? std::vector<int>{0, 1, o} : std::vector<int>{0, o};
    for (size_t i = 0; i < spatial_; ++i) {
      const int axis = static_cast<int>(i);
      split.dims[split.rank++] = out.dims[out.rank++] = end_[i] - first_[i];
      out.dims[out.rank++] = phases[i].count;
      order.insert(order.end(), {o + 1 + axis, r + axis});
    }
    return b_.Reshape(b_.Transpose(b_.Reshape(y, split), order), out);
  }

  // [group * r... * o, c / groups, taps...], with the last tap first.
  NodeId Weight(const std::vector<Phases>& phases) const {
    std::vector<int64_t> strides(spatial_, 1);  // of a tap in w
    for (size_t i = spatial_ - 1; i > 0; --i) strides[i - 1] = strides[i] * t_.kernel[i];
    const int64_t output = strides[0] * t_.kernel[0], channel = output * weight_[1];
    const int64_t channels = weight_[0] / t_.groups;
    ir::ViewStep step;
    Shape shape{t_.groups * weight_[1], channels};
    const auto add = [&](int64_t extent, int64_t stride) {
      step.strides[step.shape.rank] = stride;
      step.shape.dims[step.shape.rank++] = extent;
    };
    if (t_.groups > 1) add(t_.groups, channels * channel);
    for (size_t i = 0; i < spatial_; ++i) {
      add(phases[i].count, strides[i]);
      shape.dims[0] *= phases[i].count;
    }
    add(weight_[1], output);
    add(channels, channel);
    for (size_t i = 0; i < spatial_; ++i) {
      add(phases[i].taps, -t_.strides[i] * strides[i]);
      shape.dims[shape.rank++] = phases[i].taps;
      step.offset += strides[i] * (phases[i].first + t_.strides[i] * (phases[i].taps - 1));
    }
    return b_.Reshape(b_.ViewNode(w_, ir::View{{step}}), shape);
  }

  Builder& b_;
  const NodeId x_, w_;
  const TransposedWindows& t_;
  const Shape in_, weight_;
  const size_t spatial_;
  std::vector<int64_t> out_, first_, end_;  // the result's extents, and the range of computed q
};

// ------------------------------------------------------------------------------ over spread input

// From [c, o / g, k...] to [o, c / g, k...] with the kernel reversed.
NodeId FlippedWeight(Builder& b, NodeId w, int64_t groups) {
  const Shape ws = b.shape(w);
  for (int d = 2; d < ws.rank; ++d) {
    if (ws[d] > 1) w = b.Slice(w, d, ws[d] - 1, -1, ws[d]);
  }
  Shape split{groups, ws[0] / groups, ws[1]};
  Shape out{groups * ws[1], ws[0] / groups};
  std::vector<int> perm = {0, 2, 1};
  for (int d = 2; d < ws.rank; ++d) {
    perm.push_back(split.rank);
    split.dims[split.rank++] = ws[d];
    out.dims[out.rank++] = ws[d];
  }
  return b.Reshape(b.Transpose(b.Reshape(w, split), perm), out);
}

// Inserts stride - 1 zeros after every element of each spatial axis.
NodeId SpreadOut(Builder& b, NodeId x, const std::vector<int64_t>& strides) {
  for (int d = 2; d < b.shape(x).rank; ++d) {
    int64_t stride = strides[static_cast<size_t>(d - 2)];
    if (stride == 1) continue;
    Shape shape = b.shape(x);
    NodeId wide = b.Unsqueeze(x, d + 1);
    std::vector<int64_t> before(static_cast<size_t>(shape.rank) + 1, 0), after = before;
    after[static_cast<size_t>(d) + 1] = stride - 1;
    wide = b.PadConstant(wide, b.Scalar(b.dtype(x), 0), before, after);
    x = b.Reshape(wide, WithDim(shape, d, shape[d] * stride));
  }
  return x;
}

// A convolution of the spread-out input with the reversed kernel, padded to the kernel's full reach.
NodeId GeneralTransposed(Builder& b, NodeId x, NodeId w, const TransposedWindows& t) {
  x = SpreadOut(b, x, t.strides);
  ir::ConvAttrs attrs;
  attrs.dilations = t.dilations;
  attrs.groups = t.groups;
  for (size_t i = 0; i < t.kernel.size(); ++i) {
    int axis = static_cast<int>(i) + 2;
    int64_t begin = t.Reach(i) - 1 - t.pads_begin[i];
    int64_t end = t.Reach(i) - 1 - t.pads_end[i] + t.extra[i] - (t.strides[i] - 1);
    int64_t cut = std::max<int64_t>(-begin, 0), keep = b.shape(x)[axis] - cut - std::max<int64_t>(-end, 0);
    if (keep != b.shape(x)[axis]) x = b.Slice(x, axis, cut, 1, keep);
    attrs.pads_begin.push_back(std::max<int64_t>(begin, 0));
    attrs.pads_end.push_back(std::max<int64_t>(end, 0));
    attrs.strides.push_back(1);
  }
  return b.Conv(x, FlippedWeight(b, w, t.groups), attrs);
}

}  // namespace

NodeId TransposedConvolution(Builder& b, NodeId x, NodeId w, const TransposedWindows& t) {
  ir::Dims dims = b.SizesOf(x);
  const NodeId y = HasPhases(t) ? InPhases(b, x, w, t).Run() : GeneralTransposed(b, x, w, t);
  dims[1] = b.shape(y)[1];
  for (size_t i = 0; i < t.kernel.size(); ++i)
    dims[i + 2] =
        (dims[i + 2] - 1) * t.strides[i] + (t.extra[i] + t.Reach(i) - t.pads_begin[i] - t.pads_end[i]);
  return b.WithSizes(y, dims);
}

}  // namespace rondo::importer
