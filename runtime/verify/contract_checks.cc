#include "runtime/verify/contract_checks.h"

#include <algorithm>

#include "core/collective.h"
#include "formats/plan/check/order.h"

namespace rondo::verify {
namespace {

constexpr uint64_t kMostPairs = uint64_t{1} << 28;

std::string StepsText(uint32_t first, uint32_t last) {
  return first > last ? "no step" : "steps " + std::to_string(first) + " to " + std::to_string(last);
}

class ContractChecks {
 public:
  ContractChecks(const PlanData& plan, uint32_t program, const ProgramAccesses& accesses,
                 FindingList* findings)
      : plan_(plan),
        index_(program),
        program_(plan.programs[program]),
        accesses_(accesses),
        findings_(findings),
        work_(plan) {}

  Status Run() {
    CheckLifetimes();
    for (uint32_t s = 0; s < program_.steps.size(); ++s) CheckInsideStep(s);
    CheckState();
    Arena scratch;
    RONDO_RETURN_IF_ERROR(order_.Build(program_, scratch));
    if (order_.total() && !order_.has_collectives()) return Status::Ok();
    return CheckOrder();
  }

 private:
  // The bytes of an access, over all rounds of its loop.
  struct Placed {
    const StepAccess* access;
    uint64_t region;  // of all devices
    int64_t first, end;
  };

  Finding At(LifecycleRule rule, uint32_t step, uint32_t buffer) const {
    Finding finding;
    finding.rule = rule;
    finding.step = step;
    finding.buffer = buffer;
    finding.device = plan_.buffers[buffer].device;
    return finding;
  }
  void CheckLifetimes();
  void CheckInsideStep(uint32_t step);
  void CheckPair(const StepAccess& a, const StepAccess& b);
  bool ElementByElement(const StepAccess& a, const StepAccess& b) const;
  bool InPlace(const StepAccess& a, const StepAccess& b) const;
  void CheckState();
  Status CheckOrder();
  Placed Place(const StepAccess& access) const;
  check::Box Whole(const StepAccess& access) const;
  bool Share(const check::Box& a, const check::Box& b) const {
    Work work = work_;
    return check::MayShare(a, b, work);
  }

  const PlanData& plan_;
  const uint32_t index_;
  const Program& program_;
  const ProgramAccesses& accesses_;
  FindingList* findings_;
  const Work work_;
  check::StepOrder order_;
};

void ContractChecks::CheckLifetimes() {
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.program != index_) continue;
    const Lifetime& life = accesses_.lifetimes()[b];
    const bool used = life.first <= life.last, stated = buffer.first_step <= buffer.last_step;
    const bool unread = !used && IsInput(buffer.kind) && buffer.first_step == 0 && buffer.last_step == 0;
    if (unread || (!used && !stated)) continue;
    if (used && buffer.first_step == life.first && buffer.last_step == life.last) continue;
    Finding finding = At(LifecycleRule::kLifetime, kNone, b);
    finding.expected = StepsText(buffer.first_step, buffer.last_step) + ", as the plan says";
    finding.found = StepsText(life.first, life.last) + " that read or write it by their contracts";
    findings_->Add(finding, index_);
  }
}

check::Box ContractChecks::Whole(const StepAccess& access) const {
  const check::Box once = check::Shifted(access.print.box, access.base);
  const Loop* loop = LoopOf(program_, access.begin);
  return loop == nullptr ? once : check::Repeated(once, access.stride, loop->trips);
}

// Whether the step reads and writes the same elements at the same points, and each read comes before the
// write.
bool ContractChecks::ElementByElement(const StepAccess& a, const StepAccess& b) const {
  const Part& part = *a.print.part;
  const uint16_t i = a.print.operand, k = b.print.operand;
  const auto by_tape = [&](const StepAccess& x) {
    return x.print.writes || check::ReadByTapeOnly(part, x.print.operand);
  };
  if (part.sequential && a.buffer == b.buffer && by_tape(a) && by_tape(b)) return true;
  const bool first = (a.print.writes || check::LoadedBeforeStored(part, i, k)) &&
                     (b.print.writes || check::LoadedBeforeStored(part, k, i));
  return first && check::SameAccess(part, i, k, b.base - a.base);
}

// Whether it is a collective at its rank's place, or a custom op's new version of its input.
bool ContractChecks::InPlace(const StepAccess& a, const StepAccess& b) const {
  const Step& step = program_.steps[a.begin];
  const StepAccess &from = a.print.reads ? a : b, &to = a.print.reads ? b : a;
  if (!from.print.reads || !to.print.writes) return false;
  if (step.kind == StepKind::kCustom)
    return plan_.custom_ops[step.custom].arguments[to.print.operand].alias == from.print.operand;
  if (step.kind != StepKind::kCollectiveStart) return false;
  const SyncPoint& point = program_.sync_points[step.sync_point];
  return from.base - to.base == InPlaceDistance(point, RankOf(point, step.device));
}

