#include "compiler/ir/view.h"

#include <algorithm>

#include "compiler/ir/walk.h"

namespace rondo::ir {

namespace {

std::vector<int64_t> DenseStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank);
  int64_t run = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    strides[d] = run;
    run *= shape[d];
  }
  return strides;
}

// Rewrites loops with `extents` that move by `strides` through the dense index space of `inner`, from element
// `offset` on, as strides of inner's storage. None if a loop would carry from one dim of `inner` into
// another.
std::optional<AffineMap> Through(const ViewStep& inner, int64_t offset, std::span<const int64_t> extents,
                                 std::span<const int64_t> strides) {
  std::vector<IndexDim> dims = JoinedDims(inner);
  std::vector<int64_t> base;
  std::vector<std::vector<int64_t>> coefficients;
  if (!Decompose(dims, offset, extents, strides, &base, &coefficients)) return std::nullopt;
  AffineMap out{inner.offset, std::vector<int64_t>(extents.size(), 0)};
  for (size_t j = 0; j < dims.size(); ++j) {
    out.offset += base[j] * dims[j].stride;
    for (size_t l = 0; l < extents.size(); ++l) out.strides[l] += coefficients[l][j] * dims[j].stride;
  }
  return out;
}

// A view without elements.
View EmptyView(const Shape& shape) {
  ViewStep step;
  step.shape = shape;
  return View{{step}};
}

// Folds the last step into the one before it while plain strides can express both.
void FoldLast(View* view) {
  while (view->steps.size() > 1) {
    const ViewStep& last = view->steps.back();
    std::optional<AffineMap> map = Through(view->steps[view->steps.size() - 2], last.offset,
                                           std::span<const int64_t>(last.shape.dims, last.shape.rank),
                                           std::span<const int64_t>(last.strides, last.shape.rank));
    if (!map) return;
    ViewStep folded;
    folded.shape = last.shape;
    folded.offset = map->offset;
    std::copy(map->strides.begin(), map->strides.end(), folded.strides);
    view->steps.pop_back();
    view->steps.back() = folded;
  }
}

}  // namespace

