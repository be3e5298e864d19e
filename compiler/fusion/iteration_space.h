// IterationSpace: the loops of one part, and how every operand moves with them.
//
// Starts from logical loops (one for each dim of the part's domain) and maps that walk dense index spaces.
// Resolve splits loops until every map has plain strides over its storage. So a reshape that merges
// non-contiguous dims (heads times features, repeated key heads) becomes affine instead of a copy. Arrange
// then groups the loops by role, and joins those that all maps walk as one.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/view.h"

namespace rondo::fusion {

// The role of a loop in the skeleton, in the order in which a part lists its loops.
enum class Role : uint8_t { kOuter = 0, kM = 1, kN = 2, kReduced = 3, kFeature = 4 };
inline constexpr int kNumRoles = 5;

class IterationSpace {
 public:
  // Returns the loop's index; existing maps do not move with it.
  int AddLoop(int64_t extent, Role role = Role::kOuter);
  // A map: loops move by `strides` (one for each loop, or fewer: the rest are 0) from element `offset` on
  // through the dense index space of view.shape(); the view leads to storage. `extra_*` are data-dependent
  // coordinates that move through the same index space; they are never split.
  int AddMap(const ir::View& view, int64_t offset, std::vector<int64_t> strides,
             std::vector<int64_t> extra_extents = {}, std::vector<int64_t> extra_strides = {});
  // A map that ends in the coordinates of a dense tensor of shape `dims` instead of element numbers.
  int AddCoordinates(const Shape& dims, const ir::View& view, int64_t offset, std::vector<int64_t> strides);

  // Splits loops as far as the maps need. False if a map cannot be made affine: failed() names it.
  bool Resolve();
  int failed() const { return failed_; }

  int loops() const { return static_cast<int>(extents_.size()); }
  int64_t extent(int loop) const { return extents_[loop]; }
  Role role(int loop) const { return roles_[loop]; }
  void SetRole(int loop, Role role) { roles_[loop] = role; }
  // The dense walk that the map was added with: offset and strides before its view, split like the loops.
  const std::vector<int64_t>& LogicalStrides(int map) const { return maps_[map].strides; }

  // After Resolve: strides over the loops (and extras) of the storage.
  int64_t Offset(int map) const { return maps_[map].affine.offset; }
  const std::vector<int64_t>& Strides(int map) const { return maps_[map].affine.strides; }
  const std::vector<int64_t>& ExtraStrides(int map) const { return maps_[map].extra; }
  // After Resolve, of a coordinates map: the start and, per loop, the step along each dim.
  const std::vector<int64_t>& CoordinateBase(int map) const { return maps_[map].base; }
  const std::vector<int64_t>& CoordinateStep(int map, int loop) const {
    return maps_[map].coefficients[loop];
  }

  // After Resolve: sorts the loops by role (within a role by the storage stride of map `by`, largest first;
  // by < 0 keeps the order), drops loops of extent 1, joins neighbours that every map walks as one (unless
  // `join` is false), and ensures that each role in `needed` has a loop.
  void Arrange(int by, const std::vector<Role>& needed, bool join = true);
  int CountOf(Role role) const;
  int64_t PointsOf(Role role) const;  // of all its loops together

 private:
  struct Map {
    ir::View view;
    int64_t offset = 0;
    std::vector<int64_t> strides;
    std::vector<int64_t> extra_extents, extra_strides;
    bool coordinates = false;
    Shape dims;
    // results
    ir::AffineMap affine;
    std::vector<int64_t> extra, base;
    std::vector<std::vector<int64_t>> coefficients;
  };
  enum class Outcome { kDone, kSplit, kFailed };
  Outcome ResolveMap(Map* map);
  bool SplitAlong(const std::vector<ir::IndexDim>& dims, const std::vector<int64_t>& strides);
  void Split(int loop, int64_t inner);
  void Join(int loop);  // joins `loop` and the next
  bool Joinable(int loop) const;

  std::vector<int64_t> extents_;
  std::vector<Role> roles_;
  std::vector<Map> maps_;
  int failed_ = -1;
};

}  // namespace rondo::fusion
