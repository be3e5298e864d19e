// Session::Run: inputs in, partitions in order, wait, outputs out. Nothing here allocates unless it
// describes an error.
#include "runtime/metrics.h"
#include "runtime/session.h"
#include "runtime/session_impl.h"

namespace rondo {
namespace {

bool Has(uint64_t devices, size_t index) { return (devices >> index & 1) != 0; }

// Waits for the streams of `devices`. The first error names the program and step it came from; the others
// are waited for all the same, so that nothing is in flight when a run returns.
Status SynchronizeAll(SessionImpl* session, uint32_t program, uint64_t devices) {
  Status first;
  for (size_t i = 0; i < session->devices.size(); ++i) {
    if (!Has(devices, i)) continue;
    SessionDevice& d = session->devices[i];
    uint32_t failed_step = kNone;
    Status status = d.device->Synchronize(d.streams[0], &failed_step);
    if (!status.ok() && first.ok()) first = AtStep(session, status, program, failed_step);
  }
  return first;
}

Status CopyInputs(SessionImpl* session, uint32_t program_index) {
  const PlanData& data = session->plan.data();
  const Program& program = data.programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  uint64_t copied = 0;
  for (size_t i = 0; i < armed.inputs.size(); ++i) {
    uint32_t buffer = program.inputs[i].buffer;
    uint64_t bytes = data.buffers[buffer].bytes;
    if (!armed.inputs[i].given || bytes == 0) continue;
    SessionDevice& d = session->devices[data.buffers[buffer].device];
    RONDO_RETURN_IF_ERROR(
        d.device->CopyIn(session->addresses[buffer], armed.inputs[i].data, bytes, d.streams[0]));
    copied += bytes;
  }
  session->runtime_impl->metrics.input_bytes.fetch_add(copied, std::memory_order_relaxed);
  return Status::Ok();
}

Status CopyOutputs(SessionImpl* session, uint32_t program_index) {
  const PlanData& data = session->plan.data();
  const Program& program = data.programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  uint64_t copied = 0;
  for (size_t i = 0; i < armed.outputs.size(); ++i) {
    uint32_t buffer = program.outputs[i].buffer;
    uint64_t bytes = data.buffers[buffer].bytes;
    if (!armed.outputs[i].given || bytes == 0) continue;
    SessionDevice& d = session->devices[data.buffers[buffer].device];
    RONDO_RETURN_IF_ERROR(
        d.device->CopyOut(armed.outputs[i].data, session->addresses[buffer], bytes, d.streams[0]));
    copied += bytes;
  }
  session->runtime_impl->metrics.output_bytes.fetch_add(copied, std::memory_order_relaxed);
  return Status::Ok();
}

Status LaunchPartitions(SessionImpl* session, uint32_t program_index, const RunTimer* timer) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  for (size_t i = 0; i < armed.partitions.size(); ++i) {
    const ArmedPartition& partition = armed.partitions[i];
    if (partition.waits_for != 0) {
      RONDO_RETURN_IF_ERROR(SynchronizeAll(session, program_index, partition.waits_for));
    }
    SessionDevice& d = session->devices[program.partitions[i].device];
    Status status = timer != nullptr ? LaunchTimed(*timer, static_cast<uint32_t>(i))
                                     : d.device->LaunchGraph(partition.graph, d.streams[0]);
    if (!status.ok()) return AtStep(session, status, program_index, program.partitions[i].first_step);
  }
  return Status::Ok();
}

Status Observe(const RunOptions& options, uint32_t program, uint32_t step, StepPhase phase) {
  return options.on_step == nullptr ? Status::Ok() : options.on_step(options.user, program, step, phase);
}

// One step at a time, each waited for on its own stream. A collective cannot be waited for before the
// other devices have started theirs.
Status ReplaySteps(SessionImpl* session, uint32_t program_index, const RunOptions& options, bool* observer) {
  const Program& program = session->plan.data().programs[program_index];
  for (uint32_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    Status seen = Observe(options, program_index, i, StepPhase::kBefore);
    *observer = !seen.ok();
    RONDO_RETURN_IF_ERROR(seen);
    Status status = EnqueueStep(session, program_index, i);
    if (status.ok() && step.kind != StepKind::kCollectiveStart) {
      SessionDevice& d = session->devices[step.device];
      uint32_t failed_step = kNone;
      status = d.device->Synchronize(d.streams[step.stream], &failed_step);
    }
    if (!status.ok()) return AtStep(session, status, program_index, i);
    seen = Observe(options, program_index, i, StepPhase::kAfter);
    *observer = !seen.ok();
    RONDO_RETURN_IF_ERROR(seen);
  }
  return Status::Ok();
}

// Everything between the caller's checks and the result. `observer` tells that the error is the
// caller's own.
Status Execute(SessionImpl* session, uint32_t program, const RunOptions& options, bool* observer) {
  RONDO_RETURN_IF_ERROR(CopyInputs(session, program));
  uint64_t devices = session->programs[program].devices;
  if (options.stepwise) {
    RONDO_RETURN_IF_ERROR(SynchronizeAll(session, program, devices));
    RONDO_RETURN_IF_ERROR(ReplaySteps(session, program, options, observer));
  } else {
    RONDO_RETURN_IF_ERROR(LaunchPartitions(session, program, options.timer));
  }
  return CopyOutputs(session, program);
}

// A bound run: executed, waited for and counted.
Status RunBound(SessionImpl* session, uint32_t program, const RunOptions& options) {
  const uint64_t began = MonotonicNanoseconds();
  bool observer = false;
  Status status = Execute(session, program, options, &observer);
  Status waited = SynchronizeAll(session, program, session->programs[program].devices);
  if (status.ok()) status = waited;
  Metrics& metrics = session->runtime_impl->metrics;
  metrics.run_time.Add(MonotonicNanoseconds() - began);
  metrics.runs.fetch_add(1, std::memory_order_relaxed);
  if (status.ok() || observer || status.code() == Code::kOutOfRange) return status;
  return StickTo(session, status);
}

// Everything that the caller can get wrong. The session must be in use.
Status Bind(SessionImpl* session, uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
            const RunOptions& options) {
  if (program >= session->programs.size()) {
    return Status::Error(Code::kInvalidArgument, "program %u does not exist, the plan has %zu", program,
                         session->programs.size());
  }
  if (options.timer != nullptr) {
    if (options.stepwise) {
      return Status::Error(Code::kInvalidArgument, "a stepwise run has no timer: its steps are waited for");
    }
    RONDO_RETURN_IF_ERROR(CheckTimer(*options.timer, session, program));
  }
  RONDO_RETURN_IF_ERROR(BindInputs(session, program, inputs));
  return BindOutputs(session, program, outputs);
}

// Counts and logs a Run or RunAsync that failed; `stuck` tells that the session can be used no more.
Status Counted(RuntimeImpl* runtime, bool stuck, Status status) {
  if (status.ok()) return status;
  runtime->metrics.CountError(status.code());
  runtime->log(stuck ? LogLevel::kError : LogLevel::kWarning, status.message());
  return status;
}

// Fills in the pending run of a session in use and hands the session over to the queue, which frees it.
Status Enqueue(SessionUse* use, SessionImpl* session, uint32_t program, Span<const Input> inputs,
               Span<const Output> outputs, const Completion& completion, const RunOptions& options) {
  RONDO_RETURN_IF_ERROR(use->status());
  if (session->runtime_impl->queue.workers() == 0) {
    return Status::Error(Code::kFailedPrecondition,
                         "the runtime was made without asynchronous workers; set async_workers");
  }
  RONDO_RETURN_IF_ERROR(Bind(session, program, inputs, outputs, options));
  session->pending.program = program;
  session->pending.options = options;
  session->pending.completion = completion;
  session->pending.enqueued_at = MonotonicNanoseconds();
  use->Release();
  session->runtime_impl->queue.Push(session);
  return Status::Ok();
}

}  // namespace

Status Session::Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                    const RunOptions& options) {
  SessionUse use(impl_);
  Status status = use.status();
  if (status.ok()) status = Bind(impl_, program, inputs, outputs, options);
  if (status.ok()) status = RunBound(impl_, program, options);
  return Counted(impl_->runtime_impl, use.stuck(), status);
}

Status Session::RunAsync(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                         const Completion& completion, const RunOptions& options) {
  SessionImpl* session = impl_;  // once the run is in the queue, its completion may move this object
  SessionUse use(session);
  Status status = Enqueue(&use, session, program, inputs, outputs, completion, options);
  return status.ok() ? status : Counted(session->runtime_impl, use.stuck(), status);
}

void Session::Wait() { impl_->runtime_impl->queue.Wait(impl_); }

Status ExecutePending(SessionImpl* session) {
  const PendingRun& run = session->pending;
  session->runtime_impl->metrics.queue_wait.Add(MonotonicNanoseconds() - run.enqueued_at);
  Status status = RunBound(session, run.program, run.options);
  return Counted(session->runtime_impl, !session->stuck.ok(), status);
}

}  // namespace rondo
