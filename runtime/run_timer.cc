#include "runtime/run_timer.h"

#include <new>

#include "runtime/session_impl.h"

namespace rondo {

// The events of one partition: one more than its intervals.
struct TimedPartition {
  Span<Event*> events;
  Graph* graph = nullptr;  // kSteps only
};

struct RunTimerImpl {
  explicit RunTimerImpl(SessionImpl* s) : session(s), memory(s->allocator) {}
  ~RunTimerImpl();

  static RunTimerImpl* Of(const RunTimer& timer) { return timer.impl_; }
  Status Prepare();
  Status RecordSteps(uint32_t index);
  Status EnqueueAfter(const Step& step, StepInRound at);
  Span<const Partition> partitions() const { return session->plan.data().programs[program].partitions; }
  SessionDevice& DeviceOf(const Partition& p) const { return session->devices[p.device]; }
  Event* FirstOf(uint32_t device) const;

  SessionImpl* session;
  Arena memory;
  uint32_t program = 0;
  TimerDetail detail = TimerDetail::kPartitions;
  Span<TimedPartition> timed;
};

RunTimerImpl::~RunTimerImpl() {
  if (session->abandoned()) return;  // a device was lost
  for (uint32_t p = 0; p < timed.size(); ++p) {
    Device* device = DeviceOf(partitions()[p]).device;
    if (timed[p].graph != nullptr) device->DestroyGraph(timed[p].graph);
    for (Event* event : timed[p].events) {
      if (event != nullptr) device->DestroyEvent(event);
    }
  }
}

Status RunTimerImpl::Prepare() {
  timed = memory.New<TimedPartition>(partitions().size());
  if (timed.data() == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for a timer");
  for (uint32_t p = 0; p < timed.size(); ++p) {
    const Partition& partition = partitions()[p];
    if (DeviceOf(partition).device == nullptr) continue;
    const Program& of = session->plan.data().programs[program];
    const uint32_t nodes = NodeOf(of, partition, partition.first_step + partition.num_steps);
    timed[p].events = memory.New<Event*>(detail == TimerDetail::kSteps ? nodes + 1 : 2);
    if (timed[p].events.data() == nullptr) {
      return Status::Error(Code::kOutOfMemory, "no host memory for a timer's events");
    }
    for (Event*& event : timed[p].events) {
      RONDO_ASSIGN_OR_RETURN(event, DeviceOf(partition).device->CreateTimedEvent());
    }
    if (detail == TimerDetail::kSteps) RONDO_RETURN_IF_ERROR(RecordSteps(p));
  }
  return Status::Ok();
}

// Enqueues a step after the earlier work of its stream 0 and before the later work.
Status RunTimerImpl::EnqueueAfter(const Step& step, StepInRound at) {
  SessionDevice& d = session->devices[step.device];
  if (step.stream == 0) return EnqueueStep(session, program, at.step, at.round);
  RONDO_RETURN_IF_ERROR(d.device->Record(d.order, d.streams[0]));
  RONDO_RETURN_IF_ERROR(d.device->Wait(d.order, d.streams[step.stream]));
  RONDO_RETURN_IF_ERROR(EnqueueStep(session, program, at.step, at.round));
  RONDO_RETURN_IF_ERROR(d.device->Record(d.order, d.streams[step.stream]));
  return d.device->Wait(d.order, d.streams[0]);
}

Status RunTimerImpl::RecordSteps(uint32_t index) {
  const Partition& p = partitions()[index];
  SessionDevice& d = DeviceOf(p);
  // A step that no graph may contain is timed as a partition of its own.
  if (session->programs[program].partitions[index].graph == nullptr) return Status::Ok();
  RONDO_RETURN_IF_ERROR(d.device->BeginRecord(d.streams[0]));
  Status status = d.device->Record(timed[index].events[0], d.streams[0]);
  const Program& of = session->plan.data().programs[program];
  uint32_t node = 0;
  for (StepInRound at{p.first_step}; at.step < p.first_step + p.num_steps && status.ok(); at = Next(of, at)) {
    status = EnqueueAfter(of.steps[at.step], at);
    if (status.ok()) status = d.device->Record(timed[index].events[++node], d.streams[0]);
    if (!status.ok()) status = AtStep(session, status, program, at.step);
  }
  Result<Graph*> graph = d.device->EndRecord(d.streams[0]);
  if (graph.ok()) timed[index].graph = *graph;
  return status.ok() ? graph.status() : status;
}

Event* RunTimerImpl::FirstOf(uint32_t device) const {
  for (uint32_t p = 0; p < timed.size(); ++p) {
    if (partitions()[p].device == device) return timed[p].events[0];
  }
  return nullptr;
}

RunTimer::~RunTimer() { delete impl_; }

Result<RunTimer> RunTimer::Create(const Session& session, uint32_t program, TimerDetail detail) {
  SessionImpl* of = ImplOf(session);
  RONDO_RETURN_IF_ERROR(FindChosen(of, &program));
  SessionUse use(of);
  RONDO_RETURN_IF_ERROR(use.status());
  RunTimer timer(new (std::nothrow) RunTimerImpl(of));
  if (timer.impl_ == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for a timer");
  timer.impl_->program = program;
  timer.impl_->detail = detail;
  if (detail == TimerDetail::kSteps) {  // its graphs use the session's memory
    ForgetTensors(of, program);
    RONDO_RETURN_IF_ERROR(PlacePorts(of, program, of->programs[program].devices));
  }
  RONDO_RETURN_IF_ERROR(timer.impl_->Prepare());
  return timer;
}

uint32_t RunTimer::size() const {
  if (impl_->detail == TimerDetail::kPartitions) return static_cast<uint32_t>(impl_->timed.size());
  return static_cast<uint32_t>(impl_->session->plan.data().programs[impl_->program].steps.size());
}

Result<TimedInterval> RunTimer::Read(uint32_t i) const {
  const bool steps = impl_->detail == TimerDetail::kSteps;
  for (uint32_t p = 0; p < impl_->timed.size(); ++p) {
    const Partition& partition = impl_->partitions()[p];
    if (steps ? i < partition.first_step || i >= partition.first_step + partition.num_steps : i != p)
      continue;
    const Program& of = impl_->session->plan.data().programs[impl_->program];
    const Loop* loop = steps ? LoopOf(of, i) : nullptr;
    uint32_t step = loop == nullptr ? i : loop->first_step;
    const uint32_t first = steps ? NodeOf(of, partition, step) : 0,
                   rounds = loop == nullptr ? 1 : loop->trips;
    Span<Event*> events = impl_->timed[p].events;
    Device* device = impl_->DeviceOf(partition).device;
    TimedInterval interval{i, partition.device};
    if (device == nullptr) return interval;
    RONDO_ASSIGN_OR_RETURN(interval.begin,
                           device->ElapsedMicroseconds(impl_->FirstOf(partition.device), events[first]));
    for (;; ++step, interval.begin += interval.duration, interval.duration = 0) {
      for (uint32_t round = 0; round < rounds; ++round) {
        Event** event =
            &events[first + (loop == nullptr ? 0 : step - loop->first_step + round * loop->num_steps)];
        RONDO_ASSIGN_OR_RETURN(double elapsed, device->ElapsedMicroseconds(event[0], event[1]));
        interval.duration += elapsed;
      }
      if (step == i) return interval;
    }
  }
  return Status::Error(Code::kInvalidArgument, "interval %u does not exist, the timer has %u", i, size());
}

Status CheckTimer(const RunTimer& timer, const SessionImpl* session, uint32_t program) {
  const RunTimerImpl* impl = RunTimerImpl::Of(timer);
  if (impl != nullptr && impl->session == session && impl->program == program) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "the timer was made for another session or program");
}

bool TimesSteps(const RunTimer& timer) { return RunTimerImpl::Of(timer)->detail == TimerDetail::kSteps; }

Status LaunchTimed(const RunTimer& timer, uint32_t partition) {
  const RunTimerImpl& impl = *RunTimerImpl::Of(timer);
  SessionDevice& d = impl.DeviceOf(impl.partitions()[partition]);
  const TimedPartition& timed = impl.timed[partition];
  if (timed.graph != nullptr) {
    return AtStep(impl.session, d.device->LaunchGraph(timed.graph, d.streams[0]), impl.program,
                  impl.partitions()[partition].first_step);
  }
  RONDO_RETURN_IF_ERROR(d.device->Record(timed.events[0], d.streams[0]));
  RONDO_RETURN_IF_ERROR(LaunchPartition(impl.session, impl.program, partition));
  return d.device->Record(timed.events[1], d.streams[0]);
}

}  // namespace rondo
