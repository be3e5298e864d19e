// Steps in another order, on another stream, with other operands, or missing; exchanged ports.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/defects/pick.h"

namespace rondo::defects {
namespace {

bool Launches(const Program&, const Step& s, uint32_t) { return s.kind == StepKind::kLaunch; }

bool DropWait(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.waits.empty(); });
  return at.step != nullptr && Remove(p, &at.step->waits, p.random.Below(at.step->waits.size()));
}

bool DropRecord(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return s.records != kNone; });
  if (at.step == nullptr) return false;
  at.step->records = kNone;
  return true;
}

bool DropAfter(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.after.empty(); });
  return at.step != nullptr && Remove(p, &at.step->after, p.random.Below(at.step->after.size()));
}

bool OtherStream(Patient& p) {
  Place at =
      PickStep(p, [](const Program& program, const Step&, uint32_t) { return program.num_streams > 0; });
  if (at.step == nullptr) return false;
  at.program->num_streams = std::max(at.program->num_streams, 2u);
  at.step->stream = (at.step->stream + 1) % at.program->num_streams;
  return true;
}

bool SwapSteps(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t i) {
    return i + 1 < program.steps.size() && program.steps[i + 1].device == s.device;
  });
  if (at.step == nullptr) return false;
  std::swap(*at.step, Edit(at.program->steps[at.index + 1]));
  return true;
}

// Replaces the step by a second copy of the step before it.
bool DropStep(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t i) {
    return i > 0 && s.kind == StepKind::kLaunch && program.steps[i - 1].kind == StepKind::kLaunch &&
           program.steps[i - 1].device == s.device;
  });
  if (at.step == nullptr) return false;
  const Step before = at.program->steps[at.index - 1];
  at.step->kernel = before.kernel;
  at.step->bindings = before.bindings;
  return true;
}

// Removes the step, and renumbers partitions and lifetimes as a planner would.
bool LeaveOutStep(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t) {
    return program.steps.size() > 1 && s.kind == StepKind::kLaunch && s.records == kNone;
  });
  if (at.step == nullptr) return false;
  const auto number = static_cast<uint32_t>(at.program - &Edit(p.plan.programs[0]));
  const uint32_t gone = at.index;
  for (const Partition& partition : at.program->partitions) {
    Partition& q = Edit(partition);
    if (q.first_step > gone) {
      --q.first_step;
    } else if (gone < q.first_step + q.num_steps) {
      if (--q.num_steps == 0) return false;
    }
  }
  for (const Step& step : at.program->steps) {
    for (const uint32_t& after : step.after) {
      if (after == gone) return false;
      if (after > gone) --Edit(after);
    }
  }
  for (const Buffer& buffer : p.plan.buffers) {
    Buffer& b = Edit(buffer);
    if (b.program != number || b.first_step > b.last_step) continue;
    if (b.last_step >= gone && b.last_step > 0) --b.last_step;
    if (b.first_step > gone) --b.first_step;
  }
  return Remove(p, &at.program->steps, gone);
}

bool OtherDevice(Patient& p) {
  const size_t devices = p.plan.requirements.devices.size();
  Place at = PickStep(p, [&](const Program&, const Step&, uint32_t) { return devices > 1; });
  if (at.step == nullptr) return false;
  at.step->device = static_cast<uint32_t>((at.step->device + 1) % devices);
  return true;
}

bool OtherKernel(Patient& p) {
  Place at = PickStep(p, Launches);
  if (at.step == nullptr || p.plan.kernels.size() < 2) return false;
  std::vector<uint32_t> fitting;
  for (uint32_t k = 0; k < p.plan.kernels.size(); ++k) {
    if (k != at.step->kernel && p.plan.kernels[k].num_params == p.plan.kernels[at.step->kernel].num_params)
      fitting.push_back(k);
  }
  if (fitting.empty()) return false;
  at.step->kernel = fitting[p.random.Below(fitting.size())];
  return true;
}

bool OtherBuffer(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.bindings.empty(); });
  if (at.step == nullptr) return false;
  Binding* binding = Pick(p, at.step->bindings);
  const auto other = static_cast<uint32_t>(p.random.Below(p.plan.buffers.size()));
  if (other == binding->buffer) return false;
  binding->buffer = other;
  return true;
}

bool SwapBindings(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return s.bindings.size() > 1; });
  if (at.step == nullptr) return false;
  Binding *a = Pick(p, at.step->bindings), *b = Pick(p, at.step->bindings);
  if (a->buffer == b->buffer) return false;
  std::swap(*a, *b);
  return true;
}

bool ShiftBinding(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.bindings.empty(); });
  if (at.step == nullptr) return false;
  Pick(p, at.step->bindings)->offset += 64;
  return true;
}

bool CopyLess(Patient& p) {
  Place at = PickStep(
      p, [](const Program&, const Step& s, uint32_t) { return s.kind == StepKind::kCopy && s.bytes > 4; });
  if (at.step == nullptr) return false;
  at.step->bytes -= 4;
  return true;
}

bool SwapPorts(Patient& p) {
  std::vector<Program*> found;
  for (const Program& program : p.plan.programs) {
    if (program.inputs.size() > 1) found.push_back(&Edit(program));
  }
  if (found.empty()) return false;
  Program* program = found[p.random.Below(found.size())];
  Port *a = Pick(p, program->inputs), *b = Pick(p, program->inputs);
  if (a->buffer == b->buffer) return false;
  std::swap(a->buffer, b->buffer);
  return true;
}

bool OutputOfATemporary(Patient& p) {
  Program* program = Pick(p, p.plan.programs);
  if (program == nullptr || program->outputs.empty()) return false;
  Pick(p, program->outputs)->buffer = static_cast<uint32_t>(p.random.Below(p.plan.buffers.size()));
  return true;
}

constexpr DefectKind kKinds[] = {
    {"steps: an event is not waited for", DropWait},
    {"steps: an event is not recorded", DropRecord},
    {"steps: a control dependency is dropped", DropAfter},
    {"steps: one moves to another stream", OtherStream},
    {"steps: two neighbours change places", SwapSteps},
    {"steps: one is done twice, the next not", DropStep},
    {"steps: one is left out, all renumbered", LeaveOutStep},
    {"steps: one moves to another device", OtherDevice},
    {"steps: another kernel", OtherKernel},
    {"steps: a parameter is bound to another buffer", OtherBuffer},
    {"steps: two parameters are exchanged", SwapBindings},
    {"steps: a parameter is bound 64 bytes on", ShiftBinding},
    {"steps: a copy is four bytes shorter", CopyLess},
    {"ports: two inputs exchanged", SwapPorts},
    {"ports: an output of another buffer", OutputOfATemporary},
};

}  // namespace

Span<const DefectKind> StepDefects() { return Span<const DefectKind>(kKinds, std::size(kKinds)); }

}  // namespace rondo::defects
