// Meeting: every process learns every other's card. Internal to drivers/processes.
#pragma once

#include "core/status.h"
#include "drivers/processes/address.h"
#include "drivers/processes/processes.h"
#include "drivers/processes/reception.h"

namespace rondo::processes {

// Fills cards[0 ... options.size), by rank, and makes this process listen at the addresses of its own card.
// `key` is that of the secret. Connections without it are counted, and cannot end the meeting. kAborted,
// naming the processes, when some have not come by the deadline; at once when one that knows the secret comes
// with another rank or size.
Status Meet(const ProcessOptions& options, const Key& key, Deadline deadline, Card* cards,
            Listeners* listeners, TurnedAway* turned);

}  // namespace rondo::processes
