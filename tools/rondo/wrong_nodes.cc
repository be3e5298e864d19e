#include "tools/rondo/wrong_nodes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "runtime/verify/value_names.h"
#include "tools/rondo/kernel_probe.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

// A value of the reference that is searched in registers. If a node was split into equal parts along a dim
// (Split), a register holds one of them.
class SoughtValue {
 public:
  explicit SoughtValue(Tensor tensor) : tensor_(std::move(tensor)), sorted_(Sorted(tensor_)) {}

  // Looks at a register with elements `sorted`. True once all of the value has been seen.
  bool See(const std::vector<double>& sorted, double tolerance) {
    if (Agree(sorted, sorted_, tolerance)) return true;
    const auto all = static_cast<int64_t>(sorted_.size()), some = static_cast<int64_t>(sorted.size());
    if (some == 0 || all % some != 0) return false;
    const int64_t parts = all / some;
    for (int dim = 0; dim < tensor_.shape.rank; ++dim) {
      if (tensor_.shape[dim] % parts != 0 || parts < 2 || parts > kMostParts) continue;
      std::vector<bool>& seen = seen_[{dim, parts}];
      seen.resize(static_cast<size_t>(parts), false);
      for (int64_t part = 0; part < parts; ++part) {
        if (!seen[static_cast<size_t>(part)])
          seen[static_cast<size_t>(part)] = Agree(sorted, SortedPart(dim, parts, part), tolerance);
      }
      if (std::all_of(seen.begin(), seen.end(), [](bool one) { return one; })) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kMostParts = 8;

  std::vector<double> SortedPart(int dim, int64_t parts, int64_t part) const {
    Tensor cut;
    cut.dtype = tensor_.dtype;
    int64_t outer = 1, inner = ByteSize(tensor_.dtype);
    for (int d = 0; d < dim; ++d) outer *= tensor_.shape[d];
    for (int d = dim; d < tensor_.shape.rank; ++d) inner *= tensor_.shape[d];
    cut.shape = Shape{tensor_.shape.elements() / parts};
    for (int64_t o = 0; o < outer; ++o) {
      const auto from = tensor_.bytes.begin() + o * inner + part * (inner / parts);
      cut.bytes.insert(cut.bytes.end(), from, from + inner / parts);
    }
    return Sorted(cut);
  }

  Tensor tensor_;
  std::vector<double> sorted_;
  std::map<std::pair<int, int64_t>, std::vector<bool>> seen_;  // by dim and number of parts
};

// One step of the reference that computes nodes of the kernel.
struct ReferenceNode {
  std::string label;
  std::vector<StepValue> values;      // that the step writes
  std::vector<SoughtValue> sought;    // the same values
  std::vector<size_t> before, after;  // indices into the list of nodes
  bool seen = false;                  // the kernel has its value
  bool right = false;
};

// The steps of the reference with a label in `sources`, in its order, with the links between them.
std::vector<ReferenceNode> NodesOf(const ComparedProgram& reference, std::string_view sources) {
  std::set<uint32_t> steps;
  const ValueNames names(reference.plan());
  for (std::string_view label : LabelsOf(sources)) {
    for (uint32_t step : names.Steps(reference.program, label)) steps.insert(step);
  }
  const std::vector<StepBuffers> buffers = BuffersOfSteps(reference.plan(), reference.program);
  std::vector<ReferenceNode> nodes;
  std::map<uint32_t, size_t> writer;  // by buffer
  for (uint32_t step : steps) {
    ReferenceNode node;
    node.label =
        SourceText(reference.plan(), reference.plan().programs[reference.program].steps[step].source);
    for (uint32_t buffer : buffers[step].reads) {
      const auto from = writer.find(buffer);
      if (from == writer.end()) continue;
      node.before.push_back(from->second);
      nodes[from->second].after.push_back(nodes.size());
    }
    for (uint32_t buffer : buffers[step].writes) {
      if (reference.plan().buffers[buffer].kind == BufferKind::kWorkspace) continue;
      writer[buffer] = nodes.size();
      node.values.push_back({buffer, step, StepPhase::kAfter});
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Status ReadValues(const ComparedProgram& reference, std::vector<ReferenceNode>* nodes) {
  std::vector<StepValue> wanted;
  std::map<std::pair<uint32_t, uint32_t>, ReferenceNode*> writer;
  for (ReferenceNode& node : *nodes) {
    for (const StepValue& value : node.values) {
      wanted.push_back(value);
      writer[{value.step, value.buffer}] = &node;
    }
  }
  return reference.Run(wanted, [&](const StepValue& value, std::vector<uint8_t> bytes) {
    Result<Tensor> tensor = TensorOf(reference.plan(), value.buffer, std::move(bytes));
    if (tensor.ok()) writer[{value.step, value.buffer}]->sought.emplace_back(tensor.Take());
    return Status::Ok();
  });
}

void See(const Tensor& tensor, double tolerance, std::vector<ReferenceNode>* nodes) {
  const std::vector<double> sorted = Sorted(tensor);
  for (ReferenceNode& node : *nodes) {
    for (SoughtValue& sought : node.sought) node.seen = node.seen || sought.See(sorted, tolerance);
  }
}

bool AllSeen(const std::vector<ReferenceNode>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const ReferenceNode& node) { return node.seen; });
}

void Add(const std::string& label, std::vector<std::string>* list) {
  if (std::find(list->begin(), list->end(), label) == list->end()) list->push_back(label);
}

void Judge(std::vector<ReferenceNode>* nodes, WrongNodes* found) {
  for (size_t n = nodes->size(); n-- > 0;) {
    ReferenceNode& node = (*nodes)[n];
    node.right = node.seen || std::any_of(node.after.begin(), node.after.end(),
                                          [&](size_t after) { return (*nodes)[after].right; });
  }
  for (const ReferenceNode& node : *nodes) {
    const bool begins = std::all_of(node.before.begin(), node.before.end(),
                                    [&](size_t before) { return (*nodes)[before].right; });
    Add(node.label, node.right ? &found->right : begins ? &found->first : &found->others);
  }
}

// The elements of `of` whose bytes differ between `before` and `after`, as f64.
Tensor Changed(const Tensor& of, const Tensor& before, const Tensor& after) {
  const auto size = static_cast<size_t>(ByteSize(before.dtype));
  Tensor changed{of.name, DType::kF64, Shape{0}, {}};
  for (int64_t i = 0; i < of.shape.elements(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(&before.bytes[at], &after.bytes[at], size) == 0) continue;
    const double element = ElementAsDouble(of, i);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&element);
    changed.bytes.insert(changed.bytes.end(), bytes, bytes + sizeof(element));
    ++changed.shape[0];
  }
  return changed;
}

// Whether the kernel, run on the host over the same memory, stores the reference's values.
Result<bool> RightOnHost(const ComparedProgram& plan, uint32_t step, const BoundMemory& memory,
                         const ComparedValue& value, const ComparedProgram& reference) {
  const uint32_t buffer = value.here.buffer;
  RONDO_ASSIGN_OR_RETURN(const BoundMemory after, LaunchOnHost(plan.plan(), plan.program, step, memory));
  if (after.count(buffer) == 0) return false;
  Tensor want;
  RONDO_RETURN_IF_ERROR(
      reference.Run({value.reference}, [&](const StepValue& at, std::vector<uint8_t> bytes) -> Status {
        RONDO_ASSIGN_OR_RETURN(want, TensorOf(reference.plan(), at.buffer, std::move(bytes)));
        return Status::Ok();
      }));
  RONDO_ASSIGN_OR_RETURN(const Tensor was, TensorOf(plan.plan(), buffer, memory.at(buffer)));
  RONDO_ASSIGN_OR_RETURN(const Tensor got, TensorOf(plan.plan(), buffer, after.at(buffer)));
  const Tensor got_changed = Changed(got, was, got), want_changed = Changed(want, was, got);
  return got_changed.shape[0] > 0 && ErrorOf(got_changed, want_changed).greatest <= value.tolerance;
}

}  // namespace

Result<WrongNodes> FindWrongNodes(const ComparedProgram& plan, uint32_t step, const ComparedValue* value,
                                  const ComparedProgram& reference, double tolerance) {
  WrongNodes found;
  found.step = step;
  const Step& of = plan.plan().programs[plan.program].steps[step];
  if (of.kind != StepKind::kLaunch) {
    found.not_known = std::string("the step is no kernel but a ") + Name(of.kind);
    return found;
  }
  std::vector<StepValue> bound;
  for (const Binding& binding : of.bindings) {
    const auto same = [&](const StepValue& at) { return at.buffer == binding.buffer; };
    if (std::none_of(bound.begin(), bound.end(), same))
      bound.push_back({binding.buffer, step, StepPhase::kBefore});
  }
  BoundMemory memory;
  RONDO_RETURN_IF_ERROR(plan.Run(bound, [&](const StepValue& at, std::vector<uint8_t> bytes) {
    memory[at.buffer] = std::move(bytes);
    return Status::Ok();
  }));
  if (value != nullptr) {
    RONDO_ASSIGN_OR_RETURN(found.right_on_host, RightOnHost(plan, step, memory, *value, reference));
    if (found.right_on_host) return found;
  }
  std::vector<ReferenceNode> nodes = NodesOf(reference, SourceText(plan.plan(), of.source));
  if (nodes.size() < 2) {
    for (const ReferenceNode& node : nodes) found.first.push_back(node.label);
    if (nodes.empty()) found.not_known = "the reference has no step of these nodes";
    return found;
  }
  RONDO_RETURN_IF_ERROR(ReadValues(reference, &nodes));
  RONDO_RETURN_IF_ERROR(ForEachRegister(plan.plan(), plan.program, step, memory, [&](const Tensor& tensor) {
    See(tensor, tolerance, &nodes);
    return !AllSeen(nodes);
  }));
  Judge(&nodes, &found);
  const Kernel& kernel = plan.plan().kernels[of.kernel];
  if (std::any_of(kernel.parts.begin(), kernel.parts.end(),
                  [](const Part& part) { return part.skeleton == Skeleton::kAttention; })) {
    // Attention keeps scores and weights in no register.
    found.first.insert(found.first.end(), found.others.begin(), found.others.end());
    found.others.clear();
  }
  if (value != nullptr && found.first.empty()) {  // the elements are right, but not their order
    for (const ReferenceNode& node : nodes) {
      for (const StepValue& at : node.values) {
        if (at.buffer != value->reference.buffer) continue;
        found.first.push_back(node.label);
        std::erase(found.right, node.label);
      }
    }
  }
  return found;
}

}  // namespace rondo::tools
