// Session::Run: copies inputs, launches partitions in order, waits, and copies outputs. Allocates memory only
// to describe an error.
#include "runtime/metrics.h"
#include "runtime/session.h"
#include "runtime/session_impl.h"
#include "runtime/watchdog.h"

namespace rondo {
namespace {

// Waits for the streams of `devices`. The first error names its program and step. All streams are waited for
// even after an error, so that nothing is in flight when a run returns.
Status SynchronizeAll(SessionImpl* session, uint32_t program, uint64_t devices) {
  Status first;
  for (uint32_t i = 0; i < session->devices.size(); ++i) {
    if (!Has(devices, i)) continue;
    SessionDevice& d = session->devices[i];
    uint32_t failed_step = kNone;
    Status status = d.device->Synchronize(d.streams[0], &failed_step);
    if (status.ok() || !first.ok()) continue;
    if (failed_step == kNone) status = status.At("device %u", i);
    first = AtStep(session, status, program, failed_step);
  }
  return first;
}

// Copies the caller's data to `buffer`, if one of `devices` has it.
Status CopyInput(SessionImpl* session, RunCounters* counters, uint32_t buffer, const BoundPort& from,
                 uint64_t devices) {
  const Buffer& b = session->plan.data().buffers[buffer];
  if (b.bytes == 0 || !Has(devices, b.device)) return Status::Ok();
  SessionDevice& d = session->devices[b.device];
  counters->input_bytes.fetch_add(b.bytes, std::memory_order_relaxed);
  const DeviceAddress to = session->addresses[buffer];
  const Status status = from.memory == MemoryKind::kDevice
                            ? d.device->Copy(to, from.address(), b.bytes, d.streams[0])
                            : d.device->CopyIn(to, from.data, b.bytes, d.streams[0]);
  return status.At("device %u", b.device);
}

Status CopyInputs(SessionImpl* session, uint32_t program_index, uint64_t devices) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  RunCounters* counters = session->loaded->counters[program_index];
  for (size_t i = 0; i < armed.inputs.size(); ++i) {
    const BoundPort& bound = armed.inputs[i].bound;
    if (!bound.given) continue;
    const Port& port = program.inputs[i];
    if (!bound.direct) RONDO_RETURN_IF_ERROR(CopyInput(session, counters, port.buffer, bound, devices));
    for (uint32_t replica : port.replicas) {
      RONDO_RETURN_IF_ERROR(CopyInput(session, counters, replica, bound, devices));
    }
  }
  return Status::Ok();
}

Status CopyOutputs(SessionImpl* session, uint32_t program_index, uint64_t devices) {
  const PlanData& data = session->plan.data();
  const Program& program = data.programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  for (size_t i = 0; i < armed.outputs.size(); ++i) {
    uint32_t buffer = program.outputs[i].buffer;
    const Buffer& b = data.buffers[buffer];
    const BoundPort& bound = armed.outputs[i].bound;
    if (!bound.given || bound.direct || b.bytes == 0 || !Has(devices, b.device)) continue;
    SessionDevice& d = session->devices[b.device];
    // The place of the input that it took over, if that is not the session's memory.
    const DeviceAddress at = armed.outputs[i].at, from = at != 0 ? at : session->addresses[buffer];
    if (bound.memory == MemoryKind::kDevice && bound.address() == from) continue;
    Status status = bound.memory == MemoryKind::kDevice
                        ? d.device->Copy(bound.address(), from, b.bytes, d.streams[0])
                        : d.device->CopyOut(bound.data, from, b.bytes, d.streams[0]);
    if (!status.ok()) return status.At("device %u", b.device);
    session->loaded->counters[program_index]->output_bytes.fetch_add(b.bytes, std::memory_order_relaxed);
  }
  return Status::Ok();
}

// Before the launch, waits on the host for partitions of other devices that must be complete.
Status LaunchPartitions(SessionImpl* session, uint32_t program_index, const RunTimer* timer,
                        uint64_t devices) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  LaunchThreads& threads = session->runtime_impl->launch;
  bool launched = false;
  for (uint32_t i = 0; i < armed.partitions.size(); ++i) {
    const uint32_t device = program.partitions[i].device, first_step = program.partitions[i].first_step;
    if (!Has(devices, device)) continue;
    if (launched && session->stop.has_deadline()) {  // launched work cannot be stopped
      RONDO_RETURN_IF_ERROR(SynchronizeAll(session, program_index, uint64_t{1} << device));
    }
    Status status = session->stop.Asked() ? session->stop.status() : Status::Ok();
    if (!status.ok()) return AtStep(session, status, program_index, first_step);
    for (uint32_t need : armed.partitions[i].needs) {
      status = threads.Await(session, program.partitions[need].device, need);
      if (!status.ok()) return AtStep(session, status, program_index, first_step);
    }
    RONDO_RETURN_IF_ERROR(timer != nullptr ? LaunchTimed(*timer, i)
                                           : LaunchPartition(session, program_index, i));
    launched = true;
    if (!armed.partitions[i].awaited) continue;
    RONDO_RETURN_IF_ERROR(SynchronizeAll(session, program_index, uint64_t{1} << device));
    threads.Publish(session, device, i);
  }
  return Status::Ok();
}

