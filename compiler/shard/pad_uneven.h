// PadUneven: makes dims longer that the number of devices does not divide, so that it does.
//
// There are two kinds. The first is columns of matmuls by a weight, if the results go, through pointwise
// work, into matmuls that sum over them (a gated MLP's 11,008 on three devices), or if the columns are far
// more than what is summed over (a vocabulary's 50,257 on four). The second is rows of tables. Weights are
// padded with zeros (synthetic ones with what follows them). Values beyond the old end have no effect: a
// matmul that sums over a padded dim reads zeros there, any other reader sees the old part, and an index
// beyond a table's old end is out of range as before. Heads: pad_heads.h.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/costs.h"

namespace rondo::shard {

// A state that has more heads than the model says: indices `from * inner` and above of dim `dim` are
// nobody's.
struct PaddedState {
  std::string input;
  int dim = 0;
  int64_t from = 0, to = 0, inner = 1;
};

struct PaddedDim {
  std::string name;  // of its first weight
  int64_t from = 0, to = 0;
  std::vector<std::shared_ptr<const ir::ConstantData>> weights;  // as they are now
  bool heads = false;                                            // of attention, not indices of a dim
  std::vector<PaddedState> states = {};
};

// Changes `graph`, whose results stay what they are but for the order of sums. Those named in `leave` stay.
// Of equal graphs the same.
std::vector<PaddedDim> PadUneven(const Costs& costs, const std::set<std::string>& leave, ir::Graph* graph);

// The same for tables alone that nothing but lookups reads.
void PadTables(const Costs& costs, ir::Graph* graph);

}  // namespace rondo::shard
