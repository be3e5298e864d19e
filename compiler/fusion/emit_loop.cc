// Loops: one op over dense memory, whose body is a program of its own.
#include <algorithm>

#include "compiler/fusion/emit_groups.h"
#include "compiler/ir/loop.h"

namespace rondo {

bool LoweredLoop::EndsWhereItBegins(size_t output) const {
  return carrier[output] >= 0 && (in_place[output] || info->trips % 2 == 0);
}

namespace fusion {
namespace {

// Whether the op that first writes `out` may write it over `in`: nothing reads `in` later, and the op reads
// each element where it writes it. If so, makes it depend on all readers of `in`, since ops may be reordered.
bool UpdateInPlace(LoweredProgram* program, int in, int out) {
  LoweredProgram& body = *program;
  size_t first = 0;
  const auto binds = [&](size_t op, int value) {
    return std::count_if(body.ops[op].params.begin(), body.ops[op].params.end(),
                         [&](const LoweredBinding& p) { return p.value == value; });
  };
  while (first < body.ops.size() && binds(first, out) == 0) ++first;
  if (first == body.ops.size()) return false;
  for (size_t i = first + 1; i < body.ops.size(); ++i) {
    if (binds(i, in) != 0) return false;
  }
  LoweredOp& op = body.ops[first];
  const auto same_elements = [&](const InPlacePair& pair) {
    const LoweredBinding &from = op.params[static_cast<size_t>(pair.read)],
                         &to = op.params[static_cast<size_t>(pair.write)];
    return from.value == in && to.value == out && from.byte_offset == 0 && to.byte_offset == 0;
  };
  if (binds(first, in) != 0 && (binds(first, in) != 1 || binds(first, out) != 1 ||
                                std::none_of(op.in_place.begin(), op.in_place.end(), same_elements)))
    return false;
  for (size_t i = 0; i < first; ++i) {
    const int reader = static_cast<int>(i);
    if (binds(i, in) != 0 && std::find(op.deps.begin(), op.deps.end(), reader) == op.deps.end())
      op.deps.push_back(reader);
  }
  std::sort(op.deps.begin(), op.deps.end());
  return true;
}

// Whether the operand is a single element for all points of the part.
bool IsOne(const Operand& operand) {
  return operand.indirects.empty() && operand.guards.empty() &&
         std::all_of(operand.strides.begin(), operand.strides.end(), [](int64_t s) { return s == 0; });
}

// The condition without which the part, which writes `out` over `in`, changes nothing: it stores
// Select(condition, ..., the old value). kNoOperand: none.
uint16_t KeepsUnless(const LoweredOp& op, const Part& part, int in, int out) {
  const auto value_of = [&](uint16_t operand) { return op.params[part.operands[operand].param].value; };
  const Tape& tape = part.skeleton == Skeleton::kMap ? part.body : part.epilogue;
  uint16_t condition = kNoOperand;
  for (const TapeInst& inst : tape) {
    if (Combines(inst.op)) return kNoOperand;
    if (inst.op != TapeOp::kStore) continue;
    const TapeInst& chosen = tape[inst.a];
    if (condition != kNoOperand || value_of(inst.arg) != out || chosen.op != TapeOp::kSelect)
      return kNoOperand;
    const TapeInst &by = tape[chosen.a], &yes = tape[chosen.b], &no = tape[chosen.c];
    const auto loads = [&](const TapeInst& load, int value) {
      return load.op == TapeOp::kLoad && value_of(load.arg) == value;
    };
    if (by.op != TapeOp::kLoad || !IsOne(part.operands[by.arg]) ||
        part.operands[by.arg].dtype != DType::kBool)
      return kNoOperand;
    if (!loads(no, in) && !loads(yes, in)) return kNoOperand;
    condition = static_cast<uint16_t>(by.arg | (loads(no, in) ? 0 : kUnless));
  }
  return condition;
}

// Skips writes of values that a round leaves unchanged in place.
void SkipWhatStays(LoweredProgram* body, int in, int out) {
  for (LoweredOp& op : body->ops) {
    std::vector<Part> parts(op.kernel.parts.begin(), op.kernel.parts.end());
    for (Part& part : parts) {
      const uint16_t condition = KeepsUnless(op, part, in, out);
      if (condition == kNoOperand) continue;
      std::vector<uint16_t> when(part.when.begin(), part.when.end());
      when.push_back(condition);
      part.when = body->arena->Copy(when);
      op.kernel.parts = body->arena->Copy(parts);
    }
  }
}

}  // namespace

Result<std::shared_ptr<const LoweredLoop>> LowerLoop(const std::shared_ptr<const ir::LoopInfo>& info,
                                                     const FuseOptions& options) {
  auto loop = std::make_shared<LoweredLoop>();
  loop->info = info;
  FuseOptions of_body = options;
  of_body.needed_where = info->when;
  RONDO_ASSIGN_OR_RETURN(loop->body, Fuse(info->body, of_body, nullptr));
  loop->carrier.assign(info->outputs.size(), -1);
  loop->in_place.assign(info->outputs.size(), false);
  for (size_t k = 0; k < info->inputs.size(); ++k) {
    const ir::LoopInput& in = info->inputs[k];
    if (in.kind != ir::LoopInputKind::kCarried || info->outputs[in.next].rows) continue;
    loop->carrier[in.next] = static_cast<int>(k);
    const int before = loop->body.inputs[k].value, after = loop->body.outputs[in.next].value;
    loop->in_place[in.next] = UpdateInPlace(&loop->body, before, after);
    if (loop->in_place[in.next]) SkipWhatStays(&loop->body, before, after);
  }
  return std::shared_ptr<const LoweredLoop>(std::move(loop));
}

NodeId LoopResultOf(const Context& context, NodeId loop, size_t output) {
  for (NodeId reader : context.readers[loop]) {
    if (context.node(reader).As<ir::LoopAttrs>().output == output) return reader;
  }
  return ir::kNoNode;
}

Status EmitLoop(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  const NodeId id = group.nodes[0];
  const ir::Node& node = context->node(id);
  op->kind = LoweredKind::kLoop;
  op->rounds = context->loops->at(node.As<ir::LoopAttrs>().info.get());
  const ir::LoopInfo& info = *op->rounds->info;
  for (size_t k = 0; k < info.inputs.size(); ++k) {
    const NodeId input = node.inputs[k];
    const Home from = HomeOf(context, context->base(input));
    const ir::View read = ir::Compose(from.placement, context->graph.ViewOf(input));
    if (!ir::IsDense(read, context->node(input).shape.elements())) {
      *obstacle = {true, id, static_cast<int>(k), "a loop reads dense memory"};
      return Status::Ok();
    }
    const bool changed =
        info.inputs[k].kind == ir::LoopInputKind::kCarried && !info.outputs[info.inputs[k].next].rows;
    op->params.push_back({from.value, 0, changed ? Mode::kReadWrite : Mode::kRead});
  }
  const auto memory = [&](size_t output) {
    LoweredValue value;
    value.dtype = info.body.node(info.body.outputs[output].node).dtype;
    value.shape = info.ResultShape(output);
    value.bytes = info.ResultBytes(output);
    value.sources = node.sources;
    context->program.values.push_back(std::move(value));
    return static_cast<int>(context->program.values.size()) - 1;
  };
  for (size_t o = 0; o < info.outputs.size(); ++o) {
    const NodeId result = LoopResultOf(*context, id, o);
    const int value = op->rounds->EndsWhereItBegins(o)
                          ? op->params[static_cast<size_t>(op->rounds->carrier[o])].value
                      : result == ir::kNoNode ? memory(o)
                                              : HomeOf(context, result).value;
    op->params.push_back({value, 0, Mode::kWrite});
  }
  // The second place of values that are passed between rounds.
  for (size_t o = 0; o < info.outputs.size(); ++o) {
    if (op->rounds->carrier[o] < 0 || op->rounds->in_place[o]) continue;
    const int value = op->rounds->EndsWhereItBegins(o)
                          ? memory(o)
                          : op->params[static_cast<size_t>(op->rounds->carrier[o])].value;
    op->params.push_back({value, 0, Mode::kWrite});
  }
  return Status::Ok();
}

}  // namespace fusion
}  // namespace rondo
