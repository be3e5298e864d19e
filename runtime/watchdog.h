// Watchdog: ends a run whose devices stop without an error. Internal to runtime/.
//
// Devices note which collectives they have reached and which have ended (Driver::Progress). The run must end
// when none of its devices has noted anything for the session's watchdog time, and no other run occupies one
// of them. The caller of the run uses it, with the lock of the launch threads held. Allocates only to
// describe an error.
#pragma once

#include <cstdint>

#include "core/driver.h"
#include "core/status.h"
#include "formats/plan/verifier.h"

namespace rondo {

struct SessionImpl;

// The step that starts the `n`-th collective of `device`, counted from 0; kNone: it has fewer.
uint32_t StartOf(const Program& program, uint32_t device, uint32_t n);

class Watchdog {
 public:
  // For the session's run on the launch threads.
  explicit Watchdog(SessionImpl* session);

  // How often to look, in nanoseconds.
  uint64_t interval() const { return interval_; }
  // OK, or why the run must end: the first sync point at which a device has stopped, or the driver's error
  // about the processes.
  Status Look(uint64_t now);
  // `now` plus the session's watchdog time.
  uint64_t Later(uint64_t now) const;
  // The error of a run that did not end although `why` asked for it; names the devices that have not ended.
  Status Lost(const Status& why) const;

 private:
  // `why`; or, if that is OK, that there was no progress since `since_`, and where the run stands.
  Status Ends(const Status& why, uint64_t now) const;

  SessionImpl* const session_;
  uint64_t interval_;
  CollectiveProgress last_[kMaxDevices];
  uint64_t noted_ = 0;  // sum over all devices; grows with every event
  uint64_t since_ = 0;
};

}  // namespace rondo
