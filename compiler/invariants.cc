#include "compiler/invariants.h"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/codegen/lowered_rules.h"
#include "compiler/ir/loop.h"
#include "compiler/memory/stream_lives.h"
#include "compiler/schedule/keep_together.h"
#include "formats/plan/verifier.h"

namespace rondo {
namespace {

using ir::NodeId;

std::string Text(int64_t number) { return std::to_string(number); }

// ---------------------------------------------------------------------------------------- graphs

std::string NodeText(const ir::Node& node) {
  return "node %" + Text(node.id) + " (" + ir::Name(node.op) + ")" +
         (node.sources.empty() ? "" : " from " + node.sources[0]);
}

std::string IllFormed(const ProgramInWork& program) { return ir::Validate(program.graph); }

// By node: whether an output, an input or an effect needs it.
std::vector<char> Needed(const ir::Graph& graph) {
  std::vector<char> needed(static_cast<size_t>(graph.size()), 0);
  std::vector<NodeId> ahead;
  const auto need = [&](NodeId id) {
    if (needed[static_cast<size_t>(id)] == 0) ahead.push_back(id);
    needed[static_cast<size_t>(id)] = 1;
  };
  for (const ir::GraphOutput& output : graph.outputs) need(output.node);
  for (const ir::GraphInput& input : graph.inputs) need(input.node);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (ir::HasEffect(node)) need(id);
  }
  while (!ahead.empty()) {
    const ir::Node& node = graph.node(ahead.back());
    ahead.pop_back();
    for (NodeId in : node.inputs) need(in);
    for (NodeId before : node.strong_after) need(before);
  }
  return needed;
}

std::string Untidy(const ir::Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (node.dead) return NodeText(node) + " is dead";
    if (!graph.ComesAfterAll(node)) return NodeText(node) + " stands before what it comes after";
  }
  const std::vector<char> needed = Needed(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (needed[static_cast<size_t>(id)] == 0) return NodeText(graph.node(id)) + " is not needed";
    if (graph.node(id).op != ir::Op::kLoop) continue;
    const std::string in_body = Untidy(graph.node(id).As<ir::LoopAttrs>().info->body);
    if (!in_body.empty()) return "in the body of " + NodeText(graph.node(id)) + ": " + in_body;
  }
  return "";
}
std::string UntidyProgram(const ProgramInWork& program) { return Untidy(program.graph); }

std::string StatesBroken(const ProgramInWork& program) {
  const ir::Graph& graph = program.graph;
  std::set<int> inputs, outputs;
  for (const ir::StatePair& state : graph.states) {
    const bool there = state.input >= 0 && static_cast<size_t>(state.input) < graph.inputs.size() &&
                       state.output >= 0 && static_cast<size_t>(state.output) < graph.outputs.size();
    if (!there) return "a state is of input " + Text(state.input) + " and output " + Text(state.output);
    const ir::GraphInput& input = graph.inputs[static_cast<size_t>(state.input)];
    if (!inputs.insert(state.input).second || !outputs.insert(state.output).second)
      return "\"" + input.name + "\", or its output, is two states";
    const ir::Node& before = graph.node(input.node);
    const ir::Node& after = graph.node(graph.outputs[static_cast<size_t>(state.output)].node);
    if (!(before.shape == after.shape) || before.dtype != after.dtype)
      return "state \"" + input.name + "\" becomes another shape or type";
  }
  return "";
}

// ------------------------------------------------------------------------------ lowered programs

std::string OpText(const LoweredProgram& program, size_t op) {
  const LoweredOp& at = program.ops[op];
  return "op " + Text(static_cast<int64_t>(op)) + (at.sources.empty() ? "" : " (" + at.sources[0] + ")");
}

std::string RulesBroken(const ProgramInWork& program) { return LoweredRulesBroken(program.planned.lowered); }

