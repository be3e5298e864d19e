// StateRows: which rows of each state the nodes of a graph touch. A state that all layers share (caches
// stacked along a dim) can then be held row by row, where each layer runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/shard/sharding.h"

namespace rondo::shard {

// Rows [first, end), along StateRows::axis.
struct RowRange {
  int64_t first = 0, end = 0;
};

// One state of a graph. Its rows are the indices of its first dim that is not 1.
struct StateRows {
  int axis = 0;
  int64_t rows = 1;
  int64_t row_elements = 0;
  // The input, then what it becomes write by write, the output last. Where the state is not written in place,
  // the input alone.
  std::vector<ir::NodeId> versions;
  // Whether its rows can be held apart: it is written in place, or not at all, and no other output shows it.
  bool divides = false;
  // Nodes that read or write it, in id order, no views among them, and the rows that each may touch.
  std::vector<std::pair<ir::NodeId, RowRange>> touches;
};

// One for each of graph.states, in order. Pure; thread-safe.
std::vector<StateRows> FindStateRows(const ir::Graph& graph);

// Between which positions of an order a row is touched; {-1, -1}: never.
struct RowSpan {
  int first = -1, last = -1;
};
// By row; `position` by node, -1 for those that are not in the order. All rows alike where they cannot be
// held apart: the state does not divide, or its rows are not used in their order, up or down.
std::vector<RowSpan> RowSpans(const StateRows& state, const std::vector<int>& position);

}  // namespace rondo::shard
