// KeepTogether: ops of one place (compiler/ir/region.h) stand one after another, and so do, among them, those
// of each place that lies in it.
#pragma once

#include <string>

#include "compiler/fusion/lowered.h"
#include "compiler/ir/region.h"

namespace rondo {

// The places that hold an op, as its annotation says it ("layer#0/attention#2"); "" if none does.
std::string RegionOf(const LoweredOp& op);

// Reorders program->ops so that nothing stands between ops of one place; deps renumbered, all other ops in
// their order as far as deps allow. What must run between two ops of a place (a collective that sharding has
// put there) lies in the place from then on. Returns what reports say.
std::string KeepTogether(LoweredProgram* program);

// Amid which place something stands that is not of it, by an op's number and source; "" if none.
std::string RegionParted(const LoweredProgram& program);

}  // namespace rondo
