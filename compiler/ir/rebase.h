// Rebase: redirects an indexed access of a view to the storage that the view shows.
#pragma once

#include "compiler/ir/graph.h"

namespace rondo::ir {

// `attrs` describe a kIndexedRead or kIndexedWrite of a dense tensor, which `place` maps into a storage.
// Changes them to describe the access to the storage. False, and unchanged, if an index would not move by one
// plain stride there.
bool Rebase(const View& place, IndexedAttrs* attrs);

}  // namespace rondo::ir
