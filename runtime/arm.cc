// Arming: every partition becomes a graph, once, before the first run.
#include "runtime/session_impl.h"

namespace rondo {
namespace {

Status ResolveAddresses(SessionImpl* session, const Program& program, ArmedProgram* armed) {
  armed->steps = session->memory.New<ArmedStep>(program.steps.size());
  if (armed->steps.data() == nullptr) return NoMemoryFor("steps");
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Span<const Binding> bindings = program.steps[i].bindings;
    Span<DeviceAddress> addresses = session->memory.New<DeviceAddress>(bindings.size());
    if (addresses.data() == nullptr) return NoMemoryFor("bindings");
    for (size_t b = 0; b < bindings.size(); ++b) {
      const uint32_t buffer = bindings[b].buffer;
      armed->uses_state |= buffer != kNone && session->plan.data().buffers[buffer].kind == BufferKind::kState;
      addresses[b] = buffer == kNone ? 0 : session->addresses[buffer] + bindings[b].offset;
    }
    armed->steps[i].addresses = addresses;
  }
  return Status::Ok();
}

Status MakeEvents(SessionImpl* session, const Program& program, ArmedProgram* armed) {
  armed->events = session->memory.New<Event*>(program.num_events);
  armed->recorded_by = session->memory.New<uint32_t>(program.num_events);
  if (armed->events.data() == nullptr || armed->recorded_by.data() == nullptr) return NoMemoryFor("events");
  for (uint32_t& step : armed->recorded_by) step = kNone;
  for (uint32_t i = 0; i < program.steps.size(); ++i) {
    uint32_t event = program.steps[i].records;
    if (event == kNone) continue;
    SessionDevice& d = session->devices[program.steps[i].device];
    armed->recorded_by[event] = i;
    if (armed->events[event] == nullptr && d.device != nullptr) {
      RONDO_ASSIGN_OR_RETURN(armed->events[event], d.device->CreateEvent());
    }
  }
  return Status::Ok();
}

// Finds the partitions of other devices that must be complete before partition `index`: those of the steps
// that its steps name. A device's partitions complete in order, so that the last one of each device is
// enough.
Status FindNeeds(SessionImpl* session, const Program& program, ArmedProgram* armed, uint32_t index) {
  const Partition& p = program.partitions[index];
  uint32_t last[kMaxDevices] = {};  // plus 1
  auto need = [&](uint32_t step) {
    const uint32_t device = program.steps[step].device;
    if (device == p.device) return;
    const uint32_t partition = PartitionOf(program, step);
    armed->partitions[partition].awaited = true;
    if (partition + 1 > last[device]) last[device] = partition + 1;
  };
  for (uint32_t i = p.first_step; i < p.first_step + p.num_steps; ++i) {
    for (uint32_t event : program.steps[i].waits) {
      if (armed->recorded_by[event] != kNone) need(armed->recorded_by[event]);
    }
    for (uint32_t earlier : program.steps[i].after) need(earlier);
  }
  size_t count = 0;
  for (uint32_t partition : last) count += partition != 0;
  if (count == 0) return Status::Ok();
  if (session->runtime_impl->driver->Info().processes > 1) {
    return Status::Error(Code::kUnsupported, "step %u needs another process's device but for a collective",
                         p.first_step);
  }
  Span<uint32_t> needs = session->memory.New<uint32_t>(count);
  if (needs.data() == nullptr) return NoMemoryFor("partitions");
  armed->partitions[index].needs = needs;
  for (uint32_t partition : last) {
    if (partition != 0) needs[--count] = partition - 1;
  }
  return Status::Ok();
}

// Makes `to` wait for everything enqueued on `from` so far.
Status Follow(SessionDevice* d, Stream* from, Stream* to) {
  if (from == to) return Status::Ok();
  RONDO_RETURN_IF_ERROR(d->device->Record(d->order, from));
  return d->device->Wait(d->order, to);
}

// Whether a step of `p` uses stream `stream`.
bool Uses(const Program& program, const Partition& p, uint32_t stream) {
  for (uint32_t i = p.first_step; i < p.first_step + p.num_steps; ++i) {
    if (program.steps[i].stream == stream) return true;
  }
  return false;
}

// Before a step, waits for the steps that it names in its own partition. Earlier partitions of its device are
// complete when this one is launched; waits for other devices happen outside of graphs.
Status EnqueueWaits(SessionImpl* session, uint32_t program_index, const Partition& p, uint32_t index) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  const Step& step = program.steps[index];
  SessionDevice& d = session->devices[step.device];
  for (uint32_t event : step.waits) {
    uint32_t by = armed.recorded_by[event];
    if (by == kNone || by < p.first_step || by >= index) continue;
    RONDO_RETURN_IF_ERROR(d.device->Wait(armed.events[event], d.streams[step.stream]));
  }
  for (uint32_t earlier : step.after) {
    if (earlier < p.first_step || earlier >= index) continue;
    RONDO_RETURN_IF_ERROR(Follow(&d, d.streams[program.steps[earlier].stream], d.streams[step.stream]));
  }
  return Status::Ok();
}

