// Parallel maps whose writes may coincide, for updates whose order does not matter: maxima, minima, and
// integer sums. Each thread computes points and updates memory with atomic operations. Where many updates
// share few elements, a block combines its own in shared memory first.
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

// Plain operands, indices among them, and then what those place: for extremes that are not shared, also the
// element itself.
std::vector<size_t> ReadAhead(const PartContext& context, const Update& update, bool sharing) {
  const Part& part = context.part;
  std::vector<size_t> ahead = ReadableAhead(context, part.body, 1);
  for (const Indirect& indirect : part.operands[update.out].indirects) {
    if (std::find(ahead.begin(), ahead.end(), indirect.operand) == ahead.end())
      ahead.push_back(indirect.operand);
  }
  if (update.op != TapeOp::kAdd && !sharing) ahead.push_back(part.body[update.was].arg);
  return ahead;
}

constexpr int64_t kMostPoints = 4;  // of a thread, whose reads wait together

Result<PartLaunch> WriteOrderFree(const PartContext& context, const KernelConfiguration&,
                                  PartWriter* writer) {
  const Part& part = context.part;
  const Update update = *AtomicUpdateOf(part);
  const Operand& out = part.operands[update.out];
  const bool sum = update.op == TapeOp::kAdd;
  const int64_t sharing = BlocksThatShare(context, update);
  // The tape without the update, which the atomic operation does.
  std::vector<TapeInst> tape(part.body.begin(), part.body.end() - 1);
  if (sum || sharing != 0) {
    tape[update.was].op = TapeOp::kConst;
    tape[update.was].imm.i = 0;
  }
  const size_t loops = part.loops.size();
  const int64_t points = context.Points(0, loops);
  const bool few = points < int64_t{1} << 31;
  Batches batches;
  batches.type = few ? "u32" : "u64";
  batches.operands = ReadAhead(context, update, sharing != 0);
  batches.size = sharing != 0 ? kMostPoints : PointsOfThread(context, points, kMostPoints);
  const int64_t of_block = batches.size * kCudaBlock;
  const int64_t blocks = sharing != 0 ? sharing : (points + of_block - 1) / of_block;
  const std::string begin = "(" + batches.type + ")block * " + Text(of_block) + "u";
  if (sharing != 0)
    batches.loop = "for (u32 first = " + begin + "; first < " + Text(points) +
                   "u; first += " + Text(sharing * of_block) + "u)";
  batches.number = (sharing != 0 ? "first" : begin) + " + threadIdx.x + r * kBlockThreads";
  batches.numbers = Text(points) + (few ? "u" : "ull");
  const std::string type = out.dtype == DType::kF32 ? "float" : out.dtype == DType::kI64 ? "i64" : "int";
  const std::string value = "(" + type + ")r" + Text(update.value);
  const std::string memory = "p" + Text(out.param) + " + ", size = " * " + Text(ByteSize(out.dtype));
  const std::string words = sum ? " * 2" : "", kind = sum ? "sum" : "maximum";
  std::string step;
  if (sharing != 0)
    step = "share_" + kind + "(shares + (a - " + Text(out.offset) + ")" + words + ", " + value + ")";
  else if (sum)
    step = "update_sum(" + memory + "a" + size + ", " + value + ")";
  else
    step = "update_extreme<" + std::string(update.op == TapeOp::kMax ? "true" : "false") + ">(" + memory +
           "a" + size + ", (" + type + ")r" + Text(update.was) + ", " + value + ")";
  const std::string reach = Text(Reach(part, out)) + "u", each = "for (u32 e = threadIdx.x; e < " + reach;
  if (sharing != 0) {
    writer->Line("u32* const shares = (u32*)shared_memory;");
    writer->Line(each + words + "; e += kBlockThreads) shares[e] = 0;");
    writer->Line("__syncthreads();");
  }
  WriteBatches(
      context, batches, "", [&] { writer->Decode("number", 0, loops); },
      [&] {
        writer->WriteTape(Tape(tape.data(), tape.size()), "r");
        writer->Address(out);
        writer->Line("if (ok) " + step + ";");
      },
      writer);
  if (sharing != 0) {
    writer->Line("__syncthreads();");
    writer->Line(each + "; e += kBlockThreads) update_" + kind + "(" + memory + "(" + Text(out.offset) +
                 " + e)" + size + ", shares + e" + words + ");");
  }
  PartLaunch launch;
  if (sharing != 0) launch.shared = static_cast<uint32_t>(Reach(part, out) * ByteSize(out.dtype));
  return WithBlocks(launch, blocks);
}

bool Suits(const PartContext& context) { return AtomicUpdateOf(context.part).has_value(); }

}  // namespace

constinit const KernelVariant kOrderFreeMap = {VariantId::kAny, kHeaders,
                                               OneCandidate<VariantId::kAny, Suits>, WriteOrderFree};

}  // namespace rondo::cuda
