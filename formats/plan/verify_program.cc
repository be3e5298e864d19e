#include <cinttypes>

#include "core/collective.h"
#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

// Verifies one program. All its messages begin with the program's name.
class ProgramVerifier {
 public:
  ProgramVerifier(const PlanData& plan, uint32_t index, const KernelRanges& ranges, Span<bool> named,
                  Arena& scratch)
      : plan_(plan),
        program_(plan.programs[index]),
        index_(index),
        ranges_(ranges),
        named_(named),
        scratch_(scratch) {}

  Status Run() {
    const int name = static_cast<int>(program_.name.size());
    RONDO_RETURN_IF_ERROR(Whole().At("program \"%.*s\"", name, program_.name.data()));
    RONDO_RETURN_IF_ERROR(Loops().At("program \"%.*s\"", name, program_.name.data()));
    for (uint32_t s = 0; s < program_.steps.size(); ++s) {
      if (Status status = OneStep(s); !status.ok()) return AtStep(status, plan_, program_, s);
    }
    RONDO_RETURN_IF_ERROR(Events());
    RONDO_RETURN_IF_ERROR(Partitions().At("program \"%.*s\"", name, program_.name.data()));
    return VerifyCollectives(plan_, program_, scratch_).At("program \"%.*s\"", name, program_.name.data());
  }

 private:
  Status Whole();
  Status Ports(Span<const Port> ports, bool inputs);
  Status Replicas(const Port& port);
  Status SyncPoints();
  Status OneSyncPoint(uint32_t index);
  Status Loops();
  Status LoopStep(const Step& step, const Loop& loop);
  Status OneStep(uint32_t index);
  Status Launch(const Step& step);
  Status Copy(const Step& step);
  Status Collective(const Step& step);
  Status Custom(const Step& step);
  Status Bound(const Step& step, size_t slot, const ByteRange& range);
  bool ShareBytes(const Step& step, uint16_t a, uint16_t b) const;
  Status Events();
  Status Partitions();

  const PlanData& plan_;
  const Program& program_;
  const uint32_t index_;
  const KernelRanges& ranges_;
  Span<bool> named_;
  Arena& scratch_;
  uint32_t last_round_ = 0;  // of the current step
};

Status ProgramVerifier::Whole() {
  uint64_t arena = 0;
  for (const DeviceBytes& device : plan_.requirements.devices)
    arena = device.arena > arena ? device.arena : arena;
  if (program_.arena_bytes > arena) {
    return RONDO_BROKEN("its arena of %" PRIu64 " bytes is more than any device's %" PRIu64,
                        program_.arena_bytes, arena);
  }
  if (program_.arena_lower_bound > program_.arena_bytes) {
    return RONDO_BROKEN("its arena's lower bound of %" PRIu64 " bytes exceeds its %" PRIu64,
                        program_.arena_lower_bound, program_.arena_bytes);
  }
  if (program_.num_streams < 1 || program_.num_streams > kMaxStreams) {
    return RONDO_BROKEN("%u streams, which must be 1 to %u", program_.num_streams, kMaxStreams);
  }
  if (program_.steps.size() > (size_t{1} << 28))
    return RONDO_BROKEN("%zu steps are too many", program_.steps.size());
  if (program_.num_events > kMaxEvents || program_.num_events > program_.steps.size()) {
    return RONDO_BROKEN("%u events for %zu steps", program_.num_events, program_.steps.size());
  }
  RONDO_RETURN_IF_ERROR(Ports(program_.inputs, true));
  RONDO_RETURN_IF_ERROR(Ports(program_.outputs, false));
  return SyncPoints();
}