std::vector<IndexDim> JoinedDims(const ViewStep& step) {
  std::vector<IndexDim> dims;
  for (int d = 0; d < step.shape.rank; ++d) {
    if (step.shape[d] == 1) continue;
    IndexDim dim{step.shape[d], step.strides[d]};
    if (!dims.empty() && dims.back().stride == dim.stride * dim.extent) {
      dims.back() = {dims.back().extent * dim.extent, dim.stride};
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

bool Decompose(std::span<const IndexDim> dims, int64_t offset, std::span<const int64_t> extents,
               std::span<const int64_t> strides, std::vector<int64_t>* base,
               std::vector<std::vector<int64_t>>* coefficients) {
  std::vector<int64_t> dense(dims.size());
  int64_t run = 1;
  for (size_t j = dims.size(); j-- > 0;) {
    dense[j] = run;
    run *= dims[j].extent;
  }
  base->assign(dims.size(), 0);
  coefficients->assign(extents.size(), std::vector<int64_t>(dims.size(), 0));
  int64_t rest = offset;
  for (size_t j = 0; j < dims.size(); ++j) {
    (*base)[j] = rest / dense[j];
    rest -= (*base)[j] * dense[j];
  }
  if (rest != 0) return false;
  std::vector<int64_t> low = *base, high = *base;
  for (size_t l = 0; l < extents.size(); ++l) {
    int64_t left = strides[l];
    if (extents[l] == 1) continue;
    for (size_t j = 0; j < dims.size() && left != 0; ++j) {
      int64_t c = left / dense[j];
      left -= c * dense[j];
      (*coefficients)[l][j] = c;
      (c > 0 ? high[j] : low[j]) += c * (extents[l] - 1);
    }
    if (left != 0) return false;
  }
  for (size_t j = 0; j < dims.size(); ++j) {
    if (low[j] < 0 || high[j] >= dims[j].extent) return false;
  }
  return true;
}

int64_t SplitOf(std::span<const IndexDim> dims, int64_t extent, int64_t stride) {
  int64_t run = 1;
  int64_t size = stride < 0 ? -stride : stride;
  if (size == 0 || extent == 1) return 0;
  for (size_t j = dims.size(); j-- > 0;) {
    int64_t next = run * dims[j].extent;  // dense stride of the dim outside j
    if (size < next) {
      if (size * extent <= next || next % size != 0) return 0;
      int64_t inner_factor = next / size;
      return extent % inner_factor == 0 ? inner_factor : 0;
    }
    run = next;
  }
  return 0;
}

bool operator==(const ViewStep& a, const ViewStep& b) {
  if (!(a.shape == b.shape) || a.offset != b.offset) return false;
  for (int d = 0; d < a.shape.rank; ++d) {
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;  // a dim of 1 never moves
  }
  return true;
}

View DenseView(const Shape& shape) {
  ViewStep step;
  step.shape = shape;
  std::vector<int64_t> dense = DenseStrides(shape);
  std::copy(dense.begin(), dense.end(), step.strides);
  return View{{step}};
}

bool IsDense(const View& view, int64_t storage_elements) {
  if (view.shape().elements() == 0) return storage_elements == 0;
  if (!view.affine() || view.steps[0].offset != 0) return false;
  std::vector<IndexDim> dims = JoinedDims(view.steps[0]);
  if (dims.empty()) return storage_elements == 1;
  return dims.size() == 1 && dims[0].stride == 1 && dims[0].extent == storage_elements;
}

View Compose(const View& inner, const View& outer) {
  if (outer.shape().elements() == 0) return EmptyView(outer.shape());
  View out = inner;
  for (const ViewStep& step : outer.steps) {
    out.steps.push_back(step);
    FoldLast(&out);
  }
  return out;
}

View Reshape(const View& view, const Shape& shape) { return Compose(view, DenseView(shape)); }

View Transpose(const View& view, std::span<const int> perm) {
  View out = view;
  const ViewStep& from = view.steps.back();
  ViewStep& to = out.steps.back();
  for (int d = 0; d < from.shape.rank; ++d) {
    to.shape[d] = from.shape[perm[d]];
    to.strides[d] = from.strides[perm[d]];
  }
  FoldLast(&out);
  return out;
}

View Slice(const View& view, int axis, int64_t start, int64_t step, int64_t count) {
  View out = view;
  ViewStep& last = out.steps.back();
  last.shape[axis] = count;
  if (last.shape.elements() == 0) return EmptyView(last.shape);
  last.offset += start * last.strides[axis];
  last.strides[axis] *= step;
  FoldLast(&out);
  return out;
}

View Expand(const View& view, const Shape& shape) {
  if (shape.elements() == 0) return EmptyView(shape);
  View out = view;
  const ViewStep& from = view.steps.back();
  ViewStep& to = out.steps.back();
  int shift = shape.rank - from.shape.rank;
  to.shape = shape;
  for (int d = 0; d < shape.rank; ++d) {
    bool real = d >= shift && from.shape[d - shift] == shape[d];
    to.strides[d] = real ? from.strides[d - shift] : 0;
  }
  FoldLast(&out);
  return out;
}

std::optional<View> PlaceBehind(const View& view, const Shape& base, const View& place) {
  LoopNest nest(view.shape());
  if (!RefineLoops(view, &nest)) return std::nullopt;
  std::optional<AffineMap> map = MapOver(view, nest);
  std::vector<int64_t> extents = nest.extents();
  if (!map || map->offset != 0) return std::nullopt;
  Shape split;  // the view's dims as loops, without those of one element
  std::vector<int64_t> strides;
  for (size_t l = 0; l < extents.size(); ++l) {
    if (extents[l] == 1) continue;
    if (split.rank == kMaxRank) return std::nullopt;
    split.dims[split.rank++] = extents[l];
    strides.push_back(map->strides[l]);
  }
  std::vector<int> order(strides.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)]; });
  int64_t run = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (strides[static_cast<size_t>(order[i])] != run) return std::nullopt;
    run *= split[order[i]];
  }
  if (run != base.elements()) return std::nullopt;
  return Reshape(Transpose(Reshape(place, split), order), base);
}

