// Meeting: every process learns every other's card. Internal to drivers/processes.
#pragma once

#include "core/status.h"
#include "drivers/processes/address.h"
#include "drivers/processes/processes.h"
#include "drivers/processes/reception.h"

namespace rondo::processes {

// Fills cards[0 ... options.size), by rank, and has this process listen where its own says. `key` is that of
// the secret. Those who do not know it are counted, and nothing that they do ends the meeting. kAborted,
// naming who, when some have not come by the deadline; the same at once when one that knows a secret comes
// with other numbers.
Status Meet(const ProcessOptions& options, const Key& key, Deadline deadline, Card* cards,
            Listeners* listeners, TurnedAway* turned);

}  // namespace rondo::processes
