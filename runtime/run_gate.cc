#include "runtime/run_gate.h"

#include <chrono>

#include "runtime/runtime_impl.h"

namespace rondo {

Status RunGate::Enter(StopSignal* stop) {
  constexpr std::chrono::milliseconds kLook(10);  // between two checks of `stop`
  std::unique_lock<std::mutex> lock(mutex_);
  while (closed_ != 0) {
    if (stop->Asked()) return stop->status();
    changed_.wait_for(lock, kLook);
  }
  ++runs_;
  return Status::Ok();
}

void RunGate::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--runs_ == 0) changed_.notify_all();
}

void RunGate::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++closed_;
  while (runs_ != 0) changed_.wait(lock);
}

void RunGate::Open() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--closed_ == 0) changed_.notify_all();
}

Quiet::Quiet(RuntimeImpl* runtime) {
  if (runtime->driver->Info().records_together) gate_ = &runtime->gate;
  Resume();
}

}  // namespace rondo
