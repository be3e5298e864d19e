// CutWeight: a part of a constant, as a constant of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/ir/graph.h"
#include "compiler/shard/sharding.h"

namespace rondo::shard {

// Device `rank`'s share of a constant that is split into runs of `sharding`. Memory is shared with `whole`
// where the share lies in one piece of it, and copied otherwise; of a synthetic one nothing is made. A packed
// one stays packed; CanCut must say that it can.
std::shared_ptr<const ir::ConstantData> ShareOf(const std::shared_ptr<const ir::ConstantData>& whole,
                                                Sharding sharding, int64_t devices, int64_t rank);

// Whether there is such a share: always, but of packed constants in whole rows and blocks only.
bool CanCut(const ir::ConstantData& whole, Sharding sharding, int64_t devices);

// Makes every part of a large constant that views show apart (the query columns of a fused projection) a
// constant of its own, in the order in which it lies there, where every reader of the constant is such a
// view: so that each can be split by what it is. Returns how many.
int SeparateWeights(ir::Graph* graph);

}  // namespace rondo::shard
