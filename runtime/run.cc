// Session::Run: inputs in, partitions in order, wait, outputs out. Nothing here allocates unless it
// describes an error.
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
  for (size_t i = 0; i < armed.inputs.size(); ++i) {
    const Input* input = armed.inputs[i];
    if (input == nullptr || input->bytes == 0) continue;
    uint32_t buffer = program.inputs[i].buffer;
    SessionDevice& d = session->devices[data.buffers[buffer].device];
    RONDO_RETURN_IF_ERROR(
        d.device->CopyIn(session->addresses[buffer], input->data, input->bytes, d.streams[0]));
  }
  return Status::Ok();
}

Status CopyOutputs(SessionImpl* session, uint32_t program_index) {
  const PlanData& data = session->plan.data();
  const Program& program = data.programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  for (size_t i = 0; i < armed.outputs.size(); ++i) {
    const Output* output = armed.outputs[i];
    if (output == nullptr || output->bytes == 0) continue;
    uint32_t buffer = program.outputs[i].buffer;
    SessionDevice& d = session->devices[data.buffers[buffer].device];
    RONDO_RETURN_IF_ERROR(
        d.device->CopyOut(output->data, session->addresses[buffer], output->bytes, d.streams[0]));
  }
  return Status::Ok();
}

Status LaunchPartitions(SessionImpl* session, uint32_t program_index) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  for (size_t i = 0; i < armed.partitions.size(); ++i) {
    const ArmedPartition& partition = armed.partitions[i];
    if (partition.waits_for != 0) {
      RONDO_RETURN_IF_ERROR(SynchronizeAll(session, program_index, partition.waits_for));
    }
    SessionDevice& d = session->devices[program.partitions[i].device];
    Status status = d.device->LaunchGraph(partition.graph, d.streams[0]);
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
    RONDO_RETURN_IF_ERROR(LaunchPartitions(session, program));
  }
  return CopyOutputs(session, program);
}

}  // namespace

Status Session::Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                    const RunOptions& options) {
  SessionUse use(impl_);
  RONDO_RETURN_IF_ERROR(use.status());
  if (program >= impl_->programs.size()) {
    return Status::Error(Code::kInvalidArgument, "program %u does not exist, the plan has %zu", program,
                         impl_->programs.size());
  }
  RONDO_RETURN_IF_ERROR(BindInputs(impl_, program, inputs));
  RONDO_RETURN_IF_ERROR(BindOutputs(impl_, program, outputs));
  bool observer = false;
  Status status = Execute(impl_, program, options, &observer);
  Status waited = SynchronizeAll(impl_, program, impl_->programs[program].devices);
  if (status.ok()) status = waited;
  if (status.ok() || observer || status.code() == Code::kOutOfRange) return status;
  return use.Stick(status);
}

}  // namespace rondo