Status Enqueue(SessionImpl* session, uint32_t program, const RunTimer* timer, uint64_t devices) {
  RONDO_RETURN_IF_ERROR(PlacePorts(session, program, devices));
  RONDO_RETURN_IF_ERROR(CopyInputs(session, program, devices));
  RONDO_RETURN_IF_ERROR(LaunchPartitions(session, program, timer, devices));
  return CopyOutputs(session, program, devices);
}

Status EnqueueStepwise(SessionImpl* session, uint32_t program, const RunOptions& options, bool* observer) {
  const uint64_t devices = session->programs[program].devices;
  RONDO_RETURN_IF_ERROR(PlacePorts(session, program, devices));
  RONDO_RETURN_IF_ERROR(CopyInputs(session, program, devices));
  RONDO_RETURN_IF_ERROR(SynchronizeAll(session, program, devices));
  RONDO_RETURN_IF_ERROR(ReplaySteps(session, program, options, observer));
  return CopyOutputs(session, program, devices);
}

// The run between the caller's checks and the result. Sets `observer` if the error comes from the caller's
// own code.
Status Execute(SessionImpl* session, uint32_t program, const RunOptions& options, bool* observer) {
  const ArmedProgram& armed = session->programs[program];
  RuntimeImpl* runtime = session->runtime_impl;
  if (armed.collectives != nullptr) {
    RONDO_RETURN_IF_ERROR(runtime->driver->BeginCollectives(armed.collectives));
  }
  const bool held = armed.on_launch_threads && options.stepwise;
  if (armed.on_launch_threads) RONDO_RETURN_IF_ERROR(runtime->gate.Enter(&session->stop));
  if (armed.on_launch_threads && !held) {
    Status ran = runtime->launch.Run(session, program, options.timer, armed.devices);
    runtime->gate.Leave();
    return ran;
  }
  Status status = held ? runtime->launch.BeginHold(session, armed.devices) : Status::Ok();
  if (!status.ok()) {
    runtime->gate.Leave();
    return status;
  }
  status = options.stepwise ? EnqueueStepwise(session, program, options, observer)
                            : Enqueue(session, program, options.timer, armed.devices);
  if (!status.ok()) AbortCollectives(session, program, status, true);
  Status waited = SynchronizeAll(session, program, armed.devices);
  if (held) {
    runtime->launch.EndHold(session);
    runtime->gate.Leave();
  }
  return status.ok() ? waited : status;
}

// Ends what a stopped run left in streams that Execute does not wait for, and decides whether its error is
// permanent.
Status EndStopped(SessionImpl* session, uint32_t program, bool begun, const Status& status) {
  for (SessionDevice& d : session->devices) {
    for (Stream* stream : d.streams) {
      uint32_t failed_step = kNone;
      Status ignored = d.device->Synchronize(stream, &failed_step);
    }
  }
  const ArmedProgram& armed = session->programs[program];
  bool torn = armed.uses_state;
  for (size_t i = 0; i < armed.inputs.size(); ++i) {
    torn |= armed.inputs[i].bound.given && session->plan.data().programs[program].inputs[i].is_state;
  }
  if (!begun || !torn) return status;
  return StickTo(session, status.At("a run was stopped and state may be half written; reset it to go on"));
}

// Executes a bound run, waits for it, and counts it.
Status RunBound(SessionImpl* session, uint32_t program, const RunOptions& options) {
  const uint64_t began = MonotonicNanoseconds();
  bool observer = false;
  const bool begins = !session->stop.Asked();
  Status status = begins ? Execute(session, program, options, &observer) : session->stop.status();
  // A lost device gets no further work.
  if (!session->abandoned()) session->stop.End();
  RunCounters& counters = *session->loaded->counters[program];
  counters.run_time.Add(MonotonicNanoseconds() - began);
  counters.runs.fetch_add(1, std::memory_order_relaxed);
  if (status.ok() || observer || status.code() == Code::kOutOfRange) return status;
  if (IsStop(status.code())) return EndStopped(session, program, begins, status);
  return StickTo(session, status);
}

// Checks everything that the caller can get wrong; after this the run begins. The session must be in use.
// Sets `to_run` to what runs for it.
Status Bind(SessionImpl* session, uint32_t* to_run, Span<const Input> inputs, Span<const Output> outputs,
            const RunOptions& options) {
  RONDO_RETURN_IF_ERROR(FindChosen(session, to_run));
  const uint32_t program = *to_run;
  if (options.timer != nullptr) {
    if (options.stepwise) {
      return Status::Error(Code::kInvalidArgument, "a stepwise run has no timer: its steps are waited for");
    }
    RONDO_RETURN_IF_ERROR(CheckTimer(*options.timer, session, program));
  }
  const bool own_graphs = options.timer != nullptr && TimesSteps(*options.timer);
  RONDO_RETURN_IF_ERROR(BindTensors(session, program, inputs, outputs, !options.stepwise && !own_graphs));
  session->stop.Begin(options.timeout_ns != 0 ? options.timeout_ns : session->run_timeout_ns);
  return Status::Ok();
}

