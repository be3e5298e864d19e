#include "tools/rondo/value_comparison.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "tools/rondo/loaded.h"

namespace rondo::tools {
namespace {

// The key under which two plans have the same value: its name, or its source nodes if it has no name; its
// device; and a counter for values with equal names.
using ValueKey = std::pair<std::string, std::pair<uint32_t, uint32_t>>;

std::string NodesOf(const PlanData& plan, const Buffer& buffer) {
  return buffer.source < plan.sources.size() ? "; " + std::string(plan.sources[buffer.source]) : "; ";
}

class Keys {
 public:
  Keys(const PlanData& plan, bool by_device) : plan_(plan), by_device_(by_device) {}
  ValueKey Of(uint32_t buffer) {
    const Buffer& of = plan_.buffers[buffer];
    const std::string name = of.name.empty() ? NodesOf(plan_, of) : std::string(of.name);
    const uint32_t count = counts_[{name, of.device}]++;
    return {name, {DeviceOf(of), count}};
  }
  // The key by nodes, even if the value has a name: for values that only one of the plans names.
  ValueKey ByNodes(uint32_t buffer) const {
    const Buffer& of = plan_.buffers[buffer];
    return {NodesOf(plan_, of), {DeviceOf(of), 0}};
  }

 private:
  uint32_t DeviceOf(const Buffer& buffer) const { return by_device_ ? buffer.device : 0; }

