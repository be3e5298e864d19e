// Runs step by step, without graphs, for verification and traces: each step is complete before the next one
// of its device begins. Allocates memory only to describe an error.
#include "runtime/session_impl.h"

namespace rondo {
namespace {

Status Observe(const RunOptions& options, uint32_t program, uint32_t step, StepPhase phase) {
  return options.on_step == nullptr ? Status::Ok() : options.on_step(options.user, program, step, phase);
}

Status OneStep(SessionImpl* session, uint32_t program, StepInRound at, const RunOptions& options,
               bool* observer) {
  const uint32_t index = at.step;
  const Step& step = session->plan.data().programs[program].steps[index];
  Status seen = Observe(options, program, index, StepPhase::kBefore);
  *observer = !seen.ok();
  RONDO_RETURN_IF_ERROR(seen);
  Status status =
      session->stop.Asked() ? session->stop.status() : EnqueueStep(session, program, index, at.round);
  if (status.ok()) {
    SessionDevice& d = session->devices[step.device];
    uint32_t failed_step = kNone;
    status = d.device->Synchronize(d.streams[step.stream], &failed_step);
  }
  if (!status.ok()) return AtStep(session, status, program, index);
  seen = Observe(options, program, index, StepPhase::kAfter);
  *observer = !seen.ok();
  return seen;
}

// Whether all steps of other devices that step `index` waits for are done. The wait of a collective needs its
// start on every rank.
bool IsReady(const SessionImpl* session, uint32_t program_index, uint32_t index) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  const Step& step = program.steps[index];
  auto done = [&](uint32_t other) {
    return other == kNone || other < session->devices[program.steps[other].device].next_step;
  };
  for (uint32_t event : step.waits) {
    if (!done(armed.recorded_by[event])) return false;
  }
  for (uint32_t earlier : step.after) {
    if (!done(earlier)) return false;
  }
  if (step.kind != StepKind::kCollectiveWait) return true;
  for (uint32_t rank : program.sync_points[step.sync_point].participants) {
    const SessionDevice& d = session->devices[rank];
    if (d.device != nullptr && d.started <= step.sync_point) return false;
  }
  return true;
}

// The next step of `device`, from its next_step on; the number of steps if there is none.
uint32_t NextStep(const SessionImpl* session, const Program& program, uint32_t device) {
  uint32_t step = session->devices[device].next_step;
  while (step < program.steps.size() && program.steps[step].device != device) ++step;
  return step;
}

}  // namespace

// Each device continues until it must wait for another one; then it is the next device's turn.
Status ReplaySteps(SessionImpl* session, uint32_t program_index, const RunOptions& options, bool* observer) {
  const Program& program = session->plan.data().programs[program_index];
  for (SessionDevice& d : session->devices) d.next_step = d.started = 0;
  uint32_t waiting = 0;  // a step that waits, plus 1
  for (bool moved = true; moved;) {
    moved = false;
    waiting = 0;
    for (uint32_t device = 0; device < session->devices.size(); ++device) {
      SessionDevice& d = session->devices[device];
      if (d.device == nullptr) continue;
      for (uint32_t next; (next = NextStep(session, program, device)) < program.steps.size();) {
        if (!IsReady(session, program_index, next)) {
          waiting = next + 1;
          break;
        }
        // A loop waits for no other device, so that one turn of this device runs all rounds.
        const Loop* loop = LoopOf(program, next);
        const uint32_t end = loop == nullptr ? next + 1 : loop->end();
        for (StepInRound at{next}; at.step < end; at = Next(program, at)) {
          RONDO_RETURN_IF_ERROR(OneStep(session, program_index, at, options, observer));
        }
        d.next_step = end;
        if (program.steps[next].kind == StepKind::kCollectiveStart) {
          d.started = program.steps[next].sync_point + 1;
        }
        moved = true;
      }
    }
  }
  if (waiting == 0) return Status::Ok();
  return AtStep(session, Status::Error(Code::kCorrupt, "waits for what no device will do"), program_index,
                waiting - 1);
}

}  // namespace rondo