Status ProgramVerifier::Ports(Span<const Port> ports, bool inputs) {
  const char* what = inputs ? "input" : "output";
  Span<std::string_view> names = scratch_.New<std::string_view>(ports.size());
  if (names.data() == nullptr) return OutOfMemory("the ports");
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    names[i] = port.name;
    if (port.buffer >= plan_.buffers.size()) {
      return RONDO_BROKEN("%s %zu is buffer %u of %zu", what, i, port.buffer, plan_.buffers.size());
    }
    const Buffer& buffer = plan_.buffers[port.buffer];
    const bool fits = port.is_state ? buffer.kind == BufferKind::kState
                      : inputs      ? IsInput(buffer.kind)
                                    : IsOutput(buffer.kind);
    if (!fits || (!port.is_state && buffer.program != index_)) {
      return RONDO_BROKEN("%s %zu \"%.*s\" is buffer %u, which is %s of program %u, not its %s", what, i,
                          static_cast<int>(port.name.size()), port.name.data(), port.buffer,
                          Name(buffer.kind), buffer.program, port.is_state ? "state" : what);
    }
    if (inputs && !port.is_state && named_[port.buffer]) {
      return RONDO_BROKEN("buffer %u is two of its inputs", port.buffer);
    }
    named_[port.buffer] = true;
    RONDO_RETURN_IF_ERROR(
        Replicas(port).At("%s %zu \"%.*s\"", what, i, static_cast<int>(port.name.size()), port.name.data()));
  }
  return VerifyNames(names, inputs ? "inputs" : "outputs", scratch_);
}

// Checks the copies of an input on other devices: the same tensor, in a separate buffer.
Status ProgramVerifier::Replicas(const Port& port) {
  const Buffer& first = plan_.buffers[port.buffer];
  uint32_t device = first.device;
  for (uint32_t replica : port.replicas) {
    if (replica >= plan_.buffers.size()) {
      return RONDO_BROKEN("replica buffer %u of %zu", replica, plan_.buffers.size());
    }
    const Buffer& buffer = plan_.buffers[replica];
    if (first.kind != BufferKind::kInput || buffer.kind != BufferKind::kInput || buffer.program != index_) {
      return RONDO_BROKEN("replica buffer %u is %s of program %u, but only inputs are replicated", replica,
                          Name(buffer.kind), buffer.program);
    }
    if (buffer.dtype != first.dtype || buffer.shape != first.shape || buffer.bytes != first.bytes) {
      return RONDO_BROKEN("replica buffer %u has not the dtype and shape of buffer %u", replica, port.buffer);
    }
    if (buffer.device <= device) {
      return RONDO_BROKEN("replica buffer %u is of device %u: devices must ascend from %u on", replica,
                          buffer.device, device);
    }
    if (named_[replica]) return RONDO_BROKEN("buffer %u is two of the program's inputs", replica);
    named_[replica] = true;
    device = buffer.device;
  }
  return Status::Ok();
}

Status ProgramVerifier::OneSyncPoint(uint32_t index) {
  const SyncPoint& point = program_.sync_points[index];
  const size_t devices = plan_.requirements.devices.size();
  if (point.op > kLastCollectiveOp) return RONDO_BROKEN("op %d is unknown", static_cast<int>(point.op));
  if (static_cast<int>(point.dtype) >= kNumDTypes)
    return RONDO_BROKEN("dtype %d is unknown", static_cast<int>(point.dtype));
  if (point.bytes == 0 || point.bytes > kMaxRegionBytes || point.bytes % ByteSize(point.dtype) != 0) {
    return RONDO_BROKEN("%" PRIu64 " bytes are not a count of %s", point.bytes, Name(point.dtype));
  }
  if (point.source != kNone && point.source >= plan_.sources.size()) {
    return RONDO_BROKEN("source %u of %zu", point.source, plan_.sources.size());
  }
  const size_t count = point.participants.size();
  if (count == 0) return RONDO_BROKEN("it has no participants");
  const CollectiveFacts& facts = FactsOf(point.op);
  const bool sends = facts.to != kEveryRank;
  if (sends && count != 2) return RONDO_BROKEN("a send has %zu participants, not 2", count);
  if (facts.reads == CollectiveLayout::kParts && point.bytes % (count * ByteSize(point.dtype)) != 0) {
    return RONDO_BROKEN("%" PRIu64 " bytes of %s are not %zu equal parts", point.bytes, Name(point.dtype),
                        count);
  }
  for (size_t i = 0; i < count; ++i) {
    if (point.participants[i] >= devices)
      return RONDO_BROKEN("participant %u of %zu devices", point.participants[i], devices);
    if (i > 0 && (sends ? point.participants[i] == point.participants[i - 1]
                        : point.participants[i] <= point.participants[i - 1]))
      return RONDO_BROKEN(sends ? "it sends to itself" : "its participants are not ascending");
  }
  return Status::Ok();
}

