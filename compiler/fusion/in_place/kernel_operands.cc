// Finds operands that a kernel reads exactly where it later writes.
#include <algorithm>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {

namespace {

bool HasRole(const Part& part, size_t operand) {
  bool role = operand == part.lhs || operand == part.keys || operand == part.values || operand == part.mask ||
              operand == part.limit;
  for (uint16_t r : part.rhs) role = role || operand == r;
  for (uint16_t w : part.when) role = role || operand == (w & ~kUnless);
  return role;
}

// Whether both would touch the same element at each iteration point if their parameters were bound to the
// same memory.
bool SamePlaces(const LoweredOp& op, const Operand& read, const Operand& write) {
  const LoweredBinding &from = op.params[read.param], &to = op.params[write.param];
  return read.dtype == write.dtype && read.offset == write.offset && read.indirects.empty() &&
         read.guards.empty() && write.indirects.empty() && write.guards.empty() &&
         from.byte_offset == to.byte_offset &&
         std::equal(read.strides.begin(), read.strides.end(), write.strides.begin());
}

bool LoadsComeFirst(const Part& part, size_t read, size_t write) {
  bool stored = false, first = true;
  ForEachTape(part, [&](const Tape& tape) {
    for (const TapeInst& inst : tape) {
      first = first && !(inst.op == TapeOp::kLoad && inst.arg == read && stored);
      stored = stored || (inst.op == TapeOp::kStore && inst.arg == write);
    }
  });
  return first;
}

bool IsIndex(const Part& part, size_t operand) {
  return std::any_of(part.operands.begin(), part.operands.end(), [&](const Operand& other) {
    return std::any_of(other.indirects.begin(), other.indirects.end(),
                       [&](const Indirect& indirect) { return indirect.operand == operand; });
  });
}

bool InPrologue(const Part& part, size_t operand) {
  return std::any_of(part.prologue.begin(), part.prologue.end(),
                     [&](const TapeInst& inst) { return inst.op == TapeOp::kLoad && inst.arg == operand; });
}

// Whether operand `read` reads each element at the point at which `write` writes it, before the write.
bool ReadsFirst(const LoweredOp& op, const Part& part, size_t read, size_t write) {
  const Operand& from = part.operands[read];
  return from.mode == Mode::kRead && !HasRole(part, read) && !IsIndex(part, read) &&
         !InPrologue(part, read) && SamePlaces(op, from, part.operands[write]) &&
         LoadsComeFirst(part, read, write);
}

// Whether an operand reads `value` after `write` has written it, or at other points.
bool ReadsElsewhere(const LoweredOp& op, const Part& part, int value, size_t write) {
  for (size_t k = 0; k < part.operands.size(); ++k) {
    const bool same = op.params[part.operands[k].param].value == value;
    if (k != write && same && !ReadsFirst(op, part, k, write)) return true;
  }
  return false;
}

}  // namespace

void FindInPlace(const Context& c, LoweredOp* op) {
  const Part& part = op->kernel.parts[0];
  const auto value_of = [&](const Operand& operand) { return op->params[operand.param].value; };
  for (size_t w = 0; w < part.operands.size(); ++w) {
    const Operand& write = part.operands[w];
    if (write.mode != Mode::kWrite) continue;
    for (size_t r = 0; r < part.operands.size(); ++r) {
      const Operand& read = part.operands[r];
      const bool fits = c.program.values[value_of(read)].bytes == c.program.values[value_of(write)].bytes;
      // Any other operand of the same value may read it at another point.
      const auto uses = std::count_if(part.operands.begin(), part.operands.end(), [&](const Operand& other) {
        return value_of(other) == value_of(read);
      });
      if (fits && uses == 1 && ReadsFirst(*op, part, r, w)) op->in_place.push_back({write.param, read.param});
    }
  }
}

NodeId StateReadElsewhere(const Context& c, const LoweredOp& op) {
  if (op.kind != LoweredKind::kKernel) return kNoNode;
  const auto reads_elsewhere = [&](int read, int written) {
    for (const Part& part : op.kernel.parts) {
      for (size_t k = 0; k < part.operands.size(); ++k) {
        const Operand& operand = part.operands[k];
        if (operand.mode != Mode::kRead && op.params[operand.param].value == written &&
            ReadsElsewhere(op, part, read, k))
          return true;
      }
    }
    return false;
  };
  for (const ir::StatePair& pair : c.graph.states) {
    const NodeId base = c.base(c.graph.outputs[pair.output].node);
    const NodeId input = c.graph.inputs[pair.input].node;
    if (c.places[base].InState()) continue;  // its writes and reads never share a kernel
    if (reads_elsewhere(c.homes[input].value, c.homes[input].value)) return base;
  }
  for (NodeId base : c.donated) {
    const NodeId first = FirstVersion(c.graph, base);
    if (reads_elsewhere(c.homes[c.places[first].in].value, c.homes[first].value)) return base;
  }
  return kNoNode;
}

}  // namespace rondo::fusion
