#include "compiler/bound_nodes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/ir/loop.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/schedule/keep_together.h"

namespace rondo {
namespace {

using ir::Op;

// ------------------------------------------------------------------------------------ while it is a graph

// Provenance of live nodes, by whether they run; the strings are views into the graph.
struct Sources {
  std::unordered_set<std::string_view> running, constant, shown;
  std::set<int64_t> assertions;  // by number

  void Add(const ir::Graph& graph) {
    for (ir::NodeId id = 0; id < graph.size(); ++id) {
      const ir::Node& node = graph.node(id);
      if (node.dead || node.op == Op::kInput) continue;
      std::unordered_set<std::string_view>& to = node.op == Op::kConstant ? constant
                                                 : node.op == Op::kView   ? shown
                                                                          : running;
      to.insert(node.sources.begin(), node.sources.end());
      if (ir::IsAssertion(node)) assertions.insert(node.As<ir::PointwiseAttrs>().immediate);
      if (node.op == Op::kLoop) Add(node.As<ir::LoopAttrs>().info->body);
    }
  }
};

void NoteContractions(const ir::Graph& graph, std::set<std::string>* nodes) {
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (node.dead) continue;
    if (ir::IsContraction(node.op)) nodes->insert(node.sources.begin(), node.sources.end());
    if (node.op == Op::kLoop) NoteContractions(node.As<ir::LoopAttrs>().info->body, nodes);
  }
}

// --------------------------------------------------------------------------------------------- the steps

std::string Quoted(const std::vector<std::string>& sources) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(sources.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + sources[i];
  return text + (sources.size() > kShown ? " and " + std::to_string(sources.size() - kShown) + " more" : "");
}

std::string Said(const LoweredOp& op, const char* key) {
  const auto said = op.annotations.find(key);
  return said == op.annotations.end() ? "" : said->second;
}

// The numbers of the model's assertions (TapeOp::kAssertFinite) that the program's kernels make.
void FindAssertions(const ProgramInWork& program, std::set<int64_t>* assertions) {
  for (const LoweredOp& op : program.planned.lowered.ops) {
    for (const Part& part : op.kernel.parts) {
      ForEachTape(part, [&](const Tape& tape) {
        for (const TapeInst& inst : tape) {
          if (inst.op == TapeOp::kAssertFinite) assertions->insert(inst.imm.i);
        }
      });
    }
  }
}

// One program's steps, and whether annotations hold in them.
class Steps {
 public:
  Steps(const ProgramInWork& program, const std::set<int64_t>& asserted, const CompileOptions& options,
        bool has_streams)
      : program_(program),
        ops_(program.planned.lowered.ops),
        sources_of_(program.sources_of),
        sources_in_(program.sources_in),
        asserted_(asserted),
        has_streams_(has_streams),
        is_gpu_(options.targets.any_gpu()),
        deterministic_(options.deterministic) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      for (const std::string& source : ops_[i].sources) of_[source].push_back(i);
      if (ops_[i].loop >= 0) loops_.emplace(ops_[i].loop, i);
      if (ops_[i].loop < 0 && !IsOutside(ops_[i])) streams_.emplace(StreamSaid(ops_[i]), ops_[i].stream);
    }
    partition_.resize(ops_.size());
    for (const PlannedPartition& p : program.planned.partitions) {
      for (size_t i = 0; i < p.num_steps; ++i) partition_[p.first_step + i] = &p;
    }
  }

  bool Run(const std::string& node) const { return of_.count(node) != 0; }

  // "" if every step of the node is as the annotation says; otherwise the reason.
  std::string WhyNot(const BoundNode& bound) const {
    if (IsChoice(bound.key)) return WhyNotChosen(bound);
    if (bound.key == kAssertKey) return WhyNotAsserted(bound);
    for (size_t i : of_.at(bound.node)) {
      const std::string why = bound.key == "stream"     ? WhyNotOnStream(bound, ops_[i])
                              : bound.key == "graph"    ? WhyNotOutside(i)
                              : bound.key == "keep"     ? WhyNotKept(ops_[i])
                              : bound.key == kRegionKey ? WhyNotIn(bound.value, ops_[i])
                                                        : WhyNotAlone(bound, ops_[i]);
      if (!why.empty()) return why;
    }
    return "";
  }

 private:
  static bool IsOutside(const LoweredOp& op) {
    return op.kind == LoweredKind::kCall && !op.call->op.graph_safe;
  }
  static std::string StreamSaid(const LoweredOp& op) {
    const std::string said = Said(op, "stream");
    return said.empty() ? "0" : said;
  }
  // Names the other nodes that the step computes.
  static std::string SharedBy(const BoundNode& bound, const LoweredOp& op) {
    std::vector<std::string> others;
    std::copy_if(op.sources.begin(), op.sources.end(), std::back_inserter(others),
                 [&](const std::string& source) { return source != bound.node; });
    return others.empty() ? "a step of it was made without the annotation"
                          : "one step computes it together with " + Quoted(others);
  }

  std::string WhyNotOnStream(const BoundNode& bound, const LoweredOp& op) const {
    if (!has_streams_) return "";
    if (IsOutside(op) && bound.value != "0")
      return "a call that no graph may contain stays on stream 0: " + std::string(op.call->op.reason);
    const LoweredOp& first = op.loop < 0 ? op : ops_[loops_.at(op.loop)];
    if (op.loop >= 0 && (StreamSaid(first) != bound.value || StreamSaid(op) != bound.value))
      return "it lies in a loop, whose steps are all on one stream: annotate the loop";
    if (StreamSaid(op) != bound.value) return SharedBy(bound, op);
    const auto stream = streams_.find(bound.value);
    return op.loop >= 0 || stream == streams_.end() || stream->second == op.stream
               ? ""
               : "its step is on stream " + std::to_string(op.stream);
  }

  std::string WhyNotOutside(size_t index) const {
    const PlannedPartition& partition = *partition_[index];
    for (size_t i = partition.first_step; i < partition.first_step + partition.num_steps; ++i) {
      if (Said(ops_[i], "graph") == "off") continue;
      return i == index ? "its step was made without the annotation"
                        : "a graph holds its step and others: " + Quoted(ops_[i].sources);
    }
    return "";
  }

  std::string WhyNotKept(const LoweredOp& op) const {
    return ir::IsKeptTogether(RegionOf(op)) ? "" : WithoutRegion(op);
  }

  std::string WhyNotAsserted(const BoundNode& bound) const {
    for (size_t i = 0; i < program_.asserted.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      if (program_.asserted[i].node != bound.node || program_.asserted_of_constants.count(number) != 0)
        continue;
      if (asserted_.count(number) == 0)
        return "no step looks at its output \"" + program_.asserted[i].value + "\"";
    }
    return "";
  }

  static std::string WithoutRegion(const LoweredOp& op) {
    return op.loop >= 0 ? "it lies in a loop, which is kept together as a whole: annotate the loop"
                        : "its step was made without the annotation";
  }

  // A kernel of the region, or of a region inside it, must compute nothing from outside its own region.
  std::string WhyNotIn(const std::string& region, const LoweredOp& op) const {
    const std::string own = ir::NameOfRegion(RegionOf(op));
    if ((own + "/").rfind(region + "/", 0) != 0) return WithoutRegion(op);
    const auto inside = sources_in_.find(own);
    std::vector<std::string> others;
    for (const std::string& source : op.sources) {
      if (inside == sources_in_.end() || inside->second.count(source) == 0) others.push_back(source);
    }
    return others.empty() ? "" : "one kernel computes it together with " + Quoted(others);
  }

  // At least one kernel that contracts for the node must be marked, and each marked kernel must be as
  // annotated.
  std::string WhyNotChosen(const BoundNode& bound) const {
    std::string why = "its step was made without the annotation";
    for (size_t i : of_.at(bound.node)) {
      const LoweredOp& op = ops_[i];
      if (op.kind != LoweredKind::kKernel || Said(op, bound.key.c_str()) != bound.value) continue;
      for (const Part& part : op.kernel.parts) {
        if (!Contracts(part)) continue;
        why = bound.key == "precision" ? WhyNotPrecise(bound.value, part) : WhyNotBy(bound, op);
        if (!why.empty()) return why;
      }
    }
    return why;
  }

  static bool Contracts(const Part& part) {
    return part.skeleton == Skeleton::kMatMul || part.skeleton == Skeleton::kAttention ||
           (part.skeleton == Skeleton::kConvolution && !part.rhs.empty());
  }

  std::string WhyNotBy(const BoundNode& bound, const LoweredOp& op) const {
    const bool library = bound.value == "library";
    if (library == op.library.has_value()) return "";
    if (!library) return "a library computes it";
    if (!is_gpu_) return "plans for the host call no library for matmuls: give --target cuda:sm_90a";
    if (deterministic_) return "--deterministic generates every matmul";
    if (op.kernel.parts[0].skeleton != Skeleton::kMatMul) return "the library computes matmuls alone";
    return "the library has no such matmul: of packed or mixed types, of several weights at once, or with "
           "such "
           "work before or after it";
  }

  // Compares the type that the kernel multiplies, as it is stored in memory, with the precision.
  static std::string WhyNotPrecise(const std::string& precision, const Part& part) {
    const uint16_t second = part.skeleton == Skeleton::kAttention ? part.keys : part.rhs[0];
    const DType type = part.scales.empty() ? part.operands[second].dtype : part.packed.dtype;
    const std::string is = type == DType::kF32 && part.tf32 ? "tf32" : Name(type);
    if (is == precision) return "";
    return "it multiplies " + is +
           (type == DType::kF32 && precision != "tf32"
                ? ": positions, and numbers beyond that type, stay in f32"
                : "");
  }

  std::string WhyNotAlone(const BoundNode& bound, const LoweredOp& op) const {
    const std::string owner = Said(op, kOwnerKey);
    if (owner.empty()) return SharedBy(bound, op);
    if (!op.moves_because.empty()) return "";  // a copy names its reader, and computes nothing of it
    const std::set<std::string>& own = sources_of_.at(std::stoi(owner));
    std::vector<std::string> others;
    for (const std::string& source : op.sources) {
      if (own.count(source) == 0) others.push_back(source);
    }
    return others.empty() ? "" : "one kernel computes it together with " + Quoted(others);
  }

  const ProgramInWork& program_;
  const std::vector<LoweredOp>& ops_;
  const std::map<int, std::set<std::string>>& sources_of_;
  const std::map<std::string, std::set<std::string>>& sources_in_;
  const std::set<int64_t>& asserted_;  // assertions in the steps of all devices
  const bool has_streams_, is_gpu_, deterministic_;
  std::unordered_map<std::string_view, std::vector<size_t>> of_;  // steps by source
  std::map<int, size_t> loops_;                                   // the first step of each loop
  std::map<std::string, uint32_t> streams_;                       // by the annotation's value
  std::vector<const PlannedPartition*> partition_;                // by step
};

