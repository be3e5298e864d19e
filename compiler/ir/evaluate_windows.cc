// The reference evaluation of convolutions and pools.
#include <algorithm>

#include "compiler/ir/evaluate_nodes.h"

namespace rondo::ir {

namespace {

// Visits the window points of a convolution or pool: f(output element, input spatial offset or -1, tap).
struct Window {
  std::vector<int64_t> in, out, kernel, strides, dilations, pads;

  template <typename F>
  void Visit(F f) const {
    size_t rank = in.size();
    std::vector<int64_t> o(rank, 0), t(rank, 0);
    int64_t element = 0;
    do {
      int64_t tap = 0;
      do {
        int64_t at = 0;
        for (size_t d = 0; d < rank && at >= 0; ++d) {
          int64_t c = o[d] * strides[d] + t[d] * dilations[d] - pads[d];
          at = c < 0 || c >= in[d] ? -1 : at * in[d] + c;
        }
        f(element, at, tap++);
      } while (Advance(kernel, &t));
      ++element;
    } while (Advance(out, &o));
  }

  static bool Advance(const std::vector<int64_t>& extents, std::vector<int64_t>* index) {
    for (size_t d = extents.size(); d-- > 0;) {
      if (++(*index)[d] < extents[d]) return true;
      (*index)[d] = 0;
    }
    return false;
  }
  int64_t InSize() const { return Product(in); }
  int64_t OutSize() const { return Product(out); }
  int64_t Taps() const { return Product(kernel); }
  static int64_t Product(const std::vector<int64_t>& v) {
    int64_t n = 1;
    for (int64_t x : v) n *= x;
    return n;
  }
};

std::vector<int64_t> Spatial(const Shape& shape) {
  return std::vector<int64_t>(shape.begin() + 2, shape.end());
}

template <typename T>
Data EvalConvAs(const Node& node, const Values& in) {
  const ConvAttrs& attrs = node.As<ConvAttrs>();
  std::vector<T> x = Widen<T>(*in[0]), w = Widen<T>(*in[1]), out(static_cast<size_t>(node.shape.elements()));
  Window window{Spatial(in[0]->shape), Spatial(node.shape), Spatial(in[1]->shape),
                attrs.strides,         attrs.dilations,     attrs.pads_begin};
  int64_t channels = in[1]->shape[1], o_per_group = node.shape[1] / attrs.groups;
  int64_t taps = window.Taps(), in_size = window.InSize(), out_size = window.OutSize();
  if (out.empty()) return Narrow(node.dtype, node.shape, out);
  std::vector<double> acc(static_cast<size_t>(out_size));
  for (int64_t n = 0; n < node.shape[0]; ++n) {
    for (int64_t o = 0; o < node.shape[1]; ++o) {
      std::fill(acc.begin(), acc.end(), 0.0);
      for (int64_t c = 0; c < channels; ++c) {
        const T* plane =
            &x[static_cast<size_t>((n * in[0]->shape[1] + o / o_per_group * channels + c) * in_size)];
        const T* weight = &w[static_cast<size_t>((o * channels + c) * taps)];
        window.Visit([&](int64_t e, int64_t at, int64_t tap) {
          const double value = at < 0 ? static_cast<double>(attrs.absent) : static_cast<double>(plane[at]);
          if (at >= 0 || attrs.absent != 0)
            acc[static_cast<size_t>(e)] += value * static_cast<double>(weight[tap]);
        });
      }
      for (int64_t e = 0; e < out_size; ++e) {
        out[static_cast<size_t>((n * node.shape[1] + o) * out_size + e)] =
            static_cast<T>(acc[static_cast<size_t>(e)]);
      }
    }
  }
  return Narrow(node.dtype, node.shape, out);
}

template <typename T>
Data EvalPoolAs(const Node& node, const Values& in) {
  const PoolAttrs& attrs = node.As<PoolAttrs>();
  std::vector<T> x = Widen<T>(*in[0]), out(static_cast<size_t>(node.shape.elements()));
  Window window{Spatial(in[0]->shape), Spatial(node.shape), attrs.kernel,
                attrs.strides,         attrs.dilations,     attrs.pads_begin};
  int64_t in_size = window.InSize(), out_size = window.OutSize();
  if (out.empty()) return Narrow(node.dtype, node.shape, out);
  T start = attrs.kind == Combine::kMax ? scalar::ReduceStart<T>(TapeOp::kReduceMax) : T(0);
  for (int64_t p = 0; p < node.shape[0] * node.shape[1]; ++p) {
    std::vector<T> acc(static_cast<size_t>(out_size), start);
    std::vector<int64_t> present(static_cast<size_t>(out_size), 0);
    window.Visit([&](int64_t e, int64_t at, int64_t) {
      if (at < 0) return;
      T v = x[static_cast<size_t>(p * in_size + at)];
      T& a = acc[static_cast<size_t>(e)];
      a = attrs.kind == Combine::kMax ? scalar::Binary(TapeOp::kMax, a, v)
                                      : scalar::Binary(TapeOp::kAdd, a, v);
      ++present[static_cast<size_t>(e)];
    });
    for (int64_t e = 0; e < out_size; ++e) {
      T v = acc[static_cast<size_t>(e)];
      if (attrs.kind == Combine::kMean)
        v = v / static_cast<T>(std::max<int64_t>(1, present[static_cast<size_t>(e)]));
      out[static_cast<size_t>(p * out_size + e)] = v;
    }
  }
  return Narrow(node.dtype, node.shape, out);
}

}  // namespace

Data EvalConv(const Node& node, const Values& in) {
  return WithType(node.dtype, [&](auto t) { return EvalConvAs<decltype(t)>(node, in); });
}

Data EvalPool(const Node& node, const Values& in) {
  return WithType(node.dtype, [&](auto t) { return EvalPoolAs<decltype(t)>(node, in); });
}

}  // namespace rondo::ir
