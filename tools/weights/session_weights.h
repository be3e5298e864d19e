// ReplaceInSessions: new weights for existing sessions.
#pragma once

#include "core/span.h"
#include "core/status.h"
#include "runtime/session.h"
#include "tools/weights/new_weights.h"

namespace rondo::tools {

// Copies new weights to where the sessions' recorded graphs read them, on all devices of this process.
// `sessions` must be all sessions of one plan in one runtime (they share its weights), each idle. They are in
// use during the call, and no other session of the runtime can be made or destroyed meanwhile.
// kFailedPrecondition, with nothing changed, if a session is in use, has a sticky error, or is missing from
// `sessions`. An error of a device sticks to all of them.
//
// Sessions of the plan that are made while one of these lives have the new weights. Once the last is gone,
// new sessions have the plan's own weights again. State stays.
Status ReplaceInSessions(Span<const Session* const> sessions, const NewWeights& weights);

}  // namespace rondo::tools
