// Watchdog: ends a run whose devices stop without an error. Internal to runtime/.
//
// Devices note which collectives they have come to and which have ended (Driver::Progress). When none of a
// run's has noted anything for the session's time, and no other run keeps one of them, the run must end. Used
// by the run's caller, with the lock of the launch threads held. Allocates only to describe an error.
#pragma once

#include <cstdint>

#include "core/driver.h"
#include "core/status.h"
#include "formats/plan/verifier.h"

namespace rondo {

struct SessionImpl;

// The step that starts the `n`-th collective of `device`, from 0 on; kNone: it has not so many.
uint32_t StartOf(const Program& program, uint32_t device, uint32_t n);

class Watchdog {
 public:
  // Of the run that the session has with the launch threads.
  explicit Watchdog(SessionImpl* session);

  // How often to look, in nanoseconds.
  uint64_t interval() const { return interval_; }
  // OK, or why the run must end: at which sync point the first device has stopped, or what the driver says of
  // the processes.
  Status Look(uint64_t now);
  // `now` and the session's time.
  uint64_t Later(uint64_t now) const;
  // What a run says that was to end because of `why`, and of which devices have not.
  Status Lost(const Status& why) const;

 private:
  // `why`, or, if it is OK, that there has been no progress since `since_`, with where the run stands.
  Status Ends(const Status& why, uint64_t now) const;

  SessionImpl* const session_;
  uint64_t interval_;
  CollectiveProgress last_[kMaxDevices];
  uint64_t noted_ = 0;  // by all devices, in all; grows with whatever happens
  uint64_t since_ = 0;
};

}  // namespace rondo