void ContractChecks::CheckPair(const StepAccess& a, const StepAccess& b) {
  if (!a.print.writes && !b.print.writes) return;
  const bool together = a.stride == b.stride;
  const auto box = [&](const StepAccess& x) {
    return together ? check::Shifted(x.print.box, x.base) : Whole(x);
  };
  if (!Share(box(a), box(b))) return;
  Work work(plan_);
  if (together && check::PiecesApart(a.print, a.base, b.print, b.base, work)) return;
  const Part* part = a.print.part;
  const bool fine =
      together && (part == nullptr ? InPlace(a, b) : part == b.print.part && ElementByElement(a, b));
  if (fine) return;
  Finding finding = At(LifecycleRule::kInsideStep, a.begin, a.buffer);
  finding.expected = "operands that share bytes only element by element, each read before it is written";
  finding.found = std::string("operand ") + std::to_string(a.slot) + (a.print.writes ? " written" : " read") +
                  " here and operand " + std::to_string(b.slot) + (b.print.writes ? " written" : " read") +
                  " in the same bytes, as " + BufferText(plan_, b.buffer);
  findings_->Add(finding, index_);
}

void ContractChecks::CheckInsideStep(uint32_t step) {
  const std::vector<StepAccess>& all = accesses_.of(step);
  for (size_t i = 0; i < all.size(); ++i) {
    const Placed x = Place(all[i]);
    for (size_t k = i + 1; k < all.size(); ++k) {
      const Placed y = Place(all[k]);
      if (x.region == y.region && x.first < y.end && y.first < x.end) CheckPair(all[i], all[k]);
    }
  }
}

// Two states must not share bytes; reported once, with the first program.
void ContractChecks::CheckState() {
  std::vector<uint32_t> states;
  for (uint32_t b = 0; b < plan_.buffers.size() && index_ == 0; ++b) {
    if (plan_.buffers[b].kind == BufferKind::kState && plan_.buffers[b].bytes > 0) states.push_back(b);
  }
  const auto place = [&](uint32_t b) {
    return std::make_pair(plan_.buffers[b].device, plan_.buffers[b].offset);
  };
  std::sort(states.begin(), states.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  for (size_t i = 1; i < states.size(); ++i) {
    const Buffer &before = plan_.buffers[states[i - 1]], &buffer = plan_.buffers[states[i]];
    if (before.device != buffer.device || before.offset + before.bytes <= buffer.offset) continue;
    Finding finding = At(LifecycleRule::kOverlap, kNone, states[i]);
    finding.expected = "memory of its own in the state";
    finding.found = BufferText(plan_, states[i - 1]) + " in the same bytes";
    findings_->Add(finding);
  }
}

ContractChecks::Placed ContractChecks::Place(const StepAccess& access) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  const Loop* loop = LoopOf(program_, access.begin);
  const int64_t moved = loop == nullptr ? 0 : access.stride * (int64_t{loop->trips} - 1);
  return {&access, uint64_t{buffer.device} * 4 + static_cast<uint64_t>(PartOf(buffer.kind)),
          access.base + access.print.box.base + std::min<int64_t>(moved, 0),
          access.base + access.print.box.end + std::max<int64_t>(moved, 0)};
}

// All accesses to the same memory must be ordered if one of them writes, whether by one buffer or several.
Status ContractChecks::CheckOrder() {
  std::vector<Placed> placed;
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    for (const StepAccess& access : accesses_.of(s)) {
      if (PartOf(plan_.buffers[access.buffer].kind) != MemoryPart::kWeights) placed.push_back(Place(access));
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.region != b.region ? a.region < b.region : a.first < b.first;
  });
  uint64_t pairs = 0;
  for (size_t i = 0; i < placed.size(); ++i) {
    for (size_t k = i + 1; k < placed.size(); ++k) {
      if (placed[k].region != placed[i].region || placed[k].first >= placed[i].end) break;
      if (++pairs > kMostPairs) {
        return Status::Error(Code::kUnsupported,
                             "program \"%.*s\": more than %llu pairs of steps share memory",
                             static_cast<int>(program_.name.size()), program_.name.data(),
                             static_cast<unsigned long long>(kMostPairs));
      }
      const bool swap = placed[i].access->begin > placed[k].access->begin;
      const StepAccess &a = *placed[swap ? k : i].access, &b = *placed[swap ? i : k].access;
      if ((!a.print.writes && !b.print.writes) || a.begin == b.begin || order_.Before(a.end, b.begin) ||
          !Share(Whole(a), Whole(b)))
        continue;
      Finding finding = At(LifecycleRule::kUnordered, b.begin, b.buffer);
      finding.expected =
          "a stream, event or wait that keeps the step behind the end of step " + std::to_string(a.end);
      finding.found = std::string("none, and step ") + std::to_string(a.begin) +
                      (a.print.writes ? " writes " : " reads ") + BufferText(plan_, a.buffer) +
                      " in the same bytes";
      findings_->Add(finding, index_);
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckContracts(const PlanData& plan, uint32_t program, const ProgramAccesses& accesses,
                      FindingList* findings) {
  return ContractChecks(plan, program, accesses, findings).Run();
}

}  // namespace rondo::verify
