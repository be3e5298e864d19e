#include "runtime/launch_threads.h"

#include <chrono>

#include "runtime/session_impl.h"

namespace rondo {

LaunchThreads::~LaunchThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  for (Thread& thread : threads_) {
    if (!thread.running) continue;
    thread.wake.notify_one();
    hooks_.join(hooks_.user, thread.handle);
  }
}

Status LaunchThreads::Start(const ThreadHooks& hooks, uint64_t devices) {
  hooks_ = hooks;
  for (uint32_t d = 0; d < kMaxDevices; ++d) {
    Thread& thread = threads_[d];
    if (!Has(devices, d) || thread.running) continue;
    thread.owner = this;
    thread.device = d;
    const int error = hooks_.start(hooks_.user, Main, &thread, &thread.handle);
    if (error != 0) {
      return Status::Error(Code::kOutOfMemory,
                           "the launch thread of device %u could not be started (error %d)", d, error);
    }
    thread.running = true;
  }
  return Status::Ok();
}

// Call with the lock held.
void LaunchThreads::Enqueue(SessionImpl* session, uint64_t devices) {
  DeviceRun& run = session->device_run;
  run.arrived = 0;
  run.failed = false;
  run.error = Status();
  for (uint32_t d = 0; d < session->devices.size(); ++d) {
    if (!Has(devices, d)) continue;
    ++run.left;
    session->devices[d].complete = 0;
    session->devices[d].next_run = nullptr;
    Thread& thread = threads_[d];
    (thread.last == nullptr ? thread.first : thread.last->devices[d].next_run) = session;
    thread.last = session;
    thread.wake.notify_one();
  }
}

Status LaunchThreads::Run(SessionImpl* session, uint32_t program, const RunTimer* timer, uint64_t devices) {
  DeviceRun& run = session->device_run;
  std::unique_lock<std::mutex> lock(mutex_);
  run.program = program;
  run.timer = timer;
  Enqueue(session, devices);
  StopSignal& stop = session->stop;
  for (bool stopped = false; run.left != 0;) {
    if (!stopped && stop.Asked()) {
      stopped = true;
      lock.unlock();
      Fail(session, stop.status(), true);
      lock.lock();
    } else if (!stopped && stop.has_deadline()) {
      const uint64_t now = MonotonicNanoseconds(), deadline = stop.Word();
      run.changed.wait_for(lock, std::chrono::nanoseconds(deadline > now ? deadline - now : 0));
    } else {
      run.changed.wait(lock);
    }
  }
  return run.error;
}

void LaunchThreads::Wake(SessionImpl* session) {
  std::lock_guard<std::mutex> lock(mutex_);
  session->device_run.changed.notify_all();
}

Status LaunchThreads::Arm(SessionImpl* session, uint32_t program, uint64_t devices) {
  session->device_run.arm = true;
  Status status = Run(session, program, nullptr, devices);
  session->device_run.arm = false;
  return status;
}

void LaunchThreads::BeginHold(SessionImpl* session, uint64_t devices) {
  DeviceRun& run = session->device_run;
  std::unique_lock<std::mutex> lock(mutex_);
  run.hold = true;
  Enqueue(session, devices);
  while (run.arrived != run.left) run.changed.wait(lock);
}

void LaunchThreads::EndHold(SessionImpl* session) {
  DeviceRun& run = session->device_run;
  std::unique_lock<std::mutex> lock(mutex_);
  run.hold = false;
  run.changed.notify_all();
  while (run.left != 0) run.changed.wait(lock);
}

void LaunchThreads::Fail(SessionImpl* session, const Status& status, bool abort) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceRun& run = session->device_run;
    const bool graver = run.error.code() == Code::kOutOfRange && status.code() != Code::kAborted;
    if (run.error.ok() || graver) run.error = status;
    run.failed |= abort;
    run.changed.notify_all();
  }
  if (abort) AbortCollectives(session, session->device_run.program);
}

void LaunchThreads::Publish(SessionImpl* session, uint32_t device, uint32_t partition) {
  std::lock_guard<std::mutex> lock(mutex_);
  session->devices[device].complete = partition + 1;
  session->device_run.changed.notify_all();
}

Status LaunchThreads::Await(SessionImpl* session, uint32_t device, uint32_t partition) {
  std::unique_lock<std::mutex> lock(mutex_);
  DeviceRun& run = session->device_run;
  while (session->devices[device].complete <= partition && !run.failed) run.changed.wait(lock);
  if (session->devices[device].complete > partition) return Status::Ok();
  return Status::Error(Code::kAborted, "stopped while it waited for device %u: the run has failed", device);
}

void* LaunchThreads::Main(void* thread) {
  Thread* self = static_cast<Thread*>(thread);
  self->owner->Serve(self);
  return nullptr;
}

void LaunchThreads::Serve(Thread* self) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    while (self->first == nullptr && !stop_) self->wake.wait(lock);
    if (self->first == nullptr) return;
    SessionImpl* session = self->first;
    self->first = session->devices[self->device].next_run;
    if (self->first == nullptr) self->last = nullptr;
    DeviceRun& run = session->device_run;
    if (run.hold) {
      ++run.arrived;
      run.changed.notify_all();
      while (run.hold) run.changed.wait(lock);
    } else {
      lock.unlock();
      RunOnDevice(session, self->device);
      lock.lock();
    }
    // Once the lock is given up after the last, the session may be used, and destroyed, by others.
    if (--run.left == 0) run.changed.notify_all();
  }
}

}  // namespace rondo
