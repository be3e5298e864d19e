// Rebase: an indexed access of a tensor that is a view becomes one of the storage that the view shows.
#pragma once

#include "compiler/ir/graph.h"

namespace rondo::ir {

// `attrs` say where a kIndexedRead or kIndexedWrite goes in a dense tensor; that tensor lies in a storage as
// `place` says. Afterwards they say where it goes in the storage. False, and nothing changes, if an index
// would not move along one plain stride there.
bool Rebase(const View& place, IndexedAttrs* attrs);

}  // namespace rondo::ir