Status ProgramVerifier::SyncPoints() {
  const size_t count = program_.sync_points.size();
  if (count > program_.steps.size())
    return RONDO_BROKEN("%zu sync points for %zu steps", count, program_.steps.size());
  // The first sync point of each communicator defines its members.
  Span<uint32_t> first = scratch_.New<uint32_t>(count);
  if (first.data() == nullptr) return OutOfMemory("the sync points");
  for (uint32_t& f : first) f = kNone;
  for (uint32_t i = 0; i < count; ++i) {
    const SyncPoint& point = program_.sync_points[i];
    RONDO_RETURN_IF_ERROR(OneSyncPoint(i).At("sync point %u", i));
    if (point.communicator >= count)
      return RONDO_BROKEN("sync point %u: communicator %u of at most %zu", i, point.communicator, count);
    if (first[point.communicator] == kNone) first[point.communicator] = i;
    const SyncPoint& other = program_.sync_points[first[point.communicator]];
    bool same = point.participants.size() == other.participants.size();
    for (size_t k = 0; same && k < point.participants.size(); ++k)
      same = point.participants[k] == other.participants[k];
    if (!same) {
      return RONDO_BROKEN("sync points %u and %u are of communicator %u, but have other participants",
                          first[point.communicator], i, point.communicator);
    }
  }
  return Status::Ok();
}

Status ProgramVerifier::Bound(const Step& step, size_t slot, const ByteRange& range) {
  const Binding& binding = step.bindings[slot];
  if (binding.buffer >= plan_.buffers.size()) {
    return RONDO_BROKEN("parameter %zu is bound to buffer %u of %zu", slot, binding.buffer,
                        plan_.buffers.size());
  }
  const Buffer& buffer = plan_.buffers[binding.buffer];
  const int name = static_cast<int>(buffer.name.size());
  if (buffer.program != kNone && buffer.program != index_) {
    return RONDO_BROKEN("parameter %zu is bound to buffer %u \"%.*s\" of program %u", slot, binding.buffer,
                        name, buffer.name.data(), buffer.program);
  }
  if (buffer.device != step.device) {
    return RONDO_BROKEN(
        "parameter %zu is bound to buffer %u \"%.*s\" of device %u, but the step runs on device %u", slot,
        binding.buffer, name, buffer.name.data(), buffer.device, step.device);
  }
  if (binding.offset > buffer.bytes || binding.offset % range.element != 0 ||
      buffer.alignment % range.element != 0) {
    return RONDO_BROKEN("parameter %zu is bound to byte %" PRIu64 " of buffer %u \"%.*s\" (%" PRIu64
                        " bytes, aligned to %u) for accesses of %u bytes",
                        slot, binding.offset, binding.buffer, name, buffer.name.data(), buffer.bytes,
                        buffer.alignment, range.element);
  }
  // Checks the first and the last round of a loop. Even if `range` is empty, no address may lie outside the
  // buffer.
  const int64_t offset = static_cast<int64_t>(binding.offset), bytes = static_cast<int64_t>(buffer.bytes);
  int64_t moved;  // kMaxRegionBytes keeps the sums below small
  if (__builtin_mul_overflow(binding.stride, int64_t{last_round_}, &moved) || moved > bytes ||
      moved < -bytes || offset + moved < 0 || offset + moved > bytes || binding.stride % range.element != 0 ||
      (binding.stride != 0 && last_round_ == 0)) {
    return RONDO_BROKEN("parameter %zu moves by %" PRId64 " bytes %u times: that leaves buffer %u", slot,
                        binding.stride, last_round_, binding.buffer);
  }
  if (range.first == range.end) return Status::Ok();
  const int64_t first = range.first + (moved < 0 ? moved : 0), end = range.end + (moved > 0 ? moved : 0);
  if (first < -offset || end > bytes - offset) {
    return RONDO_BROKEN(
        "parameter %zu touches bytes [%" PRId64 ", %" PRId64 ") of buffer %u \"%.*s\", which has %" PRIu64,
        slot, first + offset, end + offset, binding.buffer, name, buffer.name.data(), buffer.bytes);
  }
  return Status::Ok();
}

