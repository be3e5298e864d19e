// Operators that show numbers from places which depend on how much is cached.
//
// A table's row of the first new position is another one with every position. At the three lengths that are
// imported (lengths_in_run.h) it may look as if it were always the same: a table may end with equal rows. So
// what such an operator shows is not worked out by import: it stays a view of the table, which FixCaches
// moves.
#ifndef RONDO_COMPILER_IMPORT_MOVED_PLACES_H_
#define RONDO_COMPILER_IMPORT_MOVED_PLACES_H_

#include <vector>

#include "compiler/import/import.h"
#include "compiler/import/three_imports.h"

namespace rondo::importer {

// The inputs of the node whose numbers it shows so, if not all of them are the same.
std::vector<int> ShownFromMovingPlaces(const KnownNode& node, const std::vector<Three>& inputs,
                                       const Three& result);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_MOVED_PLACES_H_
