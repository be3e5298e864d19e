#include "runtime/launch_threads.h"

#include <chrono>

#include "runtime/session_impl.h"
#include "runtime/watchdog.h"

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
  run.queued = run.left = devices;
  run.failed = false;
  run.error = Status();
  for (uint32_t d = 0; d < session->devices.size(); ++d) {
    if (!Has(devices, d)) continue;
    session->devices[d].complete = 0;
    session->devices[d].next_run = nullptr;
    Thread& thread = threads_[d];
    (thread.last == nullptr ? thread.first : thread.last->devices[d].next_run) = session;
    thread.last = session;
    thread.wake.notify_one();
  }
}

// Removes the run from the queues of threads that have not started it. Call with the lock held.
void LaunchThreads::Withdraw(SessionImpl* session) {
  DeviceRun& run = session->device_run;
  for (uint32_t d = 0; d < session->devices.size(); ++d) {
    if (!Has(run.queued, d)) continue;
    Thread& thread = threads_[d];
    SessionImpl* before = nullptr;
    SessionImpl** link = &thread.first;
    while (*link != session) {
      before = *link;
      link = &before->devices[d].next_run;
    }
    *link = session->devices[d].next_run;
    if (thread.last == session) thread.last = before;
  }
  run.left &= ~run.queued;
  run.queued = 0;
}

Status LaunchThreads::Run(SessionImpl* session, uint32_t program, const RunTimer* timer, uint64_t devices) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!lost_.ok()) return lost_;
  session->device_run.program = program;
  session->device_run.timer = timer;
  Enqueue(session, devices);
  return Watch(session, &lock);
}

Status LaunchThreads::Watch(SessionImpl* session, std::unique_lock<std::mutex>* lock) {
  DeviceRun& run = session->device_run;
  StopSignal& stop = session->stop;
  Watchdog watchdog(session);
  uint64_t give_up = 0;  // the time at which waiting ends: the watchdog's time after the run was told to end
  while ((run.hold ? run.queued : run.left.load()) != 0) {
    const uint64_t now = MonotonicNanoseconds();
    uint64_t look = now + watchdog.interval();
    if (give_up == 0) {
      const Status why = stop.Asked() ? stop.status() : !lost_.ok() ? lost_ : watchdog.Look(now);
      if (!why.ok()) {
        give_up = watchdog.Later(now);
        Withdraw(session);
        lock->unlock();
        Fail(session, why, true, false);
        if (!IsStop(why.code())) stop.Cancel();
        lock->lock();
        continue;
      }
      if (stop.Word() < look) look = stop.Word();
    } else if (now >= give_up) {
      lost_ = watchdog.Lost(run.error);
      return lost_;
    }
    run.changed.wait_for(*lock, std::chrono::nanoseconds(look > now ? look - now : 0));
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

Status LaunchThreads::BeginHold(SessionImpl* session, uint64_t devices) {
  std::unique_lock<std::mutex> lock(mutex_);
  session->device_run.hold = true;
  Enqueue(session, devices);
  const Status status = Watch(session, &lock);
  lock.unlock();
  if (!status.ok()) EndHold(session);
  return status;
}

void LaunchThreads::EndHold(SessionImpl* session) {
  DeviceRun& run = session->device_run;
  std::unique_lock<std::mutex> lock(mutex_);
  run.hold = false;
  run.changed.notify_all();
  while (run.left != 0) run.changed.wait(lock);
}

Status LaunchThreads::lost() {
  std::lock_guard<std::mutex> lock(mutex_);
  return lost_;
}

void LaunchThreads::Fail(SessionImpl* session, const Status& status, bool abort, bool wait) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceRun& run = session->device_run;
    const bool graver = run.error.code() == Code::kOutOfRange && status.code() != Code::kAborted;
    if (run.error.ok() || graver) run.error = status;
    run.failed |= abort;
    run.changed.notify_all();
  }
  if (abort) AbortCollectives(session, session->device_run.program, status, wait);
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
    const uint64_t bit = uint64_t{1} << self->device;
    run.queued &= ~bit;
    if (run.hold) {
      run.changed.notify_all();
      while (run.hold) run.changed.wait(lock);
    } else {
      lock.unlock();
      RunOnDevice(session, self->device);
      lock.lock();
    }
    // After this change, others may use and destroy the session.
    if (run.left == bit) run.changed.notify_all();
    run.left &= ~bit;
  }
}

}  // namespace rondo
