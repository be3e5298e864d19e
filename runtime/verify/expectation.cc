#include "runtime/verify/expectation.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "formats/plan/copies.h"
#include "runtime/verify/accesses.h"
#include "runtime/verify/value_names.h"

namespace rondo {
namespace {

using verify::PartOf;
using verify::ProgramAccesses;
using verify::StepAccess;

std::string Quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

bool Overlap(const Buffer& a, const Buffer& b) {
  return a.device == b.device && PartOf(a.kind) == PartOf(b.kind) && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

uint64_t ElementsOf(const check::Box& box) {
  if (!box.exact) return static_cast<uint64_t>(box.end - box.base);
  uint64_t bytes = box.empty() ? 0 : 1;
  for (int d = 0; d < box.rank; ++d) bytes *= static_cast<uint64_t>(box.dims[d].extent);
  return bytes;
}

uint64_t StepsOf(const PlanData& plan, uint32_t program) {
  uint64_t sum = 0;
  for (uint32_t s = 0; s < plan.programs[program].steps.size(); ++s)
    sum += RoundsOf(plan.programs[program], s);
  return sum;
}

uint64_t LaunchesOf(const PlanData& plan, uint32_t program) {
  const Program& of = plan.programs[program];
  uint64_t sum = 0;
  for (uint32_t s = 0; s < of.steps.size(); ++s) {
    if (of.steps[s].kind == StepKind::kLaunch) sum += RoundsOf(of, s);
  }
  return sum;
}

uint64_t PartitionsOf(const PlanData& plan, uint32_t program) {
  return plan.programs[program].partitions.size();
}

uint64_t TouchedBytes(const PlanData& plan, uint32_t program) {
  const ProgramAccesses accesses(plan, program);
  uint64_t sum = 0;
  for (uint32_t s = 0; s < plan.programs[program].steps.size(); ++s) {
    uint64_t bytes = 0;
    for (const StepAccess& access : accesses.of(s)) {
      const uint64_t once = ElementsOf(access.print.box);
      bytes += (access.print.reads ? once : 0) + (access.print.writes ? once : 0);
    }
    sum += bytes * RoundsOf(plan.programs[program], s);
  }
  return sum;
}

// Bytes that step `s` only copies.
uint64_t CopiedBy(const Program& program, const ProgramAccesses& accesses, uint32_t s) {
  uint64_t bytes = 0;
  const StepKind kind = program.steps[s].kind;
  for (const StepAccess& access : accesses.of(s)) {
    const Part* part = access.print.part;
    const bool moved =
        kind == StepKind::kCopy || (kind == StepKind::kLaunch && part != nullptr && OnlyMoves(*part));
    if (access.print.writes && moved) bytes += ElementsOf(access.print.box);
  }
  return bytes * RoundsOf(program, s);
}

class Expecter {
 public:
  Expecter(const PlanData& plan, const MemoryExpectation& e) : plan_(plan), names_(plan), e_(e) {}

  std::string Mismatch() {
    if (std::string wrong = FindPrograms(); !wrong.empty()) return wrong;
    switch (e_.kind) {
      case ExpectationKind::kReusesMemory: return OfPairs([&](uint32_t p) { return Reuses(p); });
      case ExpectationKind::kSharesMemory: return OfPairs([&](uint32_t p) { return Shares(p); });
      case ExpectationKind::kDiesAfter: return OfDeath();
      case ExpectationKind::kUpdatedInPlace: return OfUpdate();
      case ExpectationKind::kCopiesAtMost: return OfCopies();
      case ExpectationKind::kPeakAtMost: return OfPeak();
      default: break;
    }
    for (const RunCount& count : RunCounts()) {
      if (count.kind == e_.kind) return OfCount(count);
    }
    return "an expectation of an unknown kind";
  }

 private:
  std::string FindPrograms();
  std::string OfPairs(const std::function<std::string(uint32_t)>& of);
  std::string Reuses(uint32_t program);
  std::string Shares(uint32_t program);
  std::string OfDeath();
  std::string Death(uint32_t program, uint32_t buffer, const std::vector<uint32_t>& steps);
  std::string OfUpdate();
  std::string Update(uint32_t program, uint32_t buffer);
  std::string OfCopies();
  std::string OfPeak();
  std::string OfCount(const RunCount& count);
  std::string In(uint32_t program) const { return "program " + Quoted(plan_.programs[program].name) + ": "; }
  std::string Neighbours(uint32_t program, uint32_t buffer) const;

  const PlanData& plan_;
  const ValueNames names_;
  const MemoryExpectation& e_;
  std::vector<uint32_t> programs_;
};

std::string Expecter::FindPrograms() {
  std::vector<std::string_view> known;
  for (uint32_t p = 0; p < plan_.programs.size(); ++p) {
    known.push_back(plan_.programs[p].name);
    if (e_.program.empty() || e_.program == plan_.programs[p].name) programs_.push_back(p);
  }
  if (!programs_.empty()) return "";
  const std::string near = NearestNames(e_.program, known);
  return "the plan has no program called " + Quoted(e_.program) + (near.empty() ? "" : "; nearest: " + near);
}

// For each program that has both; there must be at least one.
std::string Expecter::OfPairs(const std::function<std::string(uint32_t)>& of) {
  bool both = false, value = false, other = false;
  for (uint32_t p : programs_) {
    const bool has_value = !names_.Buffers(p, e_.value).empty(),
               has_other = !names_.Buffers(p, e_.other).empty();
    value |= has_value;
    other |= has_other;
    if (!has_value || !has_other) continue;
    both = true;
    if (std::string wrong = of(p); !wrong.empty()) return In(p) + wrong;
  }
  if (both) return "";
  if (!value) return names_.NoBuffer(e_.value);
  if (!other) return names_.NoBuffer(e_.other);
  return "no program has both " + Quoted(e_.value) + " and " + Quoted(e_.other);
}

// The other buffers in the bytes of `buffer`.
std::string Expecter::Neighbours(uint32_t program, uint32_t buffer) const {
  constexpr size_t kTold = 3;
  std::string text;
  size_t count = 0;
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& other = plan_.buffers[b];
    if (b == buffer || (other.program != program && other.program != kNone) ||
        other.first_step > other.last_step || !Overlap(other, plan_.buffers[buffer]) || other.name.empty())
      continue;
    if (++count <= kTold) text += (count == 1 ? "" : ", ") + Quoted(other.name);
  }
  if (count > kTold) text += " and " + std::to_string(count - kTold) + " more";
  return text.empty() ? "nothing else with a name" : text;
}

std::string Expecter::Reuses(uint32_t program) {
  const uint32_t first = names_.Buffers(program, e_.value)[0], second = names_.Buffers(program, e_.other)[0];
  const Buffer *later = nullptr, *found = nullptr;
  for (uint32_t a : names_.Buffers(program, e_.value)) {
    for (uint32_t b : names_.Buffers(program, e_.other)) {
      const Buffer &x = plan_.buffers[a], &y = plan_.buffers[b];
      if (a == b || !Overlap(x, y)) continue;
      if (x.aliases == b || x.first_step > y.last_step) return "";
      found = &y;
      if (y.aliases == a || y.first_step > x.last_step) later = &y;
    }
  }
  std::string text = "expected " + Quoted(e_.value) + " in memory that " + Quoted(e_.other) +
                     " had before it; found " + names_.Describe(first) + " and " + names_.Describe(second);
  if (later != nullptr) return text + ": it is " + Quoted(e_.other) + " that comes later";
  if (found != nullptr) return text + ": they share memory and are alive at once";
  return text + ", which have no byte in common; in the bytes of " + Quoted(e_.value) + " lies " +
         Neighbours(program, first);
}

std::string Expecter::Shares(uint32_t program) {
  for (uint32_t a : names_.Buffers(program, e_.value)) {
    for (uint32_t b : names_.Buffers(program, e_.other)) {
      if (a == b || Overlap(plan_.buffers[a], plan_.buffers[b])) return "";
    }
  }
  const uint32_t first = names_.Buffers(program, e_.value)[0], second = names_.Buffers(program, e_.other)[0];
  return "expected " + Quoted(e_.value) + " and " + Quoted(e_.other) + " to share memory; found " +
         names_.Describe(first) + " and " + names_.Describe(second) + ", which have no byte in common";
}

std::string Expecter::OfDeath() {
  bool value = false, both = false, node = false;
  for (uint32_t p : programs_) {
    const std::vector<uint32_t> buffers = names_.Buffers(p, e_.value), steps = names_.Steps(p, e_.other);
    value |= !buffers.empty();
    node |= !steps.empty();
    if (buffers.empty() || steps.empty()) continue;
    both = true;
    for (uint32_t b : buffers) {
      if (std::string wrong = Death(p, b, steps); !wrong.empty()) return In(p) + wrong;
    }
  }
  if (both) return "";
  if (!value) return names_.NoBuffer(e_.value);
  if (!node) return names_.NoNode(e_.other);
  return "no program has both value " + Quoted(e_.value) + " and node " + Quoted(e_.other);
}

std::string Expecter::Death(uint32_t program, uint32_t b, const std::vector<uint32_t>& steps) {
  const Buffer& buffer = plan_.buffers[b];
  const std::string expected = "expected " + Quoted(e_.value) + " to die after node " + Quoted(e_.other) +
                               ", in " + names_.DescribeStep(program, steps.back()) + "; found " +
                               names_.Describe(b);
  if (IsOutput(buffer.kind)) return expected + ", an output: it lives until the run has ended";
  if (buffer.program == kNone)
    return expected + ", which is " + Name(buffer.kind) + " and outlives every run";
  if (buffer.first_step > buffer.last_step) return expected;
  if (std::find(steps.begin(), steps.end(), buffer.last_step) != steps.end()) return "";
  return expected + ", whose last is " + names_.DescribeStep(program, buffer.last_step);
}

std::string Expecter::OfUpdate() {
  bool known = false;
  std::string wrong;
  for (uint32_t p : programs_) {
    for (uint32_t b : names_.Buffers(p, e_.value)) {
      known = true;
      const std::string one = Update(p, b);
      if (one.empty()) return "";
      if (wrong.empty()) wrong = In(p) + one;
    }
  }
  return known ? wrong : names_.NoBuffer(e_.value);
}

std::string Expecter::Update(uint32_t program, uint32_t b) {
  const Buffer& buffer = plan_.buffers[b];
  const std::string expected =
      "expected " + Quoted(e_.value) + " to be updated in place; found " + names_.Describe(b);
  if (buffer.kind == BufferKind::kConstant) return expected + ", a constant, which no step writes";
  if (buffer.kind != BufferKind::kState && buffer.kind != BufferKind::kUpdatedInput) {
    for (const Buffer& other : plan_.buffers) {
      if (other.aliases == b) return "";
    }
    return expected + ", whose memory no other value takes over in place";
  }
  const ProgramAccesses accesses(plan_, program);
  bool written = false;
  for (uint32_t s = 0; s < plan_.programs[program].steps.size(); ++s) {
    bool reads = false;
    uint64_t bytes = 0;
    for (const StepAccess& access : accesses.of(s)) {
      if (access.buffer != b) continue;
      reads |= access.print.reads;
      written |= access.print.writes;
      const Part* part = access.print.part;
      const bool moved =
          plan_.programs[program].steps[s].kind == StepKind::kCopy || (part != nullptr && OnlyMoves(*part));
      if (access.print.writes && moved) bytes += ElementsOf(access.print.box);
    }
    if (bytes >= buffer.bytes && !reads)
      return expected + ", all of which " + names_.DescribeStep(program, s) + " copies from another place";
  }
  return written ? "" : expected + ", which no step writes";
}

std::string Expecter::OfCopies() {
  for (uint32_t p : programs_) {
    std::vector<CopyingStep> steps = CopyingSteps(plan_, p);
    uint64_t sum = 0;
    for (const CopyingStep& one : steps) sum += one.bytes;
    if (sum <= e_.bytes) continue;
    constexpr size_t kTold = 5;
    std::sort(steps.begin(), steps.end(), [](const CopyingStep& a, const CopyingStep& b) {
      return std::pair(a.bytes, a.step) > std::pair(b.bytes, b.step);
    });
    std::string text = In(p) + "expected at most " + std::to_string(e_.bytes) +
                       " bytes copied by a run; found " + std::to_string(sum) + ", most of them by ";
    for (size_t i = 0; i < std::min(kTold, steps.size()); ++i) {
      const std::string_view why = WhyCopied(plan_, plan_.programs[p], steps[i].step);
      text += (i == 0 ? "" : ", ") + names_.DescribeStep(p, steps[i].step) + ": " +
              std::to_string(steps[i].bytes);
      if (!why.empty()) text += " (" + std::string(why) + ")";
    }
    return text;
  }
  return "";
}

std::string Expecter::OfCount(const RunCount& count) {
  for (uint32_t p : programs_) {
    const uint64_t found = count.of(plan_, p);
    if (found <= e_.bytes) continue;
    return In(p) + "expected at most " + std::to_string(e_.bytes) + " " + count.what + " in a run; found " +
           std::to_string(found);
  }
  return "";
}

std::string Expecter::OfPeak() {
  const uint64_t peak = PeakBytes(plan_);
  if (peak <= e_.bytes) return "";
  std::string text = "expected at most " + std::to_string(e_.bytes) + " bytes of device memory; found " +
                     std::to_string(peak) + ": ";
  for (size_t d = 0; d < plan_.requirements.devices.size(); ++d) {
    const DeviceBytes& bytes = plan_.requirements.devices[d];
    text += std::string(d == 0 ? "" : "; ") + "device " + std::to_string(d) + " has " +
            std::to_string(bytes.weights) + " of weights, " + std::to_string(bytes.arena) + " of arena, " +
            std::to_string(bytes.state) + " of state";
  }
  return text;
}

}  // namespace

Span<const RunCount> RunCounts() {
  static constexpr RunCount kCounts[] = {
      {ExpectationKind::kStepsAtMost, "steps", StepsOf},
      {ExpectationKind::kLaunchesAtMost, "kernel launches", LaunchesOf},
      {ExpectationKind::kPartitionsAtMost, "partitions", PartitionsOf},
      {ExpectationKind::kTouchedAtMost, "bytes read and written by steps", TouchedBytes}};
  return kCounts;
}

std::string Mismatch(const PlanData& plan, const MemoryExpectation& expectation) {
  return Expecter(plan, expectation).Mismatch();
}

std::vector<CopyingStep> CopyingSteps(const PlanData& plan, uint32_t program) {
  const ProgramAccesses accesses(plan, program);
  std::vector<CopyingStep> steps;
  for (uint32_t s = 0; s < plan.programs[program].steps.size(); ++s) {
    const uint64_t bytes = CopiedBy(plan.programs[program], accesses, s);
    if (bytes > 0) steps.push_back({s, bytes});
  }
  return steps;
}

uint64_t CopiedBytes(const PlanData& plan, uint32_t program) {
  uint64_t sum = 0;
  for (const CopyingStep& step : CopyingSteps(plan, program)) sum += step.bytes;
  return sum;
}

uint64_t PeakBytes(const PlanData& plan) {
  uint64_t sum = 0;
  for (const DeviceBytes& bytes : plan.requirements.devices) sum += bytes.weights + bytes.arena + bytes.state;
  return sum;
}

std::vector<MemoryExpectation> ExpectationsOf(const PlanData& plan) {
  std::vector<MemoryExpectation> found;
  const auto keep = [&](MemoryExpectation expectation) {
    if (Mismatch(plan, expectation).empty()) found.push_back(std::move(expectation));
  };
  keep({ExpectationKind::kPeakAtMost, "", "", "", PeakBytes(plan)});
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    const std::string program(plan.programs[p].name);
    for (const RunCount& count : RunCounts()) keep({count.kind, "", "", program, count.of(plan, p)});
    keep({ExpectationKind::kCopiesAtMost, "", "", program, CopiedBytes(plan, p)});
  }
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const std::string name(buffer.name);
    if (name.empty()) continue;
    if (buffer.kind == BufferKind::kState || buffer.kind == BufferKind::kUpdatedInput)
      keep({ExpectationKind::kUpdatedInPlace, name, "", "", 0});
    if (buffer.program == kNone) continue;
    const std::string program(plan.programs[buffer.program].name);
    if (buffer.aliases != kNone && !plan.buffers[buffer.aliases].name.empty()) {
      keep(
          {ExpectationKind::kReusesMemory, name, std::string(plan.buffers[buffer.aliases].name), program, 0});
    }
    if (buffer.kind != BufferKind::kTemporary || buffer.first_step > buffer.last_step) continue;
    const uint32_t source = plan.programs[buffer.program].steps[buffer.last_step].source;
    if (source >= plan.sources.size()) continue;
    const std::vector<std::string_view> labels = LabelsOf(plan.sources[source]);
    if (!labels.empty())
      keep({ExpectationKind::kDiesAfter, name, std::string(NodeOfLabel(labels[0])), program, 0});
  }
  return found;
}

}  // namespace rondo
