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

// An update that an atomic operation does.
std::optional<Update> AtomicUpdateOf(const Part& part) {
  const std::optional<Update> update = UpdateOf(part);
  if (!update || update->op == TapeOp::kMul) return std::nullopt;
  const DType type = part.operands[update->out].dtype;
  const bool whole = type == DType::kI64 || type == DType::kI32;
  const bool extreme = type == DType::kF32 && update->op != TapeOp::kAdd;
  return whole || extreme ? update : std::nullopt;
}

Result<PartLaunch> WriteOrderFree(const PartContext& context, const KernelConfiguration&,
                                  PartWriter* writer) {
  const Part& part = context.part;
  const Update update = *AtomicUpdateOf(part);
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

bool Suits(const PartContext& context) { return AtomicUpdateOf(context.part).has_value(); }

}  // namespace

constinit const KernelVariant kOrderFreeMap = {VariantId::kAny, kHeaders,
                                               OneCandidate<VariantId::kAny, Suits>, WriteOrderFree};

}  // namespace rondo::cuda
