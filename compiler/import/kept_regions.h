// KeepRegions: what annotations say of nodes that are to stay together (`keep: together`) becomes regions of
// the IR, and control edges that leave room for each to run as one.
#pragma once

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::importer {

// Nodes annotated so that exchange values are one region: their annotation is "together N" from now on, N its
// number. What a region waits for runs before all of it, what waits for it after all of it: weak edges, which
// keep nothing alive. kInvalidArgument, with the whole cycle, if something must run amid a region: it reads
// what one of its nodes makes, and another reads what it makes; and for another value than `together`.
Status KeepRegions(ir::Graph* graph);

}  // namespace rondo::importer