// Whether some program runs a node with the annotation; if not, one such node, for the message.
struct Seen {
  bool runs = false;
  const BoundNode* node = nullptr;
};

// Whether it has an output that an assertion looks at in a run.
bool Asserts(const ProgramInWork& program, const std::string& node) {
  for (size_t i = 0; i < program.asserted.size(); ++i) {
    if (program.asserted[i].node == node && program.asserted_of_constants.count(static_cast<int64_t>(i)) == 0)
      return true;
  }
  return false;
}

std::string Became(const BoundNode& node) {
  if (!node.needed) return "no output of the model needs it";
  if (node.key == kAssertKey && node.became.empty())
    return "no output of it is of floats that a run computes";
  if (IsChoice(node.key) && node.became.empty()) return "it is no matmul, convolution or attention";
  return node.became.empty() ? "others compute it where they read it" : node.became;
}

bool HasRegion(const Compilation& compilation, const std::string& pattern) {
  return std::any_of(compilation.programs.begin(), compilation.programs.end(), [&](const auto& program) {
    return std::any_of(program.sources_in.begin(), program.sources_in.end(),
                       [&](const auto& region) { return RegionsAbove(pattern, region.first) >= 0; });
  });
}

Status Refuse(const BoundNode& bound, const std::string& why) {
  return Status::Error(Code::kInvalidArgument, "%.300s (%s: %s) does not hold of %.300s: %.600s",
                       bound.by.c_str(), bound.key.c_str(), bound.value.c_str(), bound.node.c_str(),
                       why.c_str())
      .FromNode(bound.node);
}

}  // namespace