// Whether `p` is one step with a custom op that no graph may contain. The verifier has checked that such a
// step is alone.
bool IsUnsafe(const PlanData& data, const Program& program, const Partition& p) {
  const Step& step = program.steps[p.first_step];
  return step.kind == StepKind::kCustom && !data.custom_ops[step.custom].graph_safe;
}

Status EnqueuePartition(SessionImpl* session, uint32_t program_index, uint32_t partition) {
  const Partition& p = session->plan.data().programs[program_index].partitions[partition];
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  SessionDevice& d = session->devices[p.device];
  for (uint32_t s = 1; s < program.num_streams; ++s) {
    if (Uses(program, p, s)) RONDO_RETURN_IF_ERROR(Follow(&d, d.streams[0], d.streams[s]));
  }
  for (StepInRound at{p.first_step}; at.step < p.first_step + p.num_steps; at = Next(program, at)) {
    const uint32_t i = at.step;
    Status status = EnqueueWaits(session, program_index, p, i);
    if (status.ok()) status = EnqueueStep(session, program_index, i, at.round);
    uint32_t event = program.steps[i].records;
    if (status.ok() && event != kNone) {
      status = d.device->Record(armed.events[event], d.streams[program.steps[i].stream]);
    }
    if (!status.ok()) return AtStep(session, status, program_index, i);
  }
  for (uint32_t s = 1; s < program.num_streams; ++s) {
    if (Uses(program, p, s)) RONDO_RETURN_IF_ERROR(Follow(&d, d.streams[s], d.streams[0]));
  }
  return Status::Ok();
}

// A graph must hold the partition's steps in the plan's order: each once or, in a loop, once a round. The
// driver does not know the step number of a copy, so that only its kind is compared.
Status CompareOrder(SessionImpl* session, uint32_t program_index, const Partition& p,
                    Span<const GraphNode> nodes) {
  const Program& program = session->plan.data().programs[program_index];
  const uint32_t count = NodeOf(program, p, p.first_step + p.num_steps);
  StepInRound at{p.first_step};
  for (uint32_t i = 0; i < count && i < nodes.size(); ++i, at = Next(program, at)) {
    uint32_t index = at.step;
    StepKind kind = program.steps[index].kind;
    if (nodes[i].kind == kind && (kind == StepKind::kCopy || nodes[i].step == index)) continue;
    return AtStep(
        session,
        Status::Error(Code::kInternal,
                      "the recorded order differs: node %u is step %u (%s), in the plan this one (%s)", i,
                      nodes[i].step, Name(nodes[i].kind), Name(kind)),
        program_index, index);
  }
  if (nodes.size() == count) return Status::Ok();
  uint32_t index = at.step;
  if (index >= program.steps.size()) index = static_cast<uint32_t>(program.steps.size()) - 1;
  return AtStep(session,
                Status::Error(Code::kInternal, "the recorded order differs: %zu nodes for %u steps",
                              nodes.size(), count),
                program_index, index);
}

Status RecordPartition(SessionImpl* session, uint32_t program_index, uint32_t partition_index) {
  const Partition& p = session->plan.data().programs[program_index].partitions[partition_index];
  ArmedPartition& armed = session->programs[program_index].partitions[partition_index];
  SessionDevice& d = session->devices[p.device];
  const PlanData& data = session->plan.data();
  if (d.device == nullptr || IsUnsafe(data, data.programs[program_index], p)) return Status::Ok();
  if (session->stop.Asked()) return session->stop.status();
  RONDO_RETURN_IF_ERROR(d.device->BeginRecord(d.streams[0]));
  Status status = EnqueuePartition(session, program_index, partition_index);
  Result<Graph*> graph = d.device->EndRecord(d.streams[0]);
  if (graph.ok()) armed.graph = *graph;
  RONDO_RETURN_IF_ERROR(status);
  if (!graph.ok()) return graph.status();
  return CompareOrder(session, program_index, p, d.device->Nodes(armed.graph));
}

