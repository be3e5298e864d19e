// Meeting: every process learns every other's card. Internal to drivers/processes.
#ifndef RONDO_DRIVERS_PROCESSES_MEETING_H_
#define RONDO_DRIVERS_PROCESSES_MEETING_H_

#include "core/status.h"
#include "drivers/processes/address.h"
#include "drivers/processes/processes.h"

namespace rondo::processes {

// Fills cards[0 ... options.size), by rank; that of options.rank is there. kAborted, naming who, when some
// have not come by the deadline, or come with other numbers.
Status Meet(const ProcessOptions& options, Card* cards, Deadline deadline);

}  // namespace rondo::processes

#endif  // RONDO_DRIVERS_PROCESSES_MEETING_H_
