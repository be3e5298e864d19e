// Parallel maps whose writes may coincide, for updates whose order does not matter: maxima, minima, and
// integer sums. Each thread computes a point and updates memory with an atomic operation.
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/map/colliding_writes.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"elements", "order_free"};

struct Update {
  size_t out = 0;
  TapeOp op = TapeOp::kMax;
  uint16_t value = 0;  // the register with which the element is combined
  uint16_t was = 0;    // the one that the element was loaded into
};

// How often a register is read.
int64_t ReadersOf(Tape tape, uint16_t reg) {
  int64_t readers = 0;
  for (const TapeInst& inst : tape) {
    const int inputs = Inputs(inst.op);
    readers += (inputs > 0 && inst.a == reg) + (inputs > 1 && inst.b == reg) + (inputs > 2 && inst.c == reg);
  }
  return readers;
}

std::optional<Update> UpdateOf(const Part& part) {
  const std::optional<size_t> stored = CollidingWrite(part);
  if (!stored || part.body.empty() || part.body.back().op != TapeOp::kStore) return std::nullopt;
  const Operand& out = part.operands[*stored];
  const DType type = out.dtype;
  if (type != DType::kF32 && type != DType::kI64 && type != DType::kI32) return std::nullopt;
  const TapeInst& made = part.body[part.body.back().a];
  const bool extreme = made.op == TapeOp::kMax || made.op == TapeOp::kMin;
  if (!extreme && (made.op != TapeOp::kAdd || type == DType::kF32)) return std::nullopt;
  const auto loads = [&](uint16_t reg) {
    const TapeInst& inst = part.body[reg];
    return inst.op == TapeOp::kLoad && part.operands[inst.arg].param == out.param;
  };
  if (loads(made.a) == loads(made.b)) return std::nullopt;
  Update update = {*stored, made.op, loads(made.a) ? made.b : made.a, loads(made.a) ? made.a : made.b};
  int64_t reads = 0;
  for (uint16_t k = 0; k < part.body.size(); ++k) reads += loads(k);
  if (reads != 1 || ReadersOf(part.body, update.was) != 1) return std::nullopt;
  return update;
}

Result<PartLaunch> WriteOrderFree(const PartContext& context, const KernelConfiguration&,
                                  PartWriter* writer) {
  const Part& part = context.part;
  const Update update = *UpdateOf(part);
  const Operand& out = part.operands[update.out];
  // The tape without the element itself and the update: the atomic operation does both.
  std::vector<TapeInst> tape(part.body.begin(), part.body.end() - 1);
  tape[update.was].op = TapeOp::kConst;
  tape[update.was].imm.i = 0;
  const int64_t points = context.Points(0, part.loops.size());
  writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
  writer->Line("if (point >= " + Text(points) + "ull) return;");
  writer->Decode("point", 0, part.loops.size());
  writer->WriteTape(Tape(tape.data(), tape.size()), "r");
  writer->Address(out);
  const std::string type = out.dtype == DType::kF32 ? "float" : out.dtype == DType::kI64 ? "i64" : "int";
  const std::string step = update.op == TapeOp::kAdd   ? "update_sum"
                           : update.op == TapeOp::kMax ? "update_extreme<true>"
                                                       : "update_extreme<false>";
  writer->Line("if (ok) " + step + "(p" + Text(out.param) + " + a * " + Text(ByteSize(out.dtype)) + ", (" +
               type + ")r" + Text(update.value) + ");");
  return WithBlocks((points + kCudaBlock - 1) / kCudaBlock);
}

bool Suits(const PartContext& context) { return UpdateOf(context.part).has_value(); }

}  // namespace

constinit const KernelVariant kOrderFreeMap = {VariantId::kAny, kHeaders,
                                               OneCandidate<VariantId::kAny, Suits>, WriteOrderFree};

}  // namespace rondo::cuda