Status StartLaunchThreads(RuntimeImpl* runtime, uint64_t devices) {
  std::lock_guard<std::mutex> lock(runtime->mutex);
  return runtime->launch.Start(runtime->threads, devices);
}

Status RecordAll(SessionImpl* session, uint32_t program_index) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  RuntimeImpl* runtime = session->runtime_impl;
  if (armed.on_launch_threads && armed.collectives != nullptr && runtime->driver->Info().records_together) {
    RONDO_RETURN_IF_ERROR(StartLaunchThreads(runtime, armed.devices));
    return runtime->launch.Arm(session, program_index, armed.devices);
  }
  for (uint32_t i = 0; i < program.partitions.size(); ++i) {
    Status status = RecordPartition(session, program_index, i);
    if (!status.ok()) return status.At("arming partition %u", i);
  }
  return Status::Ok();
}

Status ArmProgram(SessionImpl* session, uint32_t program_index) {
  const Program& program = session->plan.data().programs[program_index];
  ArmedProgram* armed = &session->programs[program_index];
  armed->runs = program_index;
  RONDO_RETURN_IF_ERROR(ResolveAddresses(session, program, armed));
  RONDO_RETURN_IF_ERROR(MakeEvents(session, program, armed));
  armed->partitions = session->memory.New<ArmedPartition>(program.partitions.size());
  armed->inputs = session->memory.New<ArmedPort>(program.inputs.size());
  armed->outputs = session->memory.New<ArmedPort>(program.outputs.size());
  if (armed->partitions.data() == nullptr || armed->inputs.data() == nullptr ||
      armed->outputs.data() == nullptr) {
    armed->partitions = {};
    return NoMemoryFor("partitions and ports");
  }
  if (!program.sync_points.empty()) {
    RuntimeImpl* runtime = session->runtime_impl;
    RONDO_ASSIGN_OR_RETURN(
        armed->collectives,
        runtime->driver->CreateCollectives(program, {runtime->driver_device, session->devices.size()}));
  }
  for (uint32_t i = 0; i < program.partitions.size(); ++i) {
    RONDO_RETURN_IF_ERROR(FindNeeds(session, program, armed, i));
    armed->devices |= uint64_t{1} << program.partitions[i].device;
  }
  armed->on_launch_threads = (armed->devices & (armed->devices - 1)) != 0;
  armed->devices &= session->runtime_impl->local;
  RONDO_RETURN_IF_ERROR(RecordAll(session, program_index));
  RONDO_RETURN_IF_ERROR(FindPortSteps(session, program_index));
  Span<const Buffer> buffers = session->plan.data().buffers;
  for (const Port& port : program.inputs) {
    armed->devices |= uint64_t{1} << buffers[port.buffer].device;
    for (uint32_t replica : port.replicas) armed->devices |= uint64_t{1} << buffers[replica].device;
  }
  for (const Port& port : program.outputs) armed->devices |= uint64_t{1} << buffers[port.buffer].device;
  armed->devices &= session->runtime_impl->local;
  if (!armed->on_launch_threads) return Status::Ok();
  return StartLaunchThreads(session->runtime_impl, armed->devices);
}

// The part of the device of step `index` in the step's sync point.
CollectivePart PartOf(const SessionImpl* session, uint32_t program_index, uint32_t index) {
  const Program& program = session->plan.data().programs[program_index];
  const Step& step = program.steps[index];
  CollectivePart part;
  part.collectives = session->programs[program_index].collectives;
  part.point = &program.sync_points[step.sync_point];
  part.sync_point = step.sync_point;
  while (part.rank < part.point->participants.size() && part.point->participants[part.rank] != step.device)
    ++part.rank;
  part.step = index;
  return part;
}

}  // namespace

uint32_t PartitionOf(const Program& program, uint32_t step) {
  uint32_t p = 0;
  while (step >= program.partitions[p].first_step + program.partitions[p].num_steps) ++p;
  return p;
}

uint32_t NodeOf(const Program& program, const Partition& p, uint32_t step) {
  uint32_t node = step - p.first_step;
  for (const Loop& loop : program.loops) {
    if (loop.first_step >= p.first_step && loop.end() <= step) node += loop.num_steps * (loop.trips - 1);
  }
  return node;
}

