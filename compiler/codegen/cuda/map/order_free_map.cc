// Parallel maps whose writes may coincide, for updates whose order does not matter: maxima, minima, and
// integer sums. Each thread computes points and updates memory with atomic operations.
#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/batches.h"
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

// Plain operands, indices among them, and then what those place: for extremes, also the element itself.
std::vector<size_t> ReadAhead(const PartContext& context, const Update& update) {
  const Part& part = context.part;
  std::vector<size_t> ahead = ReadableAhead(context, part.body, 1);
  for (const Indirect& indirect : part.operands[update.out].indirects) {
    if (std::find(ahead.begin(), ahead.end(), indirect.operand) == ahead.end())
      ahead.push_back(indirect.operand);
  }
  if (update.op != TapeOp::kAdd) ahead.push_back(part.body[update.was].arg);
  return ahead;
}

// Points of a thread, whose reads wait together.
int64_t PointsOfThread(const PartContext& context, int64_t points) {
  constexpr int64_t kMost = 4;
  constexpr double kLeastBlocks = 4;  // a multiprocessor
  int64_t each = kMost;
  while (each > 1 && static_cast<double>(points / kCudaBlock / each) < kLeastBlocks * context.Processors())
    each /= 2;
  return each;
}

Result<PartLaunch> WriteOrderFree(const PartContext& context, const KernelConfiguration&,
                                  PartWriter* writer) {
  const Part& part = context.part;
  const Update update = *AtomicUpdateOf(part);
  const Operand& out = part.operands[update.out];
  // The tape without the update, which the atomic operation does.
  std::vector<TapeInst> tape(part.body.begin(), part.body.end() - 1);
  if (update.op == TapeOp::kAdd) {
    tape[update.was].op = TapeOp::kConst;
    tape[update.was].imm.i = 0;
  }
  const size_t loops = part.loops.size();
  const int64_t points = context.Points(0, loops);
  Batches batches;
  batches.type = "u64";
  batches.operands = ReadAhead(context, update);
  batches.size = PointsOfThread(context, points);
  const int64_t of_block = batches.size * kCudaBlock;
  batches.number = "(u64)block * " + Text(of_block) + "u + threadIdx.x + r * kBlockThreads";
  batches.numbers = Text(points) + "ull";
  const std::string type = out.dtype == DType::kF32 ? "float" : out.dtype == DType::kI64 ? "i64" : "int";
  const std::string was = update.op == TapeOp::kAdd ? "" : "(" + type + ")r" + Text(update.was) + ", ";
  const std::string step = update.op == TapeOp::kAdd   ? "update_sum"
                           : update.op == TapeOp::kMax ? "update_extreme<true>"
                                                       : "update_extreme<false>";
  WriteBatches(
      context, batches, "", [&] { writer->Decode("number", 0, loops); },
      [&] {
        writer->WriteTape(Tape(tape.data(), tape.size()), "r");
        writer->Address(out);
        writer->Line("if (ok) " + step + "(p" + Text(out.param) + " + a * " + Text(ByteSize(out.dtype)) +
                     ", " + was + "(" + type + ")r" + Text(update.value) + ");");
      },
      writer);
  return WithBlocks((points + of_block - 1) / of_block);
}

bool Suits(const PartContext& context) { return AtomicUpdateOf(context.part).has_value(); }

}  // namespace

constinit const KernelVariant kOrderFreeMap = {VariantId::kAny, kHeaders,
                                               OneCandidate<VariantId::kAny, Suits>, WriteOrderFree};

}  // namespace rondo::cuda
