// How many positions of a cache of a fixed length there are in a run.
//
// Models that leave their caches to an operator (GroupQueryAttention) ask the shape of the mask how many
// positions there are. In a plan that is the length of the cache, which is right for shapes; what they decide
// by it (which rotary angles are for texts this long), and what they compute with it, depends on the run. So
// the number is followed twice: as the shape says, which shapes take, and as it is in a run (Value::in_run).
#ifndef RONDO_COMPILER_IMPORT_COUNTED_POSITIONS_H_
#define RONDO_COMPILER_IMPORT_COUNTED_POSITIONS_H_

#include "compiler/import/op_context.h"

namespace rondo::importer {

struct OpRow;

// Whether a node's inputs ask for that: some has an in_run, or it is the shape of a mask or a cache.
bool CountsPositions(const OpRow& row, const OpContext& c);
// Such a node.
Status CallWithCounts(const OpRow& row, OpContext& c);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_COUNTED_POSITIONS_H_