Status ProgramVerifier::Loops() {
  uint32_t next = 0;
  uint64_t taken = 0;
  const size_t steps = program_.steps.size();
  for (size_t i = 0; i < program_.loops.size(); ++i) {
    const Loop& loop = program_.loops[i];
    taken += uint64_t{loop.num_steps} * loop.trips;
    if (loop.first_step < next || loop.first_step >= steps || loop.num_steps == 0 ||
        loop.num_steps > steps - loop.first_step || loop.trips == 0 || taken > kMaxLoopSteps) {
      return RONDO_BROKEN(
          "loop %zu repeats steps [%u, +%u) of %zu %u times: it must begin at %u or later, and "
          "all loops may take %" PRIu64 " steps",
          i, loop.first_step, loop.num_steps, steps, loop.trips, next, kMaxLoopSteps);
    }
    next = loop.end();
  }
  return Status::Ok();
}

// Steps of a loop are ordered by their stream alone.
Status ProgramVerifier::LoopStep(const Step& step, const Loop& loop) {
  const Step& first = program_.steps[loop.first_step];
  bool fits = step.kind <= StepKind::kCopy && step.device == first.device && step.stream == first.stream &&
              step.waits.empty() && step.records == kNone;
  for (uint32_t after : step.after) fits &= program_.steps[after].device == step.device;
  if (fits) return Status::Ok();
  return RONDO_BROKEN(
      "a %s on stream %u in a loop of launches and copies on stream %u of device %u without events",
      Name(step.kind), step.stream, first.stream, first.device);
}

// For two parameters of a launch whose bindings are in bounds.
bool ProgramVerifier::ShareBytes(const Step& step, uint16_t a, uint16_t b) const {
  int64_t first[2], end[2];
  BufferKind kind[2];
  for (int i = 0; i < 2; ++i) {
    const uint16_t param = i == 0 ? a : b;
    const ByteRange& range = ranges_.ranges[ranges_.first_range[step.kernel] + param];
    const Binding& binding = step.bindings[param];
    const Buffer& buffer = plan_.buffers[binding.buffer];
    const int64_t moved = binding.stride * int64_t{last_round_};
    first[i] = static_cast<int64_t>(buffer.offset + binding.offset) + range.first;
    end[i] = first[i] + range.end - range.first + (moved > 0 ? moved : 0);
    first[i] += moved < 0 ? moved : 0;
    kind[i] = buffer.kind;
  }
  const bool apart = (kind[0] == BufferKind::kState) != (kind[1] == BufferKind::kState) ||
                     kind[0] == BufferKind::kConstant || kind[1] == BufferKind::kConstant;
  return !apart && first[0] < end[1] && first[1] < end[0];
}

Status ProgramVerifier::Launch(const Step& step) {
  if (step.kernel >= plan_.kernels.size())
    return RONDO_BROKEN("kernel %u of %zu", step.kernel, plan_.kernels.size());
  const Kernel& kernel = plan_.kernels[step.kernel];
  if (step.bindings.size() != kernel.num_params) {
    return RONDO_BROKEN("%zu bindings for the %u parameters of kernel %u", step.bindings.size(),
                        kernel.num_params, step.kernel);
  }
  if (step.sync_point != kNone)
    return RONDO_BROKEN("a launch has no sync point, but names %u", step.sync_point);
  for (size_t i = 0; i < step.bindings.size(); ++i) {
    const ByteRange& param = ranges_.ranges[ranges_.first_range[step.kernel] + i];
    RONDO_RETURN_IF_ERROR(Bound(step, i, param));
    const BufferKind kind = plan_.buffers[step.bindings[i].buffer].kind;
    const bool workspace = i == kernel.workspace_param;
    if (workspace == (kind == BufferKind::kWorkspace) && (!param.constant || kind == BufferKind::kConstant))
      continue;
    return RONDO_BROKEN("parameter %zu is bound to buffer %u of kind %s: %s, and nothing else, take one", i,
                        step.bindings[i].buffer, Name(kind), param.constant ? "constants" : "workspaces");
  }
  const KernelRanges::Apart& apart = ranges_.apart[step.kernel];
  if (apart.a == apart.b || !ShareBytes(step, apart.a, apart.b)) return Status::Ok();
  return RONDO_BROKEN("parameters %u and %u of a library's matmul share memory", apart.a, apart.b);
}

