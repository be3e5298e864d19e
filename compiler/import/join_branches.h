// The result of an If whose condition is known only at run time, from those of its two branches.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// Output `i` of the If `c`: the tensor `a` where `condition` (bool []) holds, otherwise `d`. Their dims may
// differ: the run then decides the lengths.
Result<Value> JoinBranches(OpContext& c, NodeId condition, const Value& a, const Value& d, int i);

// The error that output `i` cannot be joined.
Status RefuseBranches(OpContext& c, int i);

}  // namespace rondo::importer
