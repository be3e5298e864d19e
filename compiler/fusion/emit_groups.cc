// Groups become ops: parts, parameters, dependencies, provenance.
#include "compiler/fusion/emit_groups.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/ir/node_annotation.h"
#include "compiler/ir/throwing_arena.h"
#include "compiler/ir/versions.h"
#include "formats/plan/copies.h"

namespace rondo::fusion {

std::vector<int64_t> DenseStrides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank));
  int64_t run = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    strides[d] = run;
    run *= shape[d];
  }
  return strides;
}

TapeInst AccInst(TapeType type, int accumulator) {
  TapeInst inst;
  inst.op = TapeOp::kAcc;
  inst.type = type;
  inst.arg = static_cast<uint16_t>(accumulator);
  return inst;
}

void AddDomain(const Shape& domain, IterationSpace* space, PartEmitter* builder) {
  for (int d = 0; d < domain.rank; ++d) space->AddLoop(domain[d]);
  builder->SetDomain(space->AddMap(ir::DenseView(domain), 0, DenseStrides(domain)));
}

const Shape& SinkDomain(const Context& context, const Group& group) {
  const Node& sink = context.node(group.sink);
  return sink.op == Op::kIndexedWrite ? context.node(sink.inputs[1]).shape : sink.shape;
}

void StoreResult(const Context& context, NodeId id, const View& view, PartEmitter* builder,
                 TapeWriter* tape) {
  if (context.node(id).op == Op::kIndexedWrite) {
    builder->StoreIndexed(tape, id, view, builder->InputValue(tape, id, 1, view));
  } else {
    builder->Store(tape, id, view, builder->Value(tape, id, view));
  }
}

void StoreSink(const Context& context, const Group& group, const View& view, PartEmitter* builder,
               TapeWriter* tape) {
  StoreResult(context, group.sink, view, builder, tape);
  for (NodeId id : group.beside) StoreResult(context, id, view, builder, tape);
}

Status EmitMap(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  IterationSpace space;
  PartEmitter builder(context, group.id, &space);
  const Shape& domain = SinkDomain(*context, group);
  AddDomain(domain, &space, &builder);
  View all = ir::DenseView(domain);
  TapeWriter collected;
  StoreSink(*context, group, all, &builder, &collected);
  if (builder.obstacle().found || !space.Resolve()) {
    *obstacle = builder.obstacle().found ? builder.obstacle() : builder.ObstacleOf(space.failed());
    return Status::Ok();
  }
  const Node& sink = context->node(group.sink);
  Part part;
  part.skeleton = Skeleton::kMap;
  bool write = sink.op == Op::kIndexedWrite;
  const bool combines = context->options.target.atomics && ir::CombinesIntoOne(sink);
  const bool collides = write && !combines && sink.As<ir::IndexedAttrs>().may_collide;
  part.sequential = collides || context->places[group.sink].upwards;
  // Updates that collide must keep their order. Otherwise the loops follow the domain or, on GPUs with many
  // threads, the memory that is written.
  const bool by_memory = !part.sequential && context->options.target.many_threads;
  space.Arrange(collides ? -1 : by_memory ? builder.WrittenMap() : 0, {Role::kOuter});
  builder.BeginEmitting();
  TapeWriter tape;
  StoreSink(*context, group, all, &builder, &tape);
  part.body = builder.CopyTape(tape);
  return builder.Finish(part, op);
}

namespace {

// The ops that must come first: those that write this op's inputs; those named by control edges (a reader of
// an older version of a state has one to the write that replaces it); and, for a state written as a whole,
// all readers of its old contents.
class Dependencies {
 public:
  explicit Dependencies(const Context& context) : c_(context) {
    for (const ir::GraphInput& input : context.graph.inputs)
      inputs_of_[context.homes[input.node].value].push_back(input.node);
  }

  void Writers(NodeId id, std::set<int>* ops) const {
    std::vector<NodeId> work = {id};
    while (!work.empty()) {
      const Node& node = c_.node(work.back());
      work.pop_back();
      if (node.op == Op::kConcat) {
        for (NodeId input : node.inputs) {
          if (c_.node(input).shape.elements() > 0) work.push_back(c_.base(input));
        }
        continue;
      }
      int group = c_.group_of[node.id];
      if (group >= 0) ops->insert(group);
      if (node.op == Op::kIndexedWrite) work.push_back(c_.base(node.inputs[0]));
      if (c_.places[node.id].how == Place::How::kJoin) work.push_back(c_.base(node.inputs[1]));
    }
  }

