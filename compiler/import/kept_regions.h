// KeepRegions: turns annotations of nodes that run as a unit (`region: NAME`, `keep: together`) into places
// of the IR (compiler/ir/region.h), and adds control edges that allow each place to run as a unit.
#pragma once

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::importer {

// Nodes with the same annotation that exchange values form one place. All nodes of a call in a region form
// one place, too. Inside each region, nodes that are to be kept together and exchange values form a place.
// Each place has a number within its region, in the annotation `region`. Everything that a place waits for
// runs before all of its nodes, and everything that waits for the place runs after all of them. Weak control
// edges ensure this; they keep no node alive. kInvalidArgument, with the whole cycle, if a node must run
// between the nodes of a place: it reads a result of one, and another reads its result. kInvalidArgument also
// if nodes of different regions are to be kept together.
Status KeepRegions(ir::Graph* graph);

}  // namespace rondo::importer
