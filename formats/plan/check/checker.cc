#include "formats/plan/check/checker.h"

#include <cinttypes>

#include "core/collective.h"
#include "formats/plan/check/memory_sharing.h"
#include "formats/plan/check/program_check.h"
#include "formats/plan/verify_internal.h"

namespace rondo {
namespace check {
namespace {

constexpr size_t kMaxAccesses = size_t{1} << 22;

}  // namespace

Status ProgramCheck::AtStep(const Status& status, uint32_t step) const {
  if (step != kAfterAll) return plan::AtStep(status, plan_, program_, step);
  return status.At("program \"%.*s\": after its last step", static_cast<int>(program_.name.size()),
                   program_.name.data());
}

Status ProgramCheck::OutOfMemory() const {
  return Status::Error(Code::kOutOfMemory, "no host memory to check program \"%.*s\"",
                       static_cast<int>(program_.name.size()), program_.name.data());
}

Status ProgramCheck::TooMuchWork() const {
  return Status::Error(Code::kUnsupported, "program \"%.*s\" takes more work to check than its size explains",
                       static_cast<int>(program_.name.size()), program_.name.data());
}

void ProgramCheck::Add(uint32_t step, const Footprint* print, const Binding& binding, size_t* at) {
  Access& access = accesses_[(*at)++];
  access.buffer = binding.buffer;
  access.begin = step;
  access.end = order_.End(step);
  access.print = print;
  access.region = RegionOf(plan_.buffers[binding.buffer].kind);
  access.base = static_cast<int64_t>(plan_.buffers[binding.buffer].offset + binding.offset);
  access.stride = binding.stride;
  if (const Loop* loop = LoopOf(program_, step)) {
    access.loop = static_cast<uint32_t>(loop - program_.loops.data());
    access.moved = access.stride * (int64_t{loop->trips} - 1);
  }
}

size_t ProgramCheck::AccessesOf(const Step& step) const {
  if (step.kind == StepKind::kLaunch) return prints_.of[step.kernel].size();
  if (step.sync_point != kNone && program_.sync_points[step.sync_point].op == CollectiveOp::kSend)
    return step.kind == StepKind::kCollectiveStart;
  if (step.kind != StepKind::kCustom) return step.bindings.size();
  size_t present = 0;
  for (const CustomArgument& argument : plan_.custom_ops[step.custom].arguments) present += !argument.absent;
  return present;
}

// The footprints of a custom op: all of each argument. An input that it updates is read; the new version, an
// output, and the workspace are written.
Status ProgramCheck::CollectCall(uint32_t s, size_t* at) {
  const Step& step = program_.steps[s];
  const CustomOp& op = plan_.custom_ops[step.custom];
  Span<Footprint> prints = scratch_.New<Footprint>(op.arguments.size());
  if (prints.data() == nullptr) return OutOfMemory();
  for (size_t i = 0; i < prints.size(); ++i) {
    if (op.arguments[i].absent) continue;
    prints[i].box = DenseBox(0, static_cast<int64_t>(BytesOf(op.arguments[i])));
    prints[i].operand = static_cast<uint16_t>(i);
    (op.Writes(i) ? prints[i].writes : prints[i].reads) = true;
    Add(s, &prints[i], step.bindings[i], at);
  }
  return Status::Ok();
}

// The footprints of a copy or a collective: `bytes` from the bound address on.
Status ProgramCheck::CollectStep(uint32_t s, size_t* at) {
  const Step& step = program_.steps[s];
  if (step.kind == StepKind::kLaunch) {
    for (const Footprint& print : prints_.of[step.kernel]) Add(s, &print, step.bindings[print.param], at);
    return Status::Ok();
  }
  if (step.kind == StepKind::kCustom) return CollectCall(s, at);
  if (step.kind == StepKind::kCollectiveWait) return Status::Ok();
  uint64_t bytes[2] = {step.bytes, step.bytes};
  if (step.kind == StepKind::kCollectiveStart) {
    const SyncPoint& point = program_.sync_points[step.sync_point];
    const uint32_t rank = RankOf(point, step.device);
    bytes[0] = BytesRead(point, rank);
    bytes[1] = BytesWritten(point, rank);
  }
  Span<Footprint> prints = scratch_.New<Footprint>(2);
  if (prints.data() == nullptr) return OutOfMemory();
  for (size_t i = 0; i < 2; ++i) {
    if (bytes[i] == 0 && step.kind == StepKind::kCollectiveStart) continue;
    prints[i].box = DenseBox(0, static_cast<int64_t>(bytes[i]));
    (i == 0 ? prints[i].reads : prints[i].writes) = true;
    Add(s, &prints[i], step.bindings[i], at);
  }
  return Status::Ok();
}

Status ProgramCheck::Collect() {
  const uint32_t steps = static_cast<uint32_t>(program_.steps.size());
  size_t count = 0;
  for (const Step& step : program_.steps) {
    count += AccessesOf(step);
    if (count > kMaxAccesses) return TooMuchWork();
  }
  accesses_ = scratch_.New<Access>(count);
  first_access_ = scratch_.New<uint32_t>(steps + size_t{1});
  if (accesses_.data() == nullptr || first_access_.data() == nullptr) return OutOfMemory();
  size_t at = 0;
  for (uint32_t s = 0; s < steps; ++s) {
    first_access_[s] = static_cast<uint32_t>(at);
    RONDO_RETURN_IF_ERROR(CollectStep(s, &at));
  }
  first_access_[steps] = static_cast<uint32_t>(at);
  return Status::Ok();
}

// Sorts the accesses by buffer, and keeps the order of steps.
Status ProgramCheck::Group() {
  const size_t buffers = plan_.buffers.size();
  if (!work_.Spend(8 * buffers)) return TooMuchWork();
  first_ = scratch_.New<uint32_t>(buffers + 2);
  by_buffer_ = scratch_.New<Access>(accesses_.size());
  if (first_.data() == nullptr || by_buffer_.data() == nullptr) return OutOfMemory();
  for (const Access& access : accesses_) ++first_[access.buffer + 2];
  for (size_t b = 2; b < buffers + 2; ++b) first_[b] += first_[b - 1];
  for (const Access& access : accesses_) by_buffer_[first_[access.buffer + 1]++] = access;
  return Status::Ok();
}

// Whether the buffer is a temporary of one loop whose first step only writes it. It then keeps nothing
// between rounds.
bool ProgramCheck::IsLocal(uint32_t b) const {
  const BufferKind kind = plan_.buffers[b].kind;
  const Span<const Access> accesses = Of(b);
  if (accesses.empty() || (kind != BufferKind::kTemporary && kind != BufferKind::kWorkspace)) return false;
  for (const Access& access : accesses) {
    if (access.loop == kNone || access.loop != accesses[0].loop) return false;
    if (access.begin == accesses[0].begin && access.reads()) return false;
  }
  return true;
}

Status ProgramCheck::DeriveLifetimes() {
  local_ = scratch_.New<bool>(plan_.buffers.size());
  if (local_.data() == nullptr) return OutOfMemory();
  const uint32_t steps = static_cast<uint32_t>(program_.steps.size());
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.program != index_) continue;
    Lifetime life;
    local_[b] = IsLocal(b);
    for (const Access& access : Of(b)) {
      const Loop* loop = local_[b] || access.loop == kNone ? nullptr : &program_.loops[access.loop];
      const uint32_t begin = loop == nullptr ? access.begin : loop->first_step;
      const uint32_t end = loop == nullptr ? access.end : loop->end() - 1;
      if (life.first > life.last || begin < life.first) life.first = begin;
      if (end > life.last) life.last = end;
    }
    const bool used = !Of(b).empty() || (IsInput(b) && IsOutput(b) && steps != 0);
    if (used && IsInput(b)) life.first = 0;
    if (used && IsOutput(b)) life.last = steps - 1;
    lifetimes_[b] = life;
    const bool stated_unused = buffer.first_step > buffer.last_step;
    // The memory of an input that nothing reads is written before step 0: its stated lifetime may end there.
    const bool unread = !used && IsInput(b) && buffer.first_step == 0 && buffer.last_step == 0;
    const bool same = buffer.first_step == life.first && buffer.last_step == life.last;
    if (same || unread || (!used && stated_unused)) continue;
    const std::string_view source = buffer.source < plan_.sources.size() ? plan_.sources[buffer.source] : "";
    return RONDO_BROKEN(
               "program \"%.*s\": buffer %u \"%.*s\" lives from step %u to %u, but its contents matter from "
               "step %u to %u%s",
               static_cast<int>(program_.name.size()), program_.name.data(), b,
               static_cast<int>(buffer.name.size()), buffer.name.data(), buffer.first_step, buffer.last_step,
               life.first, life.last, used ? "" : " (it is never used)")
        .FromNode(source);
  }
  return Status::Ok();
}