  // Everything that must be done before `group`.
  std::set<int> Of(const Group& group) const {
    std::set<int> ops;
    for (NodeId id : group.nodes) {
      const Node& node = c_.node(id);
      for (NodeId input : node.inputs) {
        NodeId base = c_.base(input);
        if (!c_.InGroup(base, group.id)) Writers(base, &ops);
      }
      RunBefore(node, &ops);
      StateReaders(id, &ops);
    }
    ops.erase(group.id);
    return ops;
  }

 private:
  // The ops that control edges of `node` name. For a node that no kernel computes: those of its inputs, and
  // those that it would run after.
  void RunBefore(const Node& node, std::set<int>* ops) const {
    std::vector<NodeId> ahead = {node.id};
    std::set<NodeId> seen;
    while (!ahead.empty()) {
      const Node& late = c_.node(ahead.back());
      ahead.pop_back();
      for (const auto* edges : {&late.weak_after, &late.strong_after}) {
        for (NodeId from : *edges) {
          const NodeId base = c_.base(from);
          Writers(base, ops);
          if (c_.group_of[base] < 0 && seen.insert(base).second) ahead.push_back(base);
        }
      }
    }
  }

  // A node that overwrites a whole state, or a donated input, waits for all readers of the state's old
  // contents.
  void StateReaders(NodeId id, std::set<int>* ops) const {
    if (ir::VersionStepOf(c_.graph, id).runs != kNoNode || !c_.stored[id]) return;
    int value = c_.homes[id].value;
    if (value < 0) return;
    if (c_.program.values[value].takes >= 0) value = c_.program.values[value].takes;
    if (c_.program.values[value].kind != BufferKind::kState && !c_.program.values[value].donated) return;
    for (NodeId input : inputs_of_.at(value)) {
      for (NodeId reader : c_.readers[input]) {
        if (c_.group_of[reader] >= 0) ops->insert(c_.group_of[reader]);
      }
    }
  }