  const PlanData& plan_;
  const bool by_device_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> counts_;
};

std::vector<int64_t> DimsOf(const Shape& shape) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  std::erase(dims, 1);
  return dims;
}

bool IsDense(const Buffer& x) {
  return x.bytes == static_cast<uint64_t>(x.shape.elements() * ByteSize(x.dtype)) && x.bytes > 0;
}

// Whether both hold the same elements in the same order.
bool Comparable(const Buffer& a, const Tensor& b) {
  return IsDense(a) && DimsOf(a.shape) == DimsOf(b.shape) && IsFloat(a.dtype) == IsFloat(b.dtype);
}
bool Comparable(const Buffer& a, const Buffer& b) {
  return IsDense(a) && IsDense(b) && DimsOf(a.shape) == DimsOf(b.shape) &&
         IsFloat(a.dtype) == IsFloat(b.dtype);
}

std::vector<StepValue> ValuesOf(const ComparedProgram& side) {
  std::vector<StepValue> values = WrittenValues(BuffersOfSteps(side.plan(), side.program));
  std::erase_if(values, [&](const StepValue& value) {
    return side.plan().buffers[value.buffer].kind == BufferKind::kWorkspace;
  });
  return values;
}

// The values in both plans, in the order of the plan's steps.
std::vector<ComparedValue> Pair(const ComparedProgram& plan, const ComparedProgram& reference,
                                uint32_t* alone) {
  const size_t devices = reference.plan().requirements.devices.size();
  const bool by_device = devices > 1 && devices == plan.plan().requirements.devices.size();
  std::map<ValueKey, StepValue> known;
  Keys theirs(reference.plan(), by_device), ours(plan.plan(), by_device);
  const std::vector<StepValue> has = ValuesOf(reference);
  for (const StepValue& value : has) known.try_emplace(theirs.Of(value.buffer), value);
  for (const StepValue& value : has) known.try_emplace(theirs.ByNodes(value.buffer), value);
  std::vector<ComparedValue> pairs;
  for (const StepValue& value : ValuesOf(plan)) {
    const auto found = known.find(ours.Of(value.buffer));
    if (found != known.end() &&
        Comparable(plan.plan().buffers[value.buffer], reference.plan().buffers[found->second.buffer])) {
      pairs.push_back({value, found->second, {}, 0, false});
    } else {
      ++*alone;
    }
  }
  return pairs;
}

void Judge(const Tensor& got, const Tensor& want, double tolerance, ComparedValue* value) {
  value->error = ErrorOf(got, want);
  value->tolerance = ToleranceOf(want.dtype, tolerance);
  value->elsewhere = value->differs() && Agree(Sorted(got), Sorted(want), value->tolerance);
}

// Compares `values`; holds all of the reference's values at once.
Status CompareSome(const ComparedProgram& plan, const ComparedProgram& reference, double tolerance,
                   Span<ComparedValue> values) {
  std::vector<StepValue> wanted, here;
  std::map<uint32_t, ComparedValue*> by_buffer;
  for (ComparedValue& value : values) {
    wanted.push_back(value.reference);
    here.push_back(value.here);
    by_buffer[value.here.buffer] = &value;
  }
  std::map<uint32_t, std::vector<uint8_t>> held;
  RONDO_RETURN_IF_ERROR(reference.Run(wanted, [&](const StepValue& value, std::vector<uint8_t> bytes) {
    held[value.buffer] = std::move(bytes);
    return Status::Ok();
  }));
  return plan.Run(here, [&](const StepValue& at, std::vector<uint8_t> bytes) {
    ComparedValue& value = *by_buffer.at(at.buffer);
    RONDO_ASSIGN_OR_RETURN(const Tensor want,
                           TensorOf(reference.plan(), value.reference.buffer, held[value.reference.buffer]));
    RONDO_ASSIGN_OR_RETURN(const Tensor got, TensorOf(plan.plan(), at.buffer, std::move(bytes)));
    Judge(got, want, tolerance, &value);
    return Status::Ok();
  });
}

// The same comparison with tensors of the model's values.
Status CompareTensors(const ComparedProgram& plan, const std::vector<Tensor>& wanted, double tolerance,
                      Span<const StepValue> here, ValueComparison* comparison) {
  std::map<std::string_view, const Tensor*> by_name;
  for (const Tensor& tensor : wanted) by_name[tensor.name] = &tensor;
  std::vector<StepValue> known;
  for (const StepValue& value : here) {
    const Buffer& buffer = plan.plan().buffers[value.buffer];
    const auto found = by_name.find(buffer.name);
    if (found != by_name.end() && Comparable(buffer, *found->second)) {
      known.push_back(value);
    } else {
      ++comparison->alone;
    }
  }
  return plan.Run(known, [&](const StepValue& at, std::vector<uint8_t> bytes) {
    RONDO_ASSIGN_OR_RETURN(const Tensor got, TensorOf(plan.plan(), at.buffer, std::move(bytes)));
    ComparedValue value{at, {}, {}, 0, false};
    Judge(got, *by_name.at(plan.plan().buffers[at.buffer].name), tolerance, &value);
    comparison->values.push_back(value);
    return Status::Ok();
  });
}

// What is known about the results of a step.
enum class Verdict : uint8_t { kUnknown, kAgrees, kDiffers };

// The steps that pass values to each other, with what is known about each.
class StepGraph {
 public:
  StepGraph(const PlanData& plan, uint32_t program, const ValueComparison& comparison)
      : verdicts_(plan.programs[program].steps.size(), Verdict::kUnknown),
        shows_(verdicts_.size(), false),
        before_(verdicts_.size()),
        after_(verdicts_.size()) {
    const std::vector<StepBuffers> steps = BuffersOfSteps(plan, program);
    std::map<uint32_t, std::vector<uint32_t>> starts;  // of each sync point
    for (uint32_t s = 0; s < steps.size(); ++s) {
      for (uint32_t buffer : steps[s].reads) {
        for (uint32_t writer : writers_[buffer]) Link(writer, s);
      }
      const Step& step = plan.programs[program].steps[s];
      if (step.kind == StepKind::kCollectiveStart) starts[step.sync_point].push_back(s);
      if (step.kind == StepKind::kCollectiveWait) {
        for (uint32_t start : starts[step.sync_point]) Link(start, s);
      }
      for (uint32_t buffer : steps[s].writes) writers_[buffer].push_back(s);
    }
    std::set<uint32_t> outputs;
    for (const Port& port : plan.programs[program].outputs) outputs.insert(port.buffer);
    for (const ComparedValue& value : comparison.values) {
      for (uint32_t writer : writers_[value.here.buffer]) {
        Verdict& verdict = verdicts_[writer];
        if (value.elsewhere) continue;  // as right or wrong as the values computed from it
        if (verdict != Verdict::kDiffers) verdict = value.differs() ? Verdict::kDiffers : Verdict::kAgrees;
        if (value.differs() && outputs.count(value.here.buffer) != 0) shows_[writer] = true;
      }
    }
    for (size_t s = verdicts_.size(); s-- > 0;) {  // links lead to later steps
      for (uint32_t after : after_[s]) shows_[s] = shows_[s] || shows_[after];
      if (verdicts_[s] == Verdict::kAgrees) shows_[s] = false;
    }
  }

  // In the order of the steps.
  const std::vector<uint32_t>& WritersOf(uint32_t buffer) { return writers_[buffer]; }

  // Whether a wrong result of step `s` shows in an output, through no result that agrees.
  bool Shows(uint32_t s) const { return shows_[s]; }

  // `s` and the steps before it with unknown results, nearest first.
  std::vector<uint32_t> Unknown(uint32_t s) const {
    std::vector<uint32_t> found = {s};
    for (size_t i = 0; i < found.size(); ++i) {
      for (uint32_t before : before_[found[i]]) {
        if (verdicts_[before] == Verdict::kUnknown &&
            std::find(found.begin(), found.end(), before) == found.end())
          found.push_back(before);
      }
    }
    return found;
  }