// Whether op `last` depends on one of `writers`, which all precede it.
bool DependsOnOne(const LoweredProgram& program, size_t last, const std::vector<size_t>& writers) {
  std::set<size_t> seen;
  std::vector<size_t> ahead = {last};
  while (!ahead.empty()) {
    const size_t op = ahead.back();
    ahead.pop_back();
    if (op != last && std::binary_search(writers.begin(), writers.end(), op)) return true;
    for (int dep : program.ops[op].deps) {
      if (static_cast<size_t>(dep) >= writers.front() && seen.insert(static_cast<size_t>(dep)).second)
        ahead.push_back(static_cast<size_t>(dep));
    }
  }
  return false;
}

// Whether an op of the same loop writes the value, so that it was written in the previous round.
bool WrittenInLoop(const LoweredProgram& program, int loop, int value) {
  if (loop < 0) return false;
  return std::any_of(program.ops.begin(), program.ops.end(), [&](const LoweredOp& op) {
    return op.loop == loop && std::any_of(op.params.begin(), op.params.end(), [&](const LoweredBinding& p) {
             return p.value == value && p.mode != Mode::kRead;
           });
  });
}

// Every temporary is written before it is read, by order and by dependences.
std::string OutOfOrder(const ProgramInWork& in_work) {
  const LoweredProgram& program = in_work.planned.lowered;
  std::vector<std::vector<size_t>> writers(program.values.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    for (const LoweredBinding& param : op.params) {
      const LoweredValue& value = program.values[static_cast<size_t>(param.value)];
      const std::vector<size_t>& before = writers[static_cast<size_t>(param.value)];
      if (param.mode != Mode::kRead || value.kind != BufferKind::kTemporary) continue;
      if (!before.empty() && DependsOnOne(program, i, before)) continue;
      if (!WrittenInLoop(program, op.loop, param.value))
        return OpText(program, i) + " reads \"" + value.name + "\", and nothing that it depends on writes it";
    }
    for (const LoweredBinding& param : op.params) {
      std::vector<size_t>& before = writers[static_cast<size_t>(param.value)];
      if (param.mode != Mode::kRead && (before.empty() || before.back() != i)) before.push_back(i);
    }
  }
  return "";
}

std::string HasLoops(const ProgramInWork& program) {
  const LoweredProgram& lowered = program.planned.lowered;
  for (size_t i = 0; i < lowered.ops.size(); ++i) {
    if (lowered.ops[i].kind == LoweredKind::kLoop) return OpText(lowered, i) + " is a loop";
  }
  return "";
}

std::string PartitionsBroken(const ProgramInWork& program) {
  const LoweredProgram& lowered = program.planned.lowered;
  size_t next = 0;
  for (const PlannedPartition& partition : program.planned.partitions) {
    if (partition.first_step != next || partition.num_steps == 0)
      return "a partition begins at " + OpText(lowered, partition.first_step) + ", not at op " +
             Text(static_cast<int64_t>(next));
    next += partition.num_steps;
    std::set<int> started;
    for (size_t i = partition.first_step; i < std::min(next, lowered.ops.size()); ++i) {
      const LoweredOp& op = lowered.ops[i];
      if (op.kind == LoweredKind::kCollectiveStart) started.insert(op.collective);
      if (op.kind == LoweredKind::kCollectiveWait && started.erase(op.collective) == 0)
        return OpText(lowered, i) + " waits for a collective that another partition starts";
    }
    if (!started.empty()) return "collective " + Text(*started.begin()) + " outlives its partition";
  }
  if (next == lowered.ops.size()) return "";
  return "partitions hold " + Text(static_cast<int64_t>(next)) + " ops of " +
         Text(static_cast<int64_t>(lowered.ops.size()));
}

std::string MoreThanTwoUnits(const ProgramInWork& program) {
  return GatheredBeyondTwoUnits(program.gathered, program.planned.lowered);
}

std::string Parted(const ProgramInWork& program) { return RegionParted(program.planned.lowered); }

// The first of the values that reuse the same memory, one after the other.
size_t FirstInMemory(const MemoryPlan& memory, size_t value) {
  while (memory.takes_over[value] >= 0) value = static_cast<size_t>(memory.takes_over[value]);
  return value;
}

