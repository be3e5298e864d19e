// KeepTogether: ops of one region (`keep: together`, compiler/import/kept_regions.h) stand one after another.
#pragma once

#include <string>

#include "compiler/fusion/lowered.h"

namespace rondo {

// The region that an op is of, as its annotation says it ("together 2"); "" if of none.
std::string RegionOf(const LoweredOp& op);

// Reorders program->ops so that nothing stands between ops of one region; deps renumbered, all other ops in
// their order as far as deps allow. What must run between two ops of a region (a collective that sharding has
// put there) is of the region from then on. Returns what reports say.
std::string KeepTogether(LoweredProgram* program);

// Which region something stands amid that is not of it, by an op's number and source; "" if none.
std::string RegionParted(const LoweredProgram& program);

}  // namespace rondo
