// KeepRegions: turns annotations that nodes run as one (`region: NAME`, `keep: together`) into places of the
// IR (compiler/ir/region.h), and into control edges that allow each place to run as a unit.
#pragma once

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::importer {

// Nodes annotated alike that exchange values are one place, as is all that a call in the region holds; so
// are, in each region, those to be kept together. Places are numbered by region, in the annotation `region`.
// What a place waits for runs before all of it, what waits for it after all of it: weak edges, which keep
// nothing alive. kInvalidArgument, with the whole cycle, if something must run amid a place: it reads what
// one of its nodes makes, and another reads what it makes; and where nodes of several regions are to be kept
// together.
Status KeepRegions(ir::Graph* graph);

}  // namespace rondo::importer