Status AtStep(const SessionImpl* session, const Status& error, uint32_t program_index, uint32_t step) {
  if (error.ok()) return error;
  const Program& program = session->plan.data().programs[program_index];
  const int name_size = static_cast<int>(program.name.size());
  if (step >= program.steps.size()) return error.At("program \"%.*s\"", name_size, program.name.data());
  const Step& at = program.steps[step];
  Status status = error;
  if (at.sync_point != kNone) {
    status = error.At("device %u, sync point %u", at.device, at.sync_point);
  } else if (session->devices.size() > 1) {
    status = error.At("device %u", at.device);
  }
  std::string_view source = session->plan.StepSource(program_index, step);
  if (source.empty()) {
    return status.At("program \"%.*s\", step %u (no source node)", name_size, program.name.data(), step);
  }
  return status
      .At("program \"%.*s\", step %u (%.*s)", name_size, program.name.data(), step,
          static_cast<int>(source.size()), source.data())
      .FromNode(source);
}

Status EnqueueStep(SessionImpl* session, uint32_t program_index, uint32_t index, uint32_t round) {
  const Program& program = session->plan.data().programs[program_index];
  const Step& step = program.steps[index];
  SessionDevice& d = session->devices[step.device];
  Stream* stream = d.streams[step.stream];
  Span<DeviceAddress> addresses = session->programs[program_index].steps[index].addresses;
  for (size_t b = 0; b < addresses.size(); ++b) {
    const Binding& binding = step.bindings[b];
    if (binding.stride == 0) continue;
    addresses[b] = session->addresses[binding.buffer] + binding.offset +
                   static_cast<uint64_t>(binding.stride * int64_t{round});
  }
  switch (step.kind) {
    case StepKind::kLaunch:
      return d.device->Launch(d.module, step.kernel, {addresses.data(), addresses.size()}, stream, index);
    case StepKind::kCopy: return d.device->Copy(addresses[1], addresses[0], step.bytes, stream);
    case StepKind::kCollectiveStart:
      return d.device->StartCollective(PartOf(session, program_index, index), addresses[0], addresses[1],
                                       stream);
    case StepKind::kCollectiveWait:
      return d.device->WaitCollective(PartOf(session, program_index, index), stream);
    case StepKind::kCustom:
      return d.device->Call(d.module, step.custom, {addresses.data(), addresses.size()}, stream, index);
  }
  return Status::Error(Code::kCorrupt, "step kind %d is unknown", static_cast<int>(step.kind));
}

Status LaunchPartition(SessionImpl* session, uint32_t program_index, uint32_t partition_index) {
  Graph* graph = session->programs[program_index].partitions[partition_index].graph;
  if (graph == nullptr) return EnqueuePartition(session, program_index, partition_index);
  const Partition& p = session->plan.data().programs[program_index].partitions[partition_index];
  SessionDevice& d = session->devices[p.device];
  return AtStep(session, d.device->LaunchGraph(graph, d.streams[0]), program_index, p.first_step);
}

Status Arm(SessionImpl* session) {
  const Quiet quiet(session->runtime_impl);
  for (uint32_t p = 0; p < CountPrograms(session->plan.data()); ++p)
    RONDO_RETURN_IF_ERROR(ArmProgram(session, session->programs[p].runs));
  return Status::Ok();
}

Status RecordOnDevice(SessionImpl* session, uint32_t program_index, uint32_t device) {
  const Program& program = session->plan.data().programs[program_index];
  for (uint32_t i = 0; i < program.partitions.size(); ++i) {
    if (program.partitions[i].device != device) continue;
    Status status = RecordPartition(session, program_index, i);
    if (!status.ok()) return status.At("arming partition %u", i);
  }
  return Status::Ok();
}

void Disarm(SessionImpl* session) {
  for (uint32_t i = 0; i < session->programs.size(); ++i) {
    const Program& program = session->plan.data().programs[i];
    ArmedProgram& armed = session->programs[i];
    for (uint32_t p = 0; p < armed.partitions.size(); ++p) {
      if (armed.partitions[p].graph == nullptr) continue;
      session->devices[program.partitions[p].device].device->DestroyGraph(armed.partitions[p].graph);
    }
    for (uint32_t e = 0; e < armed.events.size(); ++e) {
      if (armed.events[e] == nullptr) continue;
      uint32_t device = program.steps[armed.recorded_by[e]].device;
      session->devices[device].device->DestroyEvent(armed.events[e]);
    }
    if (armed.collectives != nullptr) session->runtime_impl->driver->DestroyCollectives(armed.collectives);
  }
}

}  // namespace rondo
