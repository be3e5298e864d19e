#include "compiler/import/padded_dims.h"

#include <algorithm>

namespace rondo::importer {
namespace {

// Adds an axis inside the others; adjacent axes without padding are joined.
void AddAxis(PaddedAxis axis, std::vector<PaddedAxis>* axes) {
  if (axis.extent == 1 && !axis.padded()) return;
  if (!axis.padded() && !axes->empty() && !axes->back().padded()) {
    axes->back().extent *= axis.extent;
    axes->back().size = axes->back().extent;
  } else {
    axes->push_back(std::move(axis));
  }
}

PaddedDim DimOf(std::vector<PaddedAxis> axes) {
  PaddedDim dim;
  const auto padded = [](const PaddedAxis& axis) { return axis.padded(); };
  if (std::any_of(axes.begin(), axes.end(), padded)) dim.axes = std::move(axes);
  return dim;
}

// Joins `inner`, an axis without padding, to the axis around it.
void Widen(const PaddedAxis& inner, PaddedAxis* axis) {
  axis->size = axis->size * inner.extent;
  axis->extent *= inner.extent;
}

// All axes of a tensor in order. `joined`: an axis without padding that follows a padded one becomes part of
// it.
std::vector<PaddedAxis> AxesOf(const PaddedDims& dims, const Shape& shape, bool joined) {
  std::vector<PaddedAxis> axes;
  bool joins = false;
  const auto add = [&](const PaddedAxis& axis) {
    if (axis.extent == 1 && !axis.padded()) return;
    if (joins && !axis.padded()) {
      Widen(axis, &axes.back());
    } else {
      AddAxis(axis, &axes);
    }
    joins = joined && axis.padded();
  };
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t extent = shape[static_cast<int>(d)];
    if (!dims[d].padded()) add({extent, extent, {}});
    for (const PaddedAxis& axis : dims[d].axes) add(axis);
  }
  return axes;
}

// One step of a view over `axes`. Its dims are cut into loops that each walk within one axis.
class Step {
 public:
  Step(const std::vector<PaddedAxis>& axes, const ir::ViewStep& step) : axes_(axes), step_(step) {
    for (const PaddedAxis& axis : axes) within_.push_back({axis.extent, 0});
    for (int d = 0; d < step.shape.rank; ++d)
      loops_.push_back({d, step.shape[d], step.shape[d] == 1 ? 0 : step.strides[d]});
  }

  std::optional<PaddedDims> Walk(std::string* why) {
    if (!Cut()) {
      *why = "shows elements in an order that mixes the padded dimension with others";
      return std::nullopt;
    }
    for (size_t j = 0; j < axes_.size(); ++j) {
      if (axes_[j].padded() && !Along(j, why)) return std::nullopt;
    }
    PaddedDims dims(step_.shape.rank);
    std::vector<std::vector<PaddedAxis>> made(static_cast<size_t>(step_.shape.rank));
    std::vector<bool> moves(made.size());
    for (Loop& loop : loops_) {
      const auto d = static_cast<size_t>(loop.dim);
      moves[d] = moves[d] || loop.stride != 0;
      dims[d].part = dims[d].part || loop.part;
      AddAxis(loop.shows.value_or(PaddedAxis{loop.extent, loop.extent, {}}), &made[d]);
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool part = dims[d].part;
      dims[d] = DimOf(std::move(made[d]));
      dims[d].part = part;
      dims[d].repeated = !moves[d] && step_.shape[static_cast<int>(d)] > 1;
    }
    return dims;
  }

 private:
  struct Loop {
    int dim;
    int64_t extent, stride;
    bool part = false;
    std::optional<PaddedAxis> shows = {};  // the padded axis that it walks along
  };

  // Splits loops until each stays within one axis. False if that is impossible.
  bool Cut() {
    constexpr size_t kMostLoops = 64;
    for (;;) {
      std::vector<int64_t> extents, strides;
      for (const Loop& loop : loops_) {
        extents.push_back(loop.extent);
        strides.push_back(loop.stride);
      }
      if (ir::Decompose(within_, step_.offset, extents, strides, &base_, &walks_)) return true;
      size_t cut = 0;
      int64_t inner = 0;
      for (; cut < loops_.size() && inner <= 1; cut += inner <= 1)
        inner = ir::SplitOf(within_, loops_[cut].extent, loops_[cut].stride);
      if (inner <= 1 || loops_.size() == kMostLoops) return false;
      Loop outer = loops_[cut];
      outer.extent /= inner;
      outer.stride *= inner;
      loops_[cut].extent = inner;
      loops_.insert(loops_.begin() + static_cast<std::ptrdiff_t>(cut), outer);
    }
  }