int64_t Resolve(const View& view, std::span<const int64_t> index) {
  int64_t at[kMaxRank] = {};
  std::copy_n(index.begin(), view.shape().rank, at);
  for (size_t s = view.steps.size(); s-- > 0;) {
    const ViewStep& step = view.steps[s];
    int64_t element = step.offset;
    for (int d = 0; d < step.shape.rank; ++d) element += step.strides[d] * at[d];
    if (s == 0) return element;
    const Shape& below = view.steps[s - 1].shape;
    for (int d = below.rank - 1; d >= 0; --d) {
      at[d] = element % below[d];
      element /= below[d];
    }
  }
  return 0;
}

LoopNest::LoopNest(const Shape& shape) {
  for (int d = 0; d < shape.rank; ++d) factors.push_back({shape[d]});
}

int LoopNest::loops() const {
  size_t n = 0;
  for (const auto& f : factors) n += f.size();
  return static_cast<int>(n);
}

std::vector<int64_t> LoopNest::extents() const {
  std::vector<int64_t> out;
  for (const auto& f : factors) out.insert(out.end(), f.begin(), f.end());
  return out;
}

namespace {

// Distributes the strides of the last step's dims over the factors of the nest.
AffineMap LastStepOver(const ViewStep& step, const LoopNest& nest) {
  AffineMap map{step.offset, {}};
  for (int d = 0; d < step.shape.rank; ++d) {
    const std::vector<int64_t>& factors = nest.factors[d];
    int64_t run = step.strides[d];
    std::vector<int64_t> strides(factors.size());
    for (size_t f = factors.size(); f-- > 0;) {
      strides[f] = run;
      run *= factors[f];
    }
    map.strides.insert(map.strides.end(), strides.begin(), strides.end());
  }
  return map;
}

}  // namespace

bool RefineLoops(const View& view, LoopNest* nest) {
  constexpr int kMaxRounds = 64;
  for (int round = 0; round < kMaxRounds; ++round) {
    AffineMap map = LastStepOver(view.steps.back(), *nest);
    std::vector<int64_t> extents = nest->extents();
    size_t step = view.steps.size() - 1;
    bool folded = true;
    while (step > 0 && folded) {
      std::optional<AffineMap> next = Through(view.steps[step - 1], map.offset, extents, map.strides);
      folded = next.has_value();
      if (folded) {
        map = *next;
        --step;
      }
    }
    if (folded) return true;
    bool split = false;
    int loop = 0;
    for (auto& factors : nest->factors) {
      for (size_t f = 0; f < factors.size(); ++f, ++loop) {
        int64_t inner = split ? 0 : SplitOf(JoinedDims(view.steps[step - 1]), factors[f], map.strides[loop]);
        if (inner <= 1) continue;
        int64_t outer = factors[f] / inner;
        factors[f] = inner;
        factors.insert(factors.begin() + static_cast<int64_t>(f), outer);
        split = true;
        break;
      }
      if (split) break;
    }
    if (!split) return false;
  }
  return false;
}

std::vector<int64_t> ResolveAll(const View& view) {
  std::vector<int64_t> elements, index(view.shape().rank, 0);
  elements.reserve(static_cast<size_t>(view.shape().elements()));
  for (int64_t i = view.shape().elements(); i > 0; --i) {
    elements.push_back(Resolve(view, index));
    for (int d = view.shape().rank - 1; d >= 0; --d) {
      if (++index[d] < view.shape()[d]) break;
      index[d] = 0;
    }
  }
  return elements;
}

std::optional<AffineMap> MapOver(const View& view, const LoopNest& nest) {
  AffineMap map = LastStepOver(view.steps.back(), nest);
  std::vector<int64_t> extents = nest.extents();
  for (size_t step = view.steps.size() - 1; step > 0; --step) {
    std::optional<AffineMap> next = Through(view.steps[step - 1], map.offset, extents, map.strides);
    if (!next) return std::nullopt;
    map = *next;
  }
  return map;
}

std::string ToString(const View& view) {
  std::string out;
  for (const ViewStep& step : view.steps) {
    if (!out.empty()) out += " | ";
    char text[160];
    out += std::string("shape ") + Format(step.shape, text, sizeof(text));
    if (step.offset != 0) out += " offset " + std::to_string(step.offset);
    Shape strides;
    strides.rank = step.shape.rank;
    std::copy(step.strides, step.strides + step.shape.rank, strides.dims);
    out += std::string(" strides ") + Format(strides, text, sizeof(text));
  }
  return out;
}

}  // namespace rondo::ir
