// KeepRegions: turns annotations that nodes stay together (`keep: together`) into regions of the IR, and into
// control edges that allow each region to run as a unit.
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
