// RunGate: keeps runs of several devices apart from what makes and frees things on those devices. Internal to
// runtime/.
//
// A device may give or take memory only once all that it does is done, and keep other threads from giving it
// work until then. Where devices that meet in collectives launch from threads of their own
// (DriverInfo::records_together), that would be the end: one device waits for another, whose launch waits for
// the first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "core/status.h"
#include "core/stop.h"

namespace rondo {

// Thread-safe. Allocates nothing.
class RunGate {
 public:
  // Blocks as long as the gate is closed; then a run is under way until Leave. `stop` ends the wait with its
  // status.
  Status Enter(StopSignal* stop);
  void Leave();
  // Lets no run begin, and returns when none is under way. Several may keep it closed.
  void Close();
  void Open();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  uint32_t runs_ = 0, closed_ = 0;
};

struct RuntimeImpl;

// No run of several devices is under way for its scope, but for a part between Pause and Resume. Does nothing
// where the driver has no need of it. Not for a thread with a run of its own under way.
class Quiet {
 public:
  explicit Quiet(RuntimeImpl* runtime);
  ~Quiet() { Pause(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  // In turns, and Resume last.
  void Pause() {
    if (gate_ != nullptr) gate_->Open();
  }
  void Resume() {
    if (gate_ != nullptr) gate_->Close();
  }

 private:
  RunGate* gate_ = nullptr;
};

}  // namespace rondo
