// The reference evaluation of attention: all scores of a query, their softmax, and the weighted sum of
// values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/evaluate_nodes.h"

namespace rondo::ir {

namespace {

// Softmax in place of one query's scores against keys [0, keys). `sink` only adds to the sum; null for none.
void Softmax(std::vector<float>* scores, size_t keys, const float* sink, bool nan_to_zero) {
  float top = sink != nullptr ? *sink : -std::numeric_limits<float>::infinity();
  for (size_t j = 0; j < keys; ++j) top = std::max(top, (*scores)[j]);
  double sum = sink != nullptr ? std::exp(*sink - top) : 0;
  for (size_t j = 0; j < keys; ++j) {
    (*scores)[j] = std::exp((*scores)[j] - top);
    sum += (*scores)[j];
  }
  for (size_t j = 0; j < keys; ++j) {
    float& s = (*scores)[j];
    s = static_cast<float>(s / sum);
    if (nan_to_zero && std::isnan(s)) s = 0;
  }
  if (nan_to_zero && keys == 0) std::fill(scores->begin(), scores->end(), 0.0f);
}

}  // namespace

Data EvalAttention(const Node& node, const Values& in) {
  const AttentionAttrs& a = node.As<AttentionAttrs>();
  const Shape &qs = in[0]->shape, &ks = in[1]->shape;
  std::vector<float> q = Widen<float>(*in[0]), k = Widen<float>(*in[1]), v = Widen<float>(*in[2]), mask;
  if (a.has_mask) mask = Widen<float>(*in[3]);
  const bool bool_mask = a.has_mask && in[3]->dtype == DType::kBool;
  std::vector<int64_t> limit;
  std::vector<float> sink;
  if (a.has_limit) limit = Widen<int64_t>(*in[a.has_mask ? 4 : 3]);
  if (a.has_sink) sink = Widen<float>(*in.back());
  size_t heads = static_cast<size_t>(qs[1]), groups = static_cast<size_t>(ks[1]),
         s = static_cast<size_t>(qs[2]);
  size_t t = static_cast<size_t>(ks[2]), d = static_cast<size_t>(qs[3]),
         e = static_cast<size_t>(node.shape[3]);
  std::vector<float> out(static_cast<size_t>(node.shape.elements())), scores(t);
  for (size_t row = 0; row < static_cast<size_t>(qs[0]) * heads * s; ++row) {
    size_t b = row / (heads * s), h = row / s % heads, kv = b * groups + h * groups / heads;
    size_t keys = a.has_limit ? static_cast<size_t>(std::clamp<int64_t>(limit[row], 0, ks[2])) : t;
    for (size_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (size_t l = 0; l < d; ++l) dot += static_cast<double>(q[row * d + l]) * k[(kv * t + j) * d + l];
      float x = static_cast<float>(dot) * a.scale;
      if (a.softcap != 0) x = a.softcap * std::tanh(x / a.softcap);
      if (bool_mask && mask[row * t + j] == 0) x = -std::numeric_limits<float>::infinity();
      if (a.has_mask && !bool_mask) x += mask[row * t + j];
      scores[j] = x;
    }
    Softmax(&scores, keys, a.has_sink ? &sink[row] : nullptr, a.nan_to_zero);
    const bool none = keys == 0 && !a.nan_to_zero && !a.has_sink;  // a softmax of nothing is NaN
    std::vector<double> acc(e, none ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    for (size_t j = 0; j < keys; ++j) {
      for (size_t l = 0; l < e; ++l) acc[l] += static_cast<double>(scores[j]) * v[(kv * t + j) * e + l];
    }
    for (size_t l = 0; l < e; ++l) out[row * e + l] = static_cast<float>(acc[l]);
  }
  return Narrow(node.dtype, node.shape, out);
}

}  // namespace rondo::ir
