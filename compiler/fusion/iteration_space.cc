#include "compiler/fusion/iteration_space.h"

#include <algorithm>
#include <numeric>

namespace rondo::fusion {

using ir::IndexDim;

int IterationSpace::AddLoop(int64_t extent, Role role) {
  extents_.push_back(extent);
  roles_.push_back(role);
  for (Map& map : maps_) map.strides.push_back(0);
  return loops() - 1;
}

int IterationSpace::AddMap(const ir::View& view, int64_t offset, std::vector<int64_t> strides,
                           std::vector<int64_t> extra_extents, std::vector<int64_t> extra_strides) {
  Map map;
  map.view = view;
  map.offset = offset;
  map.strides = std::move(strides);
  map.strides.resize(extents_.size(), 0);
  map.extra_extents = std::move(extra_extents);
  map.extra_strides = std::move(extra_strides);
  maps_.push_back(std::move(map));
  return static_cast<int>(maps_.size()) - 1;
}

int IterationSpace::AddCoordinates(const Shape& dims, const ir::View& view, int64_t offset,
                                   std::vector<int64_t> strides) {
  int id = AddMap(view, offset, std::move(strides));
  maps_[id].coordinates = true;
  maps_[id].dims = dims;
  return id;
}

void IterationSpace::Split(int loop, int64_t inner) {
  int64_t outer = extents_[loop] / inner;
  extents_[loop] = outer;
  extents_.insert(extents_.begin() + loop + 1, inner);
  roles_.insert(roles_.begin() + loop + 1, roles_[loop]);
  for (Map& map : maps_) {
    int64_t stride = map.strides[loop];
    map.strides[loop] = stride * inner;
    map.strides.insert(map.strides.begin() + loop + 1, stride);
  }
}

bool IterationSpace::SplitAlong(const std::vector<IndexDim>& dims, const std::vector<int64_t>& strides) {
  for (int loop = 0; loop < loops(); ++loop) {
    int64_t inner = ir::SplitOf(dims, extents_[loop], strides[loop]);
    if (inner > 1) {
      Split(loop, inner);
      return true;
    }
  }
  return false;
}

namespace {

std::vector<IndexDim> PlainDims(const Shape& shape) {
  std::vector<IndexDim> dims;
  for (int d = 0; d < shape.rank; ++d) dims.push_back({shape[d], 0});
  return dims;
}

}  // namespace

IterationSpace::Outcome IterationSpace::ResolveMap(Map* map) {
  std::vector<int64_t> extents = extents_;
  extents.insert(extents.end(), map->extra_extents.begin(), map->extra_extents.end());
  std::vector<int64_t> strides = map->strides;
  strides.insert(strides.end(), map->extra_strides.begin(), map->extra_strides.end());
  int64_t offset = map->offset;
  std::vector<int64_t> base;
  std::vector<std::vector<int64_t>> coefficients;
  // The dense index space of view.shape() is walked plainly; each step leads to the storage below.
  for (size_t s = map->view.steps.size(); s-- > 0;) {
    const ir::ViewStep& step = map->view.steps[s];
    std::vector<IndexDim> dims = ir::JoinedDims(step);
    if (!ir::Decompose(dims, offset, extents, strides, &base, &coefficients)) {
      return SplitAlong(dims, strides) ? Outcome::kSplit : Outcome::kFailed;
    }
    offset = step.offset;
    for (size_t j = 0; j < dims.size(); ++j) offset += base[j] * dims[j].stride;
    for (size_t l = 0; l < extents.size(); ++l) {
      strides[l] = 0;
      for (size_t j = 0; j < dims.size(); ++j) strides[l] += coefficients[l][j] * dims[j].stride;
    }
  }
  map->affine.offset = offset;
  map->affine.strides.assign(strides.begin(), strides.begin() + loops());
  map->extra.assign(strides.begin() + loops(), strides.end());
  if (map->coordinates) {
    std::vector<IndexDim> dims = PlainDims(map->dims);
    if (!ir::Decompose(dims, offset, extents, strides, &map->base, &map->coefficients)) {
      return SplitAlong(dims, strides) ? Outcome::kSplit : Outcome::kFailed;
    }
    for (int l = 0; l < loops(); ++l) {
      int moved = 0;
      for (int64_t c : map->coefficients[l]) moved += c != 0;
      if (moved > 1) return Outcome::kFailed;
    }
  }
  return Outcome::kDone;
}

bool IterationSpace::Resolve() {
  constexpr int kMaxSplits = 64;
  for (int splits = 0; splits < kMaxSplits; ++splits) {
    bool split = false;
    for (size_t m = 0; m < maps_.size() && !split; ++m) {
      Outcome outcome = ResolveMap(&maps_[m]);
      if (outcome == Outcome::kFailed) {
        failed_ = static_cast<int>(m);
        return false;
      }
      split = outcome == Outcome::kSplit;
    }
    if (!split) return true;
  }
  failed_ = 0;
  return false;
}

int IterationSpace::CountOf(Role role) const {
  return static_cast<int>(std::count(roles_.begin(), roles_.end(), role));
}

int64_t IterationSpace::PointsOf(Role role) const {
  int64_t points = 1;
  for (int l = 0; l < loops(); ++l) points *= roles_[l] == role ? extents_[l] : 1;
  return points;
}

bool IterationSpace::Joinable(int loop) const {
  if (roles_[loop] != roles_[loop + 1]) return false;
  int64_t inner = extents_[loop + 1];
  for (const Map& map : maps_) {
    if (map.coordinates) continue;
    if (map.affine.strides[loop] != map.affine.strides[loop + 1] * inner) return false;
  }
  return true;
}

void IterationSpace::Join(int loop) {
  extents_[loop] *= extents_[loop + 1];
  extents_.erase(extents_.begin() + loop + 1);
  roles_.erase(roles_.begin() + loop + 1);
  for (Map& map : maps_) {
    map.affine.strides[loop] = map.affine.strides[loop + 1];
    map.affine.strides.erase(map.affine.strides.begin() + loop + 1);
    map.strides[loop] = map.strides[loop + 1];
    map.strides.erase(map.strides.begin() + loop + 1);
  }
}

void IterationSpace::Arrange(int by, const std::vector<Role>& needed, bool join) {
  std::vector<int> order;
  for (int l = 0; l < loops(); ++l) {
    if (extents_[l] != 1) order.push_back(l);
  }
  auto stride = [&](int l) { return by < 0 ? 0 : std::abs(maps_[by].affine.strides[l]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (roles_[a] != roles_[b]) return roles_[a] < roles_[b];
    return stride(a) > stride(b);
  });
  auto permute = [&](auto& list) {
    auto old = list;
    list.clear();
    for (int l : order) list.push_back(old[l]);
  };
  permute(extents_);
  permute(roles_);
  for (Map& map : maps_) {
    permute(map.strides);
    permute(map.affine.strides);
    map.coefficients.clear();
  }
  for (int l = 0; join && l + 1 < loops();) {
    if (Joinable(l)) {
      Join(l);
    } else {
      ++l;
    }
  }
  for (Role role : needed) {
    if (CountOf(role) > 0) continue;
    int at = 0;
    while (at < loops() && roles_[at] <= role) ++at;
    extents_.insert(extents_.begin() + at, 1);
    roles_.insert(roles_.begin() + at, role);
    for (Map& map : maps_) {
      map.strides.insert(map.strides.begin() + at, 0);
      map.affine.strides.insert(map.affine.strides.begin() + at, 0);
    }
  }
}

}  // namespace rondo::fusion