 private:
  void Link(uint32_t from, uint32_t to) {
    before_[to].push_back(from);
    after_[from].push_back(to);
  }

  std::vector<Verdict> verdicts_;
  std::vector<bool> shows_;
  std::vector<std::vector<uint32_t>> before_, after_;
  std::map<uint32_t, std::vector<uint32_t>> writers_;  // of each buffer
};

// Of the steps that write a value in turn, the last that changed its worst element.
Result<uint32_t> WriterOf(const ComparedProgram& plan, const ComparedValue& value,
                          const std::vector<uint32_t>& writers) {
  uint32_t writer = value.here.step;
  if (writers.size() < 2) return writer;
  const auto size = static_cast<size_t>(ByteSize(plan.plan().buffers[value.here.buffer].dtype));
  const size_t at = static_cast<size_t>(value.error.at) * size;
  std::vector<StepValue> wanted;
  for (uint32_t step : writers) {
    wanted.push_back({value.here.buffer, step, StepPhase::kBefore});
    wanted.push_back({value.here.buffer, step, StepPhase::kAfter});
  }
  std::vector<uint8_t> before;
  RONDO_RETURN_IF_ERROR(plan.Run(wanted, [&](const StepValue& moment, std::vector<uint8_t> bytes) {
    if (moment.phase == StepPhase::kBefore) {
      before = std::move(bytes);
    } else if (std::memcmp(before.data() + at, bytes.data() + at, size) != 0) {
      writer = moment.step;
    }
    return Status::Ok();
  }));
  return writer;
}

}  // namespace

Status ComparedProgram::Run(const std::vector<StepValue>& wanted, const ValueTaker::Take& take) const {
  RONDO_RETURN_IF_ERROR(session->ResetState());
  return RunForValues(*session, program, inputs, wanted, take);
}

Result<ValueComparison> CompareValues(const ComparedProgram& plan, const ComparedProgram& reference,
                                      const CompareOptions& options) {
  ValueComparison comparison;
  comparison.values = Pair(plan, reference, &comparison.alone);
  const double tolerance = options.tolerance > 0 ? options.tolerance
                                                 : std::max(ToleranceOf(plan.plan(), plan.program),
                                                            ToleranceOf(reference.plan(), reference.program));
  std::vector<ComparedValue>& values = comparison.values;
  for (size_t first = 0; first < values.size();) {
    size_t end = first;
    for (uint64_t held = 0; end < values.size(); ++end) {
      held += reference.plan().buffers[values[end].reference.buffer].bytes;
      if (held > options.held && end > first) break;
    }
    RONDO_RETURN_IF_ERROR(CompareSome(plan, reference, tolerance, {&values[first], end - first}));
    ++comparison.runs;
    first = end;
    if (options.progress) options.progress(first, values.size());
  }
  return comparison;
}

Result<ValueComparison> CompareNamedValues(const ComparedProgram& plan, const NamedValues& reference,
                                           const CompareOptions& options) {
  ValueComparison comparison;
  const double tolerance = options.tolerance > 0 ? options.tolerance : ToleranceOf(plan.plan(), plan.program);
  const std::vector<StepValue> all = ValuesOf(plan);
  for (size_t first = 0; first < all.size();) {
    size_t end = first;
    std::vector<std::string> names;
    for (uint64_t held = 0; end < all.size(); ++end) {
      const Buffer& buffer = plan.plan().buffers[all[end].buffer];
      held += buffer.bytes;
      if (held > options.held && end > first) break;
      if (!buffer.name.empty()) names.emplace_back(buffer.name);
    }
    RONDO_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted, reference(names));
    RONDO_RETURN_IF_ERROR(CompareTensors(plan, wanted, tolerance, {&all[first], end - first}, &comparison));
    ++comparison.runs;
    first = end;
    if (options.progress) options.progress(first, all.size());
  }
  return comparison;
}

Result<FirstDifference> FindFirst(const ComparedProgram& plan, const ValueComparison& comparison) {
  StepGraph graph(plan.plan(), plan.program, comparison);
  FirstDifference found;
  for (const ComparedValue& value : comparison.values) {
    if (!value.differs()) continue;
    if (!graph.Shows(value.here.step)) {
      found.harmless.push_back(&value);
    } else if (found.value == nullptr) {
      found.value = &value;
    }
  }
  if (found.value == nullptr) return found;
  RONDO_ASSIGN_OR_RETURN(const uint32_t writer,
                         WriterOf(plan, *found.value, graph.WritersOf(found.value->here.buffer)));
  found.steps = graph.Unknown(writer);
  return found;
}

}  // namespace rondo::tools
