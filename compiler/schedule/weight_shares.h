// A device's share of a weight, or of several small ones that are gathered together: an equal part of their
// elements, in order. All shares laid end to end are the weights. Functions of constants; no state.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo {

using WeightData = std::shared_ptr<const ir::ConstantData>;

// Weights of one type, one behind another. Each begins at a multiple of 64 bytes, as in memory of its own.
struct WeightRow {
  std::vector<int64_t> places;  // of each weight's first element
  int64_t elements = 0;         // to the end of the last weight
};
WeightRow RowOf(const std::vector<WeightData>& weights);

// Elements [rank * own, (rank + 1) * own) of the row as a flat constant; `devices` shares are at least the
// row. Elements of no weight are zeros, or whatever follows. A share of one synthetic weight is synthetic;
// shares of several have bytes.
WeightData ShareOfRow(const std::vector<WeightData>& weights, int64_t own, int64_t devices, int64_t rank);

}  // namespace rondo
