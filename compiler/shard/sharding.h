// Sharding: how the devices of a program hold one value.
//
// Dense row-major storage of E elements is divided into runs: seen as [E / (N * run), N, run], device r of N
// holds index r of the middle. So a sharding survives every reshape, and heads, blocks of columns and whole
// rows have one description. In a shape, the run is a split of one dim, seen as [outer, N, inner]: a device's
// part has this dim divided by N. With copies, there are N / copies parts, and neighbours hold the same one:
// device r has part r / copies (two heads of keys on four devices). Plain values and pure functions;
// thread-safe.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "core/shape.h"

namespace rondo::shard {

using ir::ConstantData, ir::Graph, ir::kNoNode, ir::Node, ir::NodeId, ir::Op, ir::View;

struct Sharding {
  enum class Kind : uint8_t {
    kUnknown,  // of a value whose sharding nobody has given: none yet
    kPartial,  // every device holds a summand of all of it
    kWhole,    // every device holds all of it, equal to the bit
    kSplit,    // every device holds a part of it
  };

  Kind kind = Kind::kWhole;
  int64_t copies = 1;  // devices that hold the same part of a split; divides the number of devices
  int64_t run = 0;     // elements of a split that stay together; 0 if it is none

  // Runs of `run` elements; whole for 0.
  static constexpr Sharding Split(int64_t run, int64_t copies = 1) {
    return run > 0 ? Sharding{Kind::kSplit, copies, run} : Sharding{};
  }

  constexpr bool is_split() const { return kind == Kind::kSplit; }
  // The same split with `count` devices for each part; what is no split stays as it is.
  constexpr Sharding WithCopies(int64_t count) const { return is_split() ? Split(run, count) : *this; }
  // How many different parts `devices` devices hold of a split.
  constexpr int64_t parts(int64_t devices) const { return devices / copies; }

  friend constexpr auto operator<=>(const Sharding& a, const Sharding& b) = default;
};
inline constexpr Sharding kWhole{Sharding::Kind::kWhole};
inline constexpr Sharding kPartial{Sharding::Kind::kPartial};
inline constexpr Sharding kUnknown{Sharding::Kind::kUnknown};

// Which dim of a shape a split divides, and the innermost part of that dim that stays together.
struct SplitDim {
  int dim = -1;  // -1: the runs cross dims, so that no share has a shape
  int64_t inner = 0;
};
SplitDim DimOf(const Shape& shape, Sharding sharding, int64_t devices);

// The sharding that splits `dim` into [outer, devices / copies, inner]; kWhole if the dim does not divide
// that way.
Sharding SplitOf(const Shape& shape, int dim, int64_t inner, int64_t devices, int64_t copies = 1);

// What device `rank` holds of dense storage of `shape`.
ir::View ShareView(const Shape& shape, Sharding sharding, int64_t devices, int64_t rank);
// What one device holds of `shape`.
Shape LocalShape(const Shape& shape, Sharding sharding, int64_t devices);

}  // namespace rondo::shard