Status ProgramVerifier::Copy(const Step& step) {
  if (step.bindings.size() != 2) return RONDO_BROKEN("a copy has 2 bindings, not %zu", step.bindings.size());
  if (step.kernel != kNone || step.sync_point != kNone)
    return RONDO_BROKEN("a copy has neither kernel nor sync point");
  if (step.bytes == 0 || step.bytes > kMaxRegionBytes)
    return RONDO_BROKEN("a copy of %" PRIu64 " bytes", step.bytes);
  for (size_t i = 0; i < 2; ++i)
    RONDO_RETURN_IF_ERROR(Bound(step, i, {0, static_cast<int64_t>(step.bytes), 1}));
  return Status::Ok();
}

Status ProgramVerifier::Collective(const Step& step) {
  const bool start = step.kind == StepKind::kCollectiveStart;
  if (step.sync_point >= program_.sync_points.size()) {
    return RONDO_BROKEN("sync point %u of %zu", step.sync_point, program_.sync_points.size());
  }
  if (step.kernel != kNone) return RONDO_BROKEN("a collective has no kernel, but names %u", step.kernel);
  if (step.bindings.size() != (start ? 2 : 0)) {
    return RONDO_BROKEN("a collective's %s has %d bindings, not %zu", start ? "start" : "wait", start ? 2 : 0,
                        step.bindings.size());
  }
  if (!start) return Status::Ok();
  const SyncPoint& point = program_.sync_points[step.sync_point];
  const uint32_t element = static_cast<uint32_t>(ByteSize(point.dtype));
  const uint32_t rank = RankOf(point, step.device);
  Status status = Bound(step, 0, {0, static_cast<int64_t>(BytesRead(point, rank)), element});
  if (status.ok()) status = Bound(step, 1, {0, static_cast<int64_t>(BytesWritten(point, rank)), element});
  for (size_t i = 0; i < 2 && status.ok(); ++i) {
    const Buffer& buffer = plan_.buffers[step.bindings[i].buffer];
    if (buffer.dtype == point.dtype) continue;
    status = RONDO_BROKEN("parameter %zu is bound to buffer %u \"%.*s\" of %s, but the collective is of %s",
                          i, step.bindings[i].buffer, static_cast<int>(buffer.name.size()),
                          buffer.name.data(), Name(buffer.dtype), Name(point.dtype));
  }
  return status.At("device %u, sync point %u", step.device, step.sync_point);
}

Status ProgramVerifier::Custom(const Step& step) {
  if (step.custom >= plan_.custom_ops.size())
    return RONDO_BROKEN("custom op %u of %zu", step.custom, plan_.custom_ops.size());
  const CustomOp& op = plan_.custom_ops[step.custom];
  if (step.kernel != kNone || step.sync_point != kNone)
    return RONDO_BROKEN("a call of a custom op has neither kernel nor sync point");
  if (step.bindings.size() != op.arguments.size()) {
    return RONDO_BROKEN("%zu bindings for the %zu arguments of custom op %u", step.bindings.size(),
                        op.arguments.size(), step.custom);
  }
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const CustomArgument& argument = op.arguments[i];
    if (argument.absent) {
      if (step.bindings[i].buffer == kNone && step.bindings[i].offset == 0 && step.bindings[i].stride == 0) {
        continue;
      }
      return RONDO_BROKEN("argument %zu is left out, but bound to buffer %u", i, step.bindings[i].buffer);
    }
    const ByteRange range = {0, static_cast<int64_t>(BytesOf(argument)),
                             static_cast<uint32_t>(ByteSize(argument.dtype))};
    RONDO_RETURN_IF_ERROR(Bound(step, i, range));
  }
  return VerifyAliasedBindings(plan_, op, step);
}