void FollowBoundNodes(const char* pass, ProgramInWork* program) {
  if (program->bound.empty()) return;
  if (std::string_view(pass) == "import") NoteContractions(program->graph, &program->contracting);
  Sources sources;
  sources.Add(program->graph);
  for (size_t i = 0; i < program->asserted.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    if (sources.assertions.count(number) == 0 && sources.constant.count(program->asserted[i].node) != 0)
      program->asserted_of_constants.insert(number);
  }
  for (BoundNode& bound : program->bound) {
    if (sources.running.count(bound.node) != 0) {
      bound.runs = true;
      bound.became.clear();
      continue;
    }
    if (!bound.became.empty()) continue;
    const std::string after = std::string(" (after pass ") + pass + ")";
    bound.became = sources.constant.count(bound.node) != 0
                       ? "it is a constant, which no kernel computes" + after
                   : sources.shown.count(bound.node) != 0
                       ? "it shows its input in another shape or order, which runs nothing" + after
                   : bound.runs ? "nothing of it is left to run" + after
                                : "it hands its input on or is known beforehand, and runs nothing" + after;
  }
}

Status AnnotationsHold(const Compilation& compilation, std::string* text) {
  const CompileOptions& options = compilation.options;
  const auto& skipped = options.skip_passes;
  const bool has_streams = std::find(skipped.begin(), skipped.end(), "streams") == skipped.end();
  std::map<std::string, Seen> seen;  // by who says it
  size_t checked = 0, nothing = 0;
  std::map<std::string, std::set<int64_t>> asserted;  // by program, on all devices
  for (const ProgramInWork& program : compilation.programs)
    FindAssertions(program, &asserted[program.source.program]);
  for (const ProgramInWork& program : compilation.programs) {
    const Steps steps(program, asserted[program.source.program], options, has_streams);
    std::set<std::pair<std::string, std::string>> done;  // nodes are repeated where loops are written out
    for (const BoundNode& bound : program.bound) {
      Seen& said = seen[bound.by];
      if (said.node == nullptr) said.node = &bound;
      if (!done.emplace(bound.node, bound.by).second) continue;
      const bool idle = (IsChoice(bound.key) && program.contracting.count(bound.node) == 0) ||
                        (bound.key == kAssertKey && !Asserts(program, bound.node));
      if (idle || !steps.Run(bound.node)) {
        ++nothing;
        continue;
      }
      ++checked;
      said.runs = true;
      const std::string why = steps.WhyNot(bound);
      if (!why.empty()) return Refuse(bound, why).At("program \"%s\"", NameOf(options, program).c_str());
    }
  }
  for (const auto& [by, said] : seen) {
    // A node that runs nothing satisfies "keep" with any others. It also lies in any region that has a node
    // which runs. It has no place in the order of steps.
    const BoundNode& node = *said.node;
    const auto runs = [&](const auto& other) {
      return other.second.runs && other.second.node->key == kRegionKey &&
             other.second.node->value == node.value;
    };
    const bool may =
        node.key == "keep" || (node.key == kRegionKey && std::any_of(seen.begin(), seen.end(), runs));
    if (!said.runs && !may) return Refuse(node, Became(node));
  }
  for (const NodeAnnotation& annotation : options.annotations) {
    const std::string by = "--annotate " + TextOf(annotation);
    if (IsOrder(annotation.key) || seen.count(by) != 0) continue;
    if (NamesRegions(annotation.node) && !HasRegion(compilation, annotation.node))
      return Status::Error(Code::kInvalidArgument, "%.300s: no node lies in such a region", by.c_str());
    return Status::Error(
        Code::kInvalidArgument,
        "%.300s holds of no node: what it names lies in a branch that is not taken, or other "
        "annotations go before it",
        by.c_str());
  }
  *text = seen.empty() ? "none" : std::to_string(checked) + " hold";
  if (nothing > 0) *text += "; " + std::to_string(nothing) + " are of nodes that run nothing";
  return Status::Ok();
}

}  // namespace rondo
