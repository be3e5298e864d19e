#include "compiler/import/moved_views.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace rondo::importer {

namespace {

using Index = std::vector<int64_t>;

constexpr int64_t kAllBelow = 4096, kSamples = 2048;

// Calls f with indices of `shape` until it returns false: all of them, or both ends of every dim in every
// combination and then samples.
void ForSamples(const Shape& shape, const std::function<bool(const Index&)>& f) {
  Index index(static_cast<size_t>(shape.rank));
  const int64_t all = shape.elements();
  const bool every = all <= kAllBelow;
  const int64_t corners = int64_t{1} << shape.rank;
  uint64_t random = 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < (every ? all : corners + kSamples); ++i) {
    int64_t rest = i;
    for (int d = shape.rank; d-- > 0;) {
      const size_t at = static_cast<size_t>(d);
      if (every) {
        index[at] = rest % shape[d];
        rest /= shape[d];
      } else if (i < corners) {
        index[at] = (i >> d & 1) != 0 ? shape[d] - 1 : 0;
      } else {
        random = random * 6364136223846793005u + 1442695040888963407u;
        index[at] = static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(shape[d]));
      }
    }
    if (!f(index)) return;
  }
}

Index Coordinates(int64_t element, const Shape& base) {
  Index at(static_cast<size_t>(base.rank));
  for (int d = base.rank; d-- > 0;) {
    at[static_cast<size_t>(d)] = element % base[d];
    element /= base[d];
  }
  return at;
}

}  // namespace

std::optional<Index> MoveOf(const Shown& a, const Shown& b, const Shown& c) {
  if (a.base.rank != b.base.rank || a.base.rank != c.base.rank) return std::nullopt;
  Index ahead;
  bool fits = true;
  ForSamples(a.view.shape(), [&](const Index& index) {
    const Index x = Coordinates(ir::Resolve(a.view, index), a.base),
                y = Coordinates(ir::Resolve(b.view, index), b.base),
                z = Coordinates(ir::Resolve(c.view, index), c.base);
    Index once(x.size()), twice(x.size());
    for (size_t d = 0; d < x.size(); ++d) {
      once[d] = y[d] - x[d];
      twice[d] = z[d] - x[d] - once[d];
    }
    if (ahead.empty()) ahead = once;
    fits = once == ahead && twice == ahead;
    return fits;
  });
  if (!fits) return std::nullopt;
  ahead.resize(static_cast<size_t>(a.base.rank));
  return ahead;
}

std::optional<ir::View> Grown(const ir::View& a, const ir::View& from, const ir::View& to) {
  ir::View out = a;
  if (from.steps.size() != a.steps.size() || to.steps.size() != a.steps.size()) return std::nullopt;
  for (size_t s = 0; s < a.steps.size(); ++s) {
    const ir::ViewStep &x = from.steps[s], &y = to.steps[s];
    ir::ViewStep& step = out.steps[s];
    if (x.shape.rank != step.shape.rank || y.shape.rank != step.shape.rank) return std::nullopt;
    step.offset += y.offset - x.offset;
    for (int d = 0; d < step.shape.rank; ++d) {
      step.shape[d] += y.shape[d] - x.shape[d];
      step.strides[d] += y.strides[d] - x.strides[d];
    }
  }
  return out;
}

int64_t LeastElement(const ir::View& view) {
  const ir::ViewStep& step = view.steps[0];
  int64_t least = step.offset;
  for (int d = 0; d < step.shape.rank; ++d)
    least += std::min<int64_t>(0, step.strides[d] * (step.shape[d] - 1));
  return least;
}

int64_t GreatestElement(const ir::View& view) {
  const ir::ViewStep& step = view.steps[0];
  int64_t greatest = step.offset;
  for (int d = 0; d < step.shape.rank; ++d)
    greatest += std::max<int64_t>(0, step.strides[d] * (step.shape[d] - 1));
  return greatest;
}

std::optional<MovedLine> LineOf(const Shown& shown, const Index& ahead) {
  if (!shown.view.affine()) return std::nullopt;
  const auto moves = [](int64_t by) { return by != 0; };
  const auto found = std::find_if(ahead.begin(), ahead.end(), moves);
  if (found == ahead.end() || std::count_if(ahead.begin(), ahead.end(), moves) != 1) return std::nullopt;
  const int axis = static_cast<int>(found - ahead.begin());
  MovedLine line{-1, 1, 0, shown.base[axis]};
  for (int d = axis + 1; d < shown.base.rank; ++d) line.stride *= shown.base[d];
  const ir::ViewStep& step = shown.view.steps[0];
  for (int d = 0; d < step.shape.rank; ++d) {
    if (step.shape[d] == 1 || step.strides[d] / line.stride % line.extent == 0) continue;
    if (step.strides[d] != line.stride || line.dim >= 0) return std::nullopt;
    line.dim = d;
  }
  line.start = step.offset / line.stride % line.extent;
  if (line.dim < 0) return std::nullopt;
  return line;
}

}  // namespace rondo::importer