// Values in use at the same time do not overlap, and lie inside the arena.
std::string MisPlaced(const ProgramInWork& program) {
  const LoweredProgram& lowered = program.planned.lowered;
  const MemoryPlan& memory = program.planned.memory;
  struct Place {
    size_t value;
    int64_t begin, end;
  };
  std::vector<Place> places;
  for (size_t v = 0; v < lowered.values.size(); ++v) {
    const LoweredValue& value = lowered.values[v];
    if (!InArena(value.kind) || !memory.lives[v].used() || value.bytes == 0) continue;
    const int64_t begin = memory.offsets[v], end = begin + value.bytes;
    if (begin < 0 || begin % kArenaAlignment != 0 || end > memory.arena_bytes)
      return "\"" + value.name + "\" lies at " + Text(begin) + " to " + Text(end) + " of an arena of " +
             Text(memory.arena_bytes) + " bytes";
    places.push_back({v, begin, end});
  }
  const StreamOrder order(lowered);
  const StreamLives lives(lowered, order, memory.lives);
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t k = i + 1; k < places.size() && places[k].begin < places[i].end; ++k) {
      const size_t a = places[i].value, b = places[k].value;
      if (!lives.Conflict(a, b) || FirstInMemory(memory, a) == FirstInMemory(memory, b)) continue;
      return "\"" + lowered.values[a].name + "\" and \"" + lowered.values[b].name + "\" share memory at " +
             Text(places[k].begin) + " and are in use at once";
    }
  }
  return "";
}

// ------------------------------------------------------------------------------------------ plans

Status Verified(const Compilation& compilation, const ProgramInWork*) {
  return VerifyPlan(compilation.emitted.plan);
}

// The check of an invariant that only the compiler can break. `kBroken` returns how it is broken, or "".
template <std::string (*kBroken)(const ProgramInWork& program)>
Status Internal(const Compilation&, const ProgramInWork* program) {
  const std::string how = kBroken(*program);
  return how.empty() ? Status::Ok() : Status::Error(Code::kInternal, "%s", how.c_str());
}

constexpr Invariant kInvariants[] = {
    {kWellFormed, "well-formed",
     "shapes and types of nodes agree, edges lead to live nodes, there is no cycle", true,
     Internal<IllFormed>},
    {kTidy, "tidy", "nodes stand in topological order; each is needed by an output or an effect", false,
     Internal<UntidyProgram>},
    {kStatesNamed, "states", "a state's input and output are of one shape and type, and of no other state",
     false, Internal<StatesBroken>},
    {kLowered, "lowered", "values have their bytes, ops bind what they take, dependences point backwards",
     true, Internal<RulesBroken>},
    {kOrdered, "ordered", "what an op reads was written by one that it depends on", false,
     Internal<OutOfOrder>},
    {kNoLoops, "loop-free", "no op is a loop", false, Internal<HasLoops>},
    {kPartitioned, "partitioned", "partitions cover the ops in order; a collective begins and ends in one",
     false, Internal<PartitionsBroken>},
    {kPlaced, "placed",
     "values lie in the arena; what is in use at once, on whatever stream, does not overlap", false,
     Internal<MisPlaced>},
    {kTwoUnits, "two units",
     "of weights that are gathered (--weights gather), no more than two neighbouring units are in memory at "
     "once, on whatever stream",
     true, Internal<MoreThanTwoUnits>},
    {kTogether, "together", "nothing stands between ops that are kept together", true, Internal<Parted>},
    {kVerified, "verified", "the plan passes the verifier (formats/plan)", false, Verified},
};

}  // namespace

Span<const Invariant> AllInvariants() { return kInvariants; }

std::string NamesOf(Invariants invariants) {
  std::string names;
  for (const Invariant& invariant : kInvariants) {
    if ((invariants & invariant.bit) != 0) names += (names.empty() ? "" : ", ") + std::string(invariant.name);
  }
  return names;
}

Status CheckInvariants(Invariants invariants, bool thorough, const Compilation& compilation,
                       const ProgramInWork* program) {
  for (const Invariant& invariant : kInvariants) {
    if ((invariants & invariant.bit) == 0 || !(invariant.always || thorough)) continue;
    RONDO_RETURN_IF_ERROR(
        invariant.check(compilation, program).At("what it leaves is not %s", invariant.name));
  }
  return Status::Ok();
}

}  // namespace rondo
