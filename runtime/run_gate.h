// RunGate: keeps runs on several devices apart from allocation and loading on those devices. Internal to
// runtime/.
//
// Allocating or freeing device memory may wait until all work of the device is done, and block other threads
// that launch on it meanwhile. If devices that meet in collectives launch from threads of their own
// (DriverInfo::records_together), this would be a deadlock: one device waits for another, whose launch waits
// for the first.
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
  // Blocks while the gate is closed; then a run is under way until Leave. `stop` ends the wait with its
  // status.
  Status Enter(StopSignal* stop);
  void Leave();
  // Keeps runs from beginning, and returns when none is under way. Several callers may keep it closed at
  // once.
  void Close();
  void Open();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  uint32_t runs_ = 0, closed_ = 0;
};

struct RuntimeImpl;

// While this object lives, no run on several devices is under way, except between Pause and Resume. Does
// nothing where the driver does not need it. Must not be used by a thread that has a run under way.
class Quiet {
 public:
  explicit Quiet(RuntimeImpl* runtime);
  ~Quiet() { Pause(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  // Called alternately, Resume last.
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