Status ProgramCheck::Run(ProgramMemory* memory) {
  const int name = static_cast<int>(program_.name.size());
  RONDO_RETURN_IF_ERROR(order_.Build(program_, scratch_).At("program \"%.*s\"", name, program_.name.data()));
  RONDO_RETURN_IF_ERROR(Collect());
  RONDO_RETURN_IF_ERROR(Group());
  RONDO_RETURN_IF_ERROR(CheckWritable());
  RONDO_RETURN_IF_ERROR(DeriveLifetimes());
  RONDO_RETURN_IF_ERROR(CheckInsideSteps());
  RONDO_RETURN_IF_ERROR(CheckPlacement(memory));
  RONDO_RETURN_IF_ERROR(CheckRaces());
  return CheckReads();
}

}  // namespace check

namespace {

// Constants that share memory must have equal bytes there; states never share memory.
Status CheckSharedPair(const PlanData& plan, uint32_t a, uint32_t b) {
  const Buffer &x = plan.buffers[a], &y = plan.buffers[b];
  if (x.kind == BufferKind::kConstant && x.weight == y.weight) {
    const bool bytes =
        x.weight == WeightSource::kBytes && x.offset - x.file_offset == y.offset - y.file_offset;
    const bool made = x.weight == WeightSource::kSynthetic && x.offset == y.offset && x.dtype == y.dtype &&
                      x.synthetic_key == y.synthetic_key && x.synthetic_scale == y.synthetic_scale &&
                      x.synthetic_run == y.synthetic_run && x.synthetic_step == y.synthetic_step;
    if (bytes || made) return Status::Ok();
  }
  return RONDO_BROKEN("buffers %u \"%.*s\" at [%" PRIu64 ", +%" PRIu64 ") and %u \"%.*s\" at [%" PRIu64
                      ", +%" PRIu64 ") are both %s and overlap",
                      a, static_cast<int>(x.name.size()), x.name.data(), x.offset, x.bytes, b,
                      static_cast<int>(y.name.size()), y.name.data(), y.offset, y.bytes, Name(x.kind));
}

// Checks constants and states, which all programs share, on all devices.
Status CheckShared(const PlanData& plan, Work& work, Arena& scratch) {
  Span<uint32_t> buffers = scratch.New<uint32_t>(plan.buffers.size());
  if (buffers.data() == nullptr)
    return Status::Error(Code::kOutOfMemory, "no host memory to check shared buffers");
  size_t count = 0;
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].program == kNone && plan.buffers[b].bytes > 0) buffers[count++] = b;
  }
  auto visit = [](void* user, uint32_t a, uint32_t b) {
    return CheckSharedPair(*static_cast<const PlanData*>(user), a, b);
  };
  return check::ForOverlaps(plan, {buffers.data(), count}, work, scratch, const_cast<PlanData*>(&plan),
                            visit);
}

