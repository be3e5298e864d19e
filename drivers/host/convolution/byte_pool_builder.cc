// Max pools of 8-bit integers over contiguous channels (Variant::kBytePool).
#include <cstring>

#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/byte_tapes.h"

namespace rondo::host {
namespace {

// Whether the epilogue only stores the bytes unchanged.
bool StoresTheGreatest(const PartContext& c) {
  const Tape tape = c.part.epilogue;
  const DType dtype = c.part.operands[c.part.lhs].dtype;
  const size_t store = tape.size() - 1;
  if (tape.size() < 2 || tape.size() > 3) return false;
  bool fits = tape[0].op == TapeOp::kAcc && tape[store].op == TapeOp::kStore && tape[store].a == store - 1 &&
              tape[store].arg < c.part.operands.size() && c.part.operands[tape[store].arg].dtype == dtype;
  if (store == 2)
    fits &= tape[1].op == TapeOp::kCast && tape[1].a == 0 && tape[1].imm.i == static_cast<int64_t>(dtype);
  return fits;
}

// Makes a table of what the epilogue stores for each byte (floats or bytes), if this depends only on the
// byte.
Status MakePoolTable(PartContext& c, const float** of_bytes) {
  const Tape tape = c.part.epilogue;
  if (tape[0].op != TapeOp::kAcc) return Status::Ok();
  size_t constants = 0;
  for (size_t k = 1; k < tape.size(); ++k) {
    if (tape[k].op == TapeOp::kAcc) return Status::Ok();
    constants += tape[k].op == TapeOp::kConst;
  }
  const DType dtype = c.part.operands[c.part.lhs].dtype;
  for (const bool floats : {true, false}) {
    const GrowingList<uint16_t> steps = StepsFrom(c, tape, 0, floats);
    if (!steps.ok()) return c.NoMemory();
    if (steps.empty() || 1 + constants + steps.size() != tape.size()) continue;
    Span<float> table = c.arena.New<float>(kLanes);
    if (table.data() == nullptr) return c.NoMemory();
    if (floats) {
      int64_t results[kLanes];
      RONDO_RETURN_IF_ERROR(TakeSteps(c, tape, 0, steps, dtype, results));
      std::memcpy(table.data(), results, kLanes * sizeof(float));
    } else {
      const uint8_t* bytes = nullptr;
      RONDO_RETURN_IF_ERROR(MakeByteTable(c, tape, 0, steps, dtype, &bytes));
      for (size_t i = 0; i < kLanes; ++i) table[i] = bytes[i];
    }
    *of_bytes = table.data();
    return Status::Ok();
  }
  return Status::Ok();
}

}  // namespace

bool FitsBytePool(const PartContext& c) {
  const Nest& nest = c.nest;
  constexpr int64_t kMostTaps = 1 << 12;
  if (!c.channels_last || c.part.skeleton != Skeleton::kConvolution || c.part.combine != Combine::kMax ||
      nest.first[kM] != 1 || nest.points[kOuter] != 1 || nest.points[kK] > kMostTaps) {
    return false;
  }
  const Operand& input = c.part.operands[c.part.lhs];
  if (!Is8Bit(input.dtype) || !input.indirects.empty() || c.part.epilogue.empty()) return false;
  bool fits = true;
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) fits &= guard.strides[kGroup] == 0;
  return fits;
}

Status BuildBytePool(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  const float* of_bytes = nullptr;
  if (!StoresTheGreatest(c)) {
    RONDO_RETURN_IF_ERROR(MakePoolTable(c, &of_bytes));
    if (of_bytes == nullptr) return Status::Ok();
  }
  const Access* stored = nullptr;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.epilogue[c.part.epilogue.size() - 1].arg, c.tiling, &stored));
  if (!stored->plain || stored->lane.kind != LaneKind::kUnit) return Status::Ok();
  BytePoolPart* p = c.New<BytePoolPart>(Variant::kBytePool);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->out = stored;
  p->of_bytes = of_bytes;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, c.tiling, &p->rhs[0].by_n));
  RONDO_RETURN_IF_ERROR(BuildTaps(c, *p->rhs[0].by_n, nullptr, -1, &p->taps));
  const int64_t rows = nest.points[kM];
  constexpr int64_t kMostRows = 64;
  p->block_rows = rows < kMostRows ? rows : kMostRows;
  p->tasks = (rows + p->block_rows - 1) / p->block_rows * c.tiling.tiles;
  const double points = static_cast<double>(rows) * static_cast<double>(nest.points[kN]);
  p->work = points * (0.1 + 0.03 * static_cast<double>(nest.points[kK]));
  return Status::Ok();
}

}  // namespace rondo::host
