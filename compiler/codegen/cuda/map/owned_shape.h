// The shape of maps whose places each belong to one block (owned_map.cc). Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/device/owned_layout.h"
#include "compiler/codegen/cuda/map/colliding_writes.h"

namespace rondo::cuda {

struct OwnedShape {
  std::vector<size_t> walked;      // loops whose points may meet
  std::vector<size_t> kept;        // loops that move the indices and the place
  std::vector<size_t> free;        // loops that move only the place
  int64_t columns = 1, items = 1;  // products of the extents of `kept`, and of `free` in vectors
  int64_t each = 1, groups = 1;    // neighbouring columns that a cluster has, and how many times
  int64_t tiles = 1;               // clusters that share the items
  size_t out = 0;                  // the operand written
  int lanes = 1;                   // elements of a vector
  std::optional<Update> update;    // if sums of several points can be made before their place is known
  uint32_t resident = 1;           // blocks of a multiprocessor
  OwnedPlaces layout = {};
};

// No value: the map writes elsewhere, or to more places than 31 bits number.
std::optional<OwnedShape> OwnedShapeOf(const PartContext& context);

}  // namespace rondo::cuda