Status CheckAll(const PlanData& plan, const HostAllocator& allocator, Span<Lifetime> lifetimes,
                Span<ProgramMemory> programs) {
  Arena scratch(allocator);
  Work work(plan);
  const Status no_memory = Status::Error(Code::kOutOfMemory, "no host memory to check the plan");
  RONDO_RETURN_IF_ERROR(CheckShared(plan, work, scratch));
  Span<Span<check::Footprint>> prints = scratch.New<Span<check::Footprint>>(plan.kernels.size());
  if (prints.data() == nullptr) return no_memory;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    prints[k] = check::Footprints(plan.kernels[k], scratch);
    if (prints[k].data() == nullptr) return no_memory;
  }
  const check::KernelPrints kernel_prints = {{prints.data(), prints.size()}};
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].program == kNone) lifetimes[b] = {0, 0};
  }
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    Arena own(allocator);
    check::ProgramCheck program(plan, p, kernel_prints, lifetimes, work, own);
    RONDO_RETURN_IF_ERROR(program.Run(&programs[p]));
  }
  return Status::Ok();
}

}  // namespace

Status CheckPlan(const PlanData& plan, const HostAllocator& allocator, Arena& arena, CheckReport* report) {
  Span<Lifetime> lifetimes = arena.New<Lifetime>(plan.buffers.size());
  Span<ProgramMemory> programs = arena.New<ProgramMemory>(plan.programs.size());
  if (lifetimes.data() == nullptr || programs.data() == nullptr) {
    return Status::Error(Code::kOutOfMemory, "no host memory to check the plan");
  }
  RONDO_RETURN_IF_ERROR(CheckAll(plan, allocator, lifetimes, programs));
  if (report != nullptr) *report = {{lifetimes.data(), lifetimes.size()}, {programs.data(), programs.size()}};
  return Status::Ok();
}

Status CheckPlan(const PlanData& plan, const HostAllocator& allocator) {
  Arena arena(allocator);
  return CheckPlan(plan, allocator, arena, nullptr);
}

}  // namespace rondo