// Counts and logs a failed Run or RunAsync; `stuck`: the session cannot be used again.
Status Counted(const SessionImpl* session, uint32_t program, bool stuck, Status status) {
  if (status.ok()) return status;
  RuntimeImpl* runtime = session->runtime_impl;
  RunCounters* counters = &runtime->metrics.unnamed;
  if (program < session->programs.size()) counters = session->loaded->counters[program];
  counters->CountError(status.code());
  runtime->log(stuck ? LogLevel::kError : LogLevel::kWarning, status.message());
  return status;
}

// Fills in the pending run of a session in use and hands the session to the queue, which releases it.
Status Accept(SessionUse* use, SessionImpl* session, uint32_t program, Span<const Input> inputs,
              Span<const Output> outputs, const Completion& completion, const RunOptions& options) {
  RONDO_RETURN_IF_ERROR(use->status());
  if (session->runtime_impl->queue.workers() == 0) {
    return Status::Error(Code::kFailedPrecondition,
                         "the runtime was made without asynchronous workers; set async_workers");
  }
  RONDO_RETURN_IF_ERROR(Bind(session, &program, inputs, outputs, options));
  session->pending.program = program;
  session->pending.options = options;
  session->pending.completion = completion;
  session->pending.enqueued_at = MonotonicNanoseconds();
  use->Release();
  session->runtime_impl->queue.Push(session);
  return Status::Ok();
}

}  // namespace

void AbortCollectives(SessionImpl* session, uint32_t program, const Status& why, bool wait) {
  Collectives* collectives = session->programs[program].collectives;
  if (collectives != nullptr) session->runtime_impl->driver->AbortCollectives(collectives, why, wait);
}

// Whether `device` has started all its collectives, so that no other device waits for it.
bool HasStartedAll(const SessionImpl* session, uint32_t program_index, uint32_t device) {
  const ArmedProgram& armed = session->programs[program_index];
  if (armed.collectives == nullptr) return true;
  CollectiveProgress at;
  return session->runtime_impl->driver->Progress(armed.collectives, device, &at).ok() &&
         StartOf(session->plan.data().programs[program_index], device, at.started) == kNone;
}

// Runs the program on one device. No other device waits for a device that has started all its collectives, so
// that an index out of range on it does not end the other devices' runs.
void RunOnDevice(SessionImpl* session, uint32_t device) {
  const uint32_t program = session->device_run.program;
  const RunTimer* timer = session->device_run.timer;
  const uint64_t devices = uint64_t{1} << device;
  LaunchThreads& threads = session->runtime_impl->launch;
  if (session->device_run.arm) {
    Status recorded = RecordOnDevice(session, program, device);
    if (!recorded.ok()) threads.Fail(session, recorded, true);
    return;
  }
  Status status = Enqueue(session, program, timer, devices);
  if (!status.ok()) threads.Fail(session, status, true);
  Status waited = SynchronizeAll(session, program, devices);
  if (status.ok() && !waited.ok()) {
    const bool harmless = waited.code() == Code::kOutOfRange && HasStartedAll(session, program, device);
    threads.Fail(session, waited, !harmless);
  }
}

Status RunHeld(SessionUse* use, SessionImpl* session, uint32_t program, Span<const Input> inputs,
               Span<const Output> outputs, const RunOptions& options) {
  Status status = use->status();
  if (status.ok()) status = Bind(session, &program, inputs, outputs, options);
  if (status.ok()) status = RunBound(session, program, options);
  return Counted(session, program, use->stuck(), status);
}

Status RunAsyncHeld(SessionUse* use, SessionImpl* session, uint32_t program, Span<const Input> inputs,
                    Span<const Output> outputs, const Completion& completion, const RunOptions& options) {
  Status status = Accept(use, session, program, inputs, outputs, completion, options);
  return status.ok() ? status : Counted(session, program, use->stuck(), status);
}

Status Session::Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                    const RunOptions& options) {
  SessionUse use(impl_);
  return RunHeld(&use, impl_, program, inputs, outputs, options);
}

Status Session::RunAsync(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                         const Completion& completion, const RunOptions& options) {
  SessionUse use(impl_);
  return RunAsyncHeld(&use, impl_, program, inputs, outputs, completion, options);
}

void Session::Cancel() {
  impl_->stop.Cancel();
  impl_->runtime_impl->launch.Wake(impl_);
}

Status Session::Wait() { return impl_->runtime_impl->queue.Wait(impl_); }

Status ExecutePending(SessionImpl* session) {
  const PendingRun& run = session->pending;
  session->loaded->counters[run.program]->queue_wait.Add(MonotonicNanoseconds() - run.enqueued_at);
  const uint32_t program = run.program;
  Status status = RunBound(session, program, run.options);
  return Counted(session, program, !session->stuck.ok(), status);
}

}  // namespace rondo
