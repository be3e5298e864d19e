// ReplaceInSessions: new weights for sessions that run.
#pragma once

#include "core/span.h"
#include "core/status.h"
#include "runtime/session.h"
#include "tools/weights/new_weights.h"

namespace rondo::tools {

// Copies new weights to where the sessions' recorded graphs read them, in all of this process's devices'
// memory. `sessions`: all that one runtime has of one plan, which share its weights, each idle; they are in
// use meanwhile, and no other session of the runtime can be made or destroyed. kFailedPrecondition, with
// nothing changed, if one is in use, has an error that stuck, or is missing among them. An error of a device
// sticks to all of them.
//
// Sessions of the plan that are made while one of these lives have the new weights; once the last is gone,
// the plan's own count again. State stays.
Status ReplaceInSessions(Span<const Session* const> sessions, const NewWeights& weights);

}  // namespace rondo::tools