Status ProgramVerifier::OneStep(uint32_t index) {
  const Step& step = program_.steps[index];
  if (step.kind > StepKind::kCustom) return RONDO_BROKEN("kind %d is unknown", static_cast<int>(step.kind));
  if (step.device >= plan_.requirements.devices.size()) {
    return RONDO_BROKEN("device %u of %zu", step.device, plan_.requirements.devices.size());
  }
  if (step.stream >= program_.num_streams)
    return RONDO_BROKEN("stream %u of %u", step.stream, program_.num_streams);
  if (step.source != kNone && step.source >= plan_.sources.size()) {
    return RONDO_BROKEN("source %u of %zu", step.source, plan_.sources.size());
  }
  for (uint32_t event : step.waits) {
    if (event >= program_.num_events)
      return RONDO_BROKEN("waits for event %u of %u", event, program_.num_events);
  }
  if (step.records != kNone && step.records >= program_.num_events) {
    return RONDO_BROKEN("records event %u of %u", step.records, program_.num_events);
  }
  for (uint32_t after : step.after) {
    if (after >= index) return RONDO_BROKEN("comes after step %u, which is not an earlier one", after);
  }
  const Loop* loop = LoopOf(program_, index);
  last_round_ = loop == nullptr ? 0 : loop->trips - 1;
  if (loop != nullptr) RONDO_RETURN_IF_ERROR(LoopStep(step, *loop));
  if (step.kind == StepKind::kCustom) return Custom(step);
  if (step.custom != kNone) return RONDO_BROKEN("it calls no custom op, but names %u", step.custom);
  if (step.kind == StepKind::kLaunch) return Launch(step);
  return step.kind == StepKind::kCopy ? Copy(step) : Collective(step);
}

Status ProgramVerifier::Events() {
  Span<uint32_t> recorder = scratch_.New<uint32_t>(program_.num_events);
  if (recorder.data() == nullptr) return OutOfMemory("the events");
  for (uint32_t& r : recorder) r = kNone;
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    const Step& step = program_.steps[s];
    for (uint32_t event : step.waits) {
      if (recorder[event] == kNone) {
        return AtStep(RONDO_BROKEN("waits for event %u, which no earlier step records", event), plan_,
                      program_, s);
      }
    }
    if (step.records == kNone) continue;
    if (recorder[step.records] != kNone) {
      return AtStep(RONDO_BROKEN("records event %u, as step %u does", step.records, recorder[step.records]),
                    plan_, program_, s);
    }
    recorder[step.records] = s;
  }
  return Status::Ok();
}

Status ProgramVerifier::Partitions() {
  uint32_t next = 0;
  for (uint32_t i = 0; i < program_.partitions.size(); ++i) {
    const Partition& partition = program_.partitions[i];
    if (partition.reason > BreakReason::kSyncPoint) {
      return RONDO_BROKEN("partition %u: reason %d is unknown", i, static_cast<int>(partition.reason));
    }
    if (partition.first_step != next || partition.num_steps == 0 ||
        partition.num_steps > program_.steps.size() - next) {
      return RONDO_BROKEN("partition %u has steps [%u, +%u), but must begin at %u and end by %zu", i,
                          partition.first_step, partition.num_steps, next, program_.steps.size());
    }
    next += partition.num_steps;
    if (const Loop* loop = LoopOf(program_, next); loop != nullptr && loop->first_step < next)
      return RONDO_BROKEN("partition %u ends at step %u, inside a loop", i, next);
    for (uint32_t s = partition.first_step; s < next; ++s) {
      const Step& step = program_.steps[s];
      if (step.kind == StepKind::kCustom && !plan_.custom_ops[step.custom].graph_safe &&
          (partition.num_steps > 1 || step.stream != 0)) {
        return RONDO_BROKEN(
            "partition %u of %u steps holds step %u on stream %u, whose custom op no graph may contain", i,
            partition.num_steps, s, step.stream);
      }
      if (step.device == partition.device) continue;
      return RONDO_BROKEN("partition %u is of device %u, but its step %u of device %u", i, partition.device,
                          s, step.device);
    }
  }
  if (next != program_.steps.size()) {
    return RONDO_BROKEN("its partitions end at step %u of %zu", next, program_.steps.size());
  }
  return Status::Ok();
}

}  // namespace

Status VerifyProgram(const PlanData& plan, uint32_t index, const KernelRanges& ranges, Span<bool> named,
                     Arena& scratch) {
  return ProgramVerifier(plan, index, ranges, named, scratch).Run();
}

}  // namespace rondo::plan