  // Finds the part of axis `j` that the loops show.
  bool Along(size_t j, std::string* why) {
    const PaddedAxis& axis = axes_[j];
    const int64_t first = base_[j];
    Loop* walker = nullptr;
    int64_t by = 0;
    for (size_t l = 0; l < loops_.size(); ++l) {
      if (walks_[l][j] == 0) continue;
      bool alone = walker == nullptr;
      for (size_t other = 0; other < axes_.size(); ++other)
        alone = alone && (other == j || walks_[l][other] == 0);
      if (!alone) {
        *why = "cuts the padded dimension into pieces, or walks along two dimensions at once";
        return false;
      }
      walker = &loops_[l];
      by = walks_[l][j];
    }
    if (walker == nullptr) {
      if (first < axis.size.least()) return true;
      *why = "takes position " + std::to_string(first) + ", which a run may not have";
      return false;
    }
    if (by < 0) {
      *why = "shows the padded dimension from its end on";
      return false;
    }
    walker->shows = axis;
    if (first == 0 && by == 1 && walker->extent == axis.extent) return true;
    walker->part = true;
    walker->shows->extent = walker->extent;
    walker->shows->size = Max(Min(FloorDiv(axis.size + (by - 1 - first), by), walker->extent), 0);
    return true;
  }

  const std::vector<PaddedAxis>& axes_;
  const ir::ViewStep& step_;
  std::vector<ir::IndexDim> within_;
  std::vector<Loop> loops_;
  std::vector<int64_t> base_;
  std::vector<std::vector<int64_t>> walks_;
};

}  // namespace

PaddedDims Unpadded(const Shape& shape) { return PaddedDims(static_cast<size_t>(shape.rank)); }

bool AnyPadded(const PaddedDims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](const PaddedDim& dim) { return dim.padded(); });
}

PaddedDim Joined(const PaddedDim& dim) {
  PaddedDim joined = dim;
  joined.axes.clear();
  for (const PaddedAxis& axis : dim.axes) {
    const bool joins = !joined.axes.empty() && joined.axes.back().padded() && !axis.padded();
    if (joins) {
      Widen(axis, &joined.axes.back());
    } else {
      joined.axes.push_back(axis);
    }
  }
  return joined;
}

void ForgetFills(PaddedDims* dims) {
  for (PaddedDim& dim : *dims) {
    dim.repeated = dim.part = false;
    for (PaddedAxis& axis : dim.axes) axis.fill.reset();
  }
}

bool SamePadding(const PaddedDim& a, const PaddedDim& b) {
  const std::vector<PaddedAxis> of_a = Joined(a).axes, of_b = Joined(b).axes;
  return std::equal(
      of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
      [](const PaddedAxis& x, const PaddedAxis& y) { return x.extent == y.extent && x.size == y.size; });
}

std::optional<PaddedDims> Shown(const PaddedDims& base, const Shape& shape, const ir::View& view,
                                std::string* why) {
  PaddedDims dims = base;
  const Shape* below = &shape;
  bool part = false;
  for (const ir::ViewStep& step : view.steps) {
    // A view without elements, or without padding, cannot mix any.
    std::optional<PaddedDims> shown;
    if (step.shape.elements() == 0) shown = Unpadded(step.shape);
    for (const bool joined : {false, true}) {
      const std::vector<PaddedAxis> axes = AxesOf(dims, *below, joined);
      if (!shown) shown = Step(axes, step).Walk(why);
    }
    if (!shown) return std::nullopt;
    // An outer step loses the repeats and parts of an inner step. Without padding that does not matter; with
    // padding, `part` is kept for all dims together.
    for (const PaddedDim& dim : *shown) part = part || dim.part;
    dims = std::move(*shown);
    below = &step.shape;
  }
  for (PaddedDim& dim : dims) dim.part = dim.padded() && part;
  return dims;
}

}  // namespace rondo::importer