  const Context& c_;
  std::unordered_map<int, std::vector<NodeId>> inputs_of_;  // by value
};

// Why the group's elements are moved, if it does nothing else.
std::string WhyMoved(const Context& c, const Group& group) {
  for (NodeId id : group.nodes) {
    if (c.places[id].copy) return c.places[id].because;
  }
  const Node& sink = c.node(group.sink);
  if (sink.op == Op::kIndexedWrite)
    return NameOf(c.graph, sink.inputs[1]) + " is written over a part of " +
           NameOf(c.graph, FirstVersion(c.graph, sink.id));
  return NameOf(c.graph, sink.id) + " is needed in this order or type, and nothing that computes reads it so";
}

void Describe(const Context& c, const Group& group, LoweredOp* op) {
  ir::SourceList sources;
  sources.Add(op->sources);
  for (NodeId id : group.anchors) sources.Add(c.node(id).sources);
  std::vector<NodeId> members = group.nodes;
  std::sort(members.begin(), members.end(),
            [&](NodeId a, NodeId b) { return c.position[a] < c.position[b]; });
  std::map<std::string, int> labels;
  for (NodeId id : members) {
    const Node& node = c.node(id);
    sources.Add(node.sources);
    for (const auto& [key, value] : node.annotations) {
      if (key == "label") {
        ++labels[value];
      } else if (!IsChoice(key) || ir::IsContraction(node.op)) {
        op->annotations.emplace(key, value);
      }
    }
  }
  op->sources = sources.Take();
  op->nodes = members;
  if (op->kind == LoweredKind::kKernel && OnlyMoves(op->kernel.parts[0]))
    op->moves_because = WhyMoved(c, group);
  std::string label = group.skeleton == Skeleton::kAttention ? "attention" : "";
  int most = 0;
  for (const auto& [text, count] : labels) {
    if (label != "attention" && count > most) {
      most = count;
      label = text;
    }
  }
  if (!label.empty()) op->kernel.label = c.program.arena->CopyText(label);
}

// The conditions under which any of its nodes is needed.
Conditions NeededWhere(const Context& c, const Group& group) {
  if (c.needed.empty()) return {};
  Conditions where = c.needed[static_cast<size_t>(group.nodes[0])].where;
  for (NodeId id : group.nodes) where = Common(where, c.needed[static_cast<size_t>(id)].where);
  return where;
}

// Makes the part test the conditions first.
void AddConditions(Context* context, const Conditions& where, LoweredOp* op) {
  if (where.empty()) return;
  Arena& arena = *context->program.arena;
  Part part = op->kernel.parts[0];
  std::vector<Operand> operands(part.operands.begin(), part.operands.end());
  std::vector<uint16_t> when;
  for (const Condition& condition : where) {
    const Home home = HomeOf(context, condition.base);
    View element = ir::DenseView(Shape{});
    element.steps[0].offset = condition.element;
    const View place = ir::Compose(home.placement, element);
    Operand operand;
    operand.dtype = DType::kBool;
    operand.strides = arena.Copy(std::vector<int64_t>(part.loops.size(), 0));
    operand.param = static_cast<uint16_t>(op->params.size());
    when.push_back(static_cast<uint16_t>(operands.size() | (condition.holds ? 0 : kUnless)));
    operands.push_back(operand);
    op->params.push_back({home.value, static_cast<uint64_t>(place.steps.back().offset), Mode::kRead});
  }
  part.operands = arena.Copy(operands);
  part.when = arena.Copy(when);
  op->kernel.num_params = static_cast<uint16_t>(op->params.size());
  op->kernel.parts = arena.Copy(std::vector<Part>{part});
}

Status EmitPart(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  switch (group.skeleton) {
    case Skeleton::kMap: return EmitMap(context, group, op, obstacle);
    case Skeleton::kReduction: return EmitReduction(context, group, op, obstacle);
    case Skeleton::kMatMul: return EmitMatmul(context, group, op, obstacle);
    case Skeleton::kConvolution: return EmitConvolution(context, group, op, obstacle);
    case Skeleton::kAttention: return EmitAttention(context, group, op, obstacle);
    case Skeleton::kTopK: return EmitTopK(context, group, op, obstacle);
  }
  return Status::Error(Code::kInternal, "unknown skeleton");
}

Status EmitGroup(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  if (group.collective) return EmitCollective(context, group, op, obstacle);
  if (group.call) return EmitCall(context, group, op, obstacle);
  if (group.loop) return EmitLoop(context, group, op, obstacle);
  const Conditions where = NeededWhere(*context, group);
  for (NodeId id : group.nodes) {
    if (context->needed.empty() || !context->needed[static_cast<size_t>(id)].faults ||
        context->needed[static_cast<size_t>(id)].where == where)
      continue;
    *obstacle = {true, id, -1, ""};  // in another kernel, its index could be anything
    return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(EmitPart(context, group, op, obstacle));
  if (!obstacle->found) AddConditions(context, where, op);
  return Status::Ok();
}

// Whether the part exceeds a kernel's limits. Budgets are lower, so this only happens where they are inexact
// (loops that were split often, for example).
bool TooLong(const LoweredOp& op) {
  if (op.kind != LoweredKind::kKernel) return false;
  const Part& part = op.kernel.parts[0];
  const auto longer = [](const Tape& tape) { return tape.size() > static_cast<size_t>(kMaxTape); };
  return longer(part.prologue) || longer(part.body) || longer(part.epilogue) ||
         std::any_of(part.stages.begin(), part.stages.end(), [&](const Stage& s) { return longer(s.tape); });
}

// Appends an op (for a collective: both of its ops). Returns the index of the last one, after which the group
// is complete.
int Append(LoweredProgram* program, LoweredOp op) {
  const bool waits = op.kind == LoweredKind::kCollectiveStart;
  program->ops.push_back(std::move(op));
  const int index = static_cast<int>(program->ops.size()) - 1;
  if (!waits) return index;
  program->ops.push_back(WaitFor(program->ops.back(), index));
  return index + 1;
}

// Collectives are numbered in the order of their starts.
void NumberCollectives(LoweredProgram* program) {
  std::vector<LoweredCollective> ordered;
  int number = -1;
  for (LoweredOp& op : program->ops) {
    if (op.kind != LoweredKind::kCollectiveStart && op.kind != LoweredKind::kCollectiveWait) continue;
    if (op.kind == LoweredKind::kCollectiveStart) {
      ordered.push_back(program->collectives[op.collective]);
      ++number;
    }
    op.collective = number;  // a wait comes after its start
  }
  program->collectives = std::move(ordered);
}

// Collectives start in list order. If one follows another only for that reason, it need not wait for it.
void KeepStartsInOrder(LoweredProgram* program) {
  int last = -1;
  for (size_t i = 0; i < program->ops.size(); ++i) {
    LoweredOp& op = program->ops[i];
    if (op.kind != LoweredKind::kCollectiveStart) continue;
    std::erase_if(op.deps, [&](int d) {
      const LoweredOp& before = program->ops[static_cast<size_t>(d)];
      return before.kind == LoweredKind::kCollectiveWait &&
             std::none_of(op.params.begin(), op.params.end(), [&](const LoweredBinding& a) {
               return a.value == before.params[0].value || a.value == before.params[1].value;
             });
    });
    if (last >= 0) op.deps.push_back(last);
    std::sort(op.deps.begin(), op.deps.end());
    last = static_cast<int>(i);
  }
}

// Appends the ops of all groups to context->program: every op after those it needs, ties by the position of
// the group's last node.
Status AppendInOrder(Context* context, std::vector<LoweredOp> ops) {
  Context& c = *context;
  const Dependencies dependencies(c);
  std::vector<std::set<int>> needs(c.groups.size());
  std::vector<std::vector<int>> feeds(c.groups.size());
  std::vector<int> waiting(c.groups.size(), 0), last(c.groups.size(), 0);
  for (const Group& group : c.groups) {
    needs[group.id] = dependencies.Of(group);
    waiting[group.id] = static_cast<int>(needs[group.id].size());
    for (int from : needs[group.id]) feeds[from].push_back(group.id);
    for (NodeId id : group.nodes) last[group.id] = std::max(last[group.id], c.position[id]);
  }
  std::set<std::pair<int, int>> ready;
  for (const Group& group : c.groups) {
    if (waiting[group.id] == 0) ready.insert({last[group.id], group.id});
  }
  std::vector<int> place(c.groups.size(), -1);
  size_t placed = 0;
  while (!ready.empty()) {
    int group = ready.begin()->second;
    ready.erase(ready.begin());
    ++placed;
    for (int from : needs[group]) ops[group].deps.push_back(place[from]);
    std::sort(ops[group].deps.begin(), ops[group].deps.end());
    place[group] = Append(&c.program, std::move(ops[group]));
    for (int next : feeds[group]) {
      if (--waiting[next] == 0) ready.insert({last[next], next});
    }
  }
  if (placed != c.groups.size()) {
    std::string stuck;
    for (const Group& group : c.groups) {
      if (place[group.id] < 0 && stuck.size() < 300) stuck += " " + SourcesOf(c.node(group.nodes[0]));
    }
    return Status::Error(Code::kInternal, "kernels wait for each other after fusion:%s", stuck.c_str());
  }
  NumberCollectives(&c.program);
  KeepStartsInOrder(&c.program);
  return Status::Ok();
}

}  // namespace

Status EmitGroups(Context* context, std::vector<Obstacle>* obstacles) {
  Context& c = *context;
  c.program.arena = ir::NewArena();
  c.program.ops.clear();
  c.program.collectives.clear();
  std::vector<LoweredOp> ops(c.groups.size());
  for (const Group& group : c.groups) {
    LoweredOp* op = &ops[group.id];
    Obstacle found;
    Status status = EmitGroup(context, group, op, &found);
    // Too much for one kernel may fit in several.
    if (status.code() == Code::kUnsupported && !c.FusionOff(group.nodes[0])) {
      found = {true, group.nodes[0], -1, ""};
    } else if (!status.ok()) {
      const std::string what = SourcesOf(c.node(group.nodes[0]));
      return status.At("%s", what.c_str()).FromNode(what);
    } else if (!found.found && TooLong(*op)) {
      found = {true, group.nodes[0], -1, ""};
    } else if (!found.found && !c.places[group.sink].upwards) {
      found.written = StateReadElsewhere(c, *op);
      found.found = found.written != kNoNode;
    }
    if (found.found) {
      found.group = group.id;
      if (found.reader == kNoNode) found.reader = group.nodes[0];
      obstacles->push_back(found);
      continue;
    }
    Describe(c, group, op);
    if (op->kind == LoweredKind::kKernel && group.skeleton != Skeleton::kReduction) FindInPlace(c, op);
  }
  return obstacles->empty() ? AppendInOrder(context, std::move(ops)) : Status::Ok();
}

}  // namespace rondo::fusion
