// Depthwise convolutions and pools over channels that lie side by side (Path::kChannels).
#include <cstring>

#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;  // groups of the nest

}  // namespace

// f32, one input channel an output channel, and no index from data.
bool PartBuilder::FitsChannels() const {
  const Nest& nest = out_->nest;
  if (!channels_ || part_.acc_type != TapeType::kF32 || nest.first[kM] != 1 || nest.points[kOuter] != 1) {
    return false;
  }
  if (part_.loops[2] != 1 || part_.loops[3 + part_.n] != 1) return false;
  constexpr int64_t kMostTaps = 1 << 12;
  if (nest.points[kK] > kMostTaps) return false;
  const Operand& input = part_.operands[part_.lhs];
  const bool pool = part_.combine != Combine::kProduct;
  bool fits = input.dtype == DType::kF32 && input.indirects.empty() && (pool || input.absent == 0);
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) fits &= guard.strides[kGroup] == 0;
  if (!fits || pool) return fits;
  const Operand& weight = part_.operands[part_.rhs[0]];
  return weight.dtype == DType::kF32 && weight.indirects.empty() && weight.guards.empty();
}

Status PartBuilder::BuildChannels() {
  const Nest& nest = out_->nest;
  out_->path = Path::kChannels;
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.lhs, out_->tiling, &out_->rhs[0].by_n));
  if (out_->has_lhs) RONDO_RETURN_IF_ERROR(BuildAccess(part_.rhs[0], out_->tiling, &out_->weight));
  RONDO_RETURN_IF_ERROR(BuildEpilogue());
  RONDO_RETURN_IF_ERROR(BuildTaps(*out_->rhs[0].by_n, -1));
  const int64_t rows = nest.points[kM];
  const double points = static_cast<double>(rows) * static_cast<double>(nest.points[kN]);
  out_->work = points * (0.3 + 0.05 * static_cast<double>(nest.points[kK]));
  out_->acc_row = AccumulatorRow(out_->tiling, engine_);
  constexpr int64_t kMostAcc = int64_t{16} << 10;  // floats: what the second cache holds beside the input
  out_->block_rows = RowsOfLines(kMostAcc / out_->acc_row);
  out_->tasks = (rows + out_->block_rows - 1) / out_->block_rows * out_->tiling.tiles;
  out_->acc_stride = out_->block_rows * out_->acc_row * 4;
  out_->acc_at = Take(out_->acc_stride);
  out_->taps_at = Take(Bytes(nest.points[kK], 2, sizeof(int64_t)));
  return Status::Ok();
}

// Whether the epilogue is no more than a store of bytes as they are.
bool PartBuilder::StoresTheGreatest() const {
  const Tape tape = part_.epilogue;
  const DType dtype = part_.operands[part_.lhs].dtype;
  const size_t store = tape.size() - 1;
  if (tape.size() < 2 || tape.size() > 3) return false;
  bool fits = tape[0].op == TapeOp::kAcc && tape[store].op == TapeOp::kStore && tape[store].a == store - 1 &&
              tape[store].arg < part_.operands.size() && part_.operands[tape[store].arg].dtype == dtype;
  if (store == 2)
    fits &= tape[1].op == TapeOp::kCast && tape[1].a == 0 && tape[1].imm.i == static_cast<int64_t>(dtype);
  return fits;
}

// A table of what the epilogue stores for each byte, where that follows from nothing else: floats, or bytes.
Status PartBuilder::MakePoolTable() {
  const Tape tape = part_.epilogue;
  if (tape[0].op != TapeOp::kAcc) return Status::Ok();
  size_t constants = 0;
  for (size_t k = 1; k < tape.size(); ++k) {
    if (tape[k].op == TapeOp::kAcc) return Status::Ok();
    constants += tape[k].op == TapeOp::kConst;
  }
  const DType dtype = part_.operands[part_.lhs].dtype;
  for (const bool floats : {true, false}) {
    const GrowingList<uint16_t> steps = StepsFrom(tape, 0, floats);
    if (!steps.ok()) return NoMemory();
    if (steps.empty() || 1 + constants + steps.size() != tape.size()) continue;
    Span<float> table = arena_.New<float>(kLanes);
    if (table.data() == nullptr) return NoMemory();
    if (floats) {
      int64_t results[kLanes];
      RONDO_RETURN_IF_ERROR(TakeSteps(tape, 0, steps, dtype, results));
      std::memcpy(table.data(), results, kLanes * sizeof(float));
    } else {
      const uint8_t* bytes = nullptr;
      RONDO_RETURN_IF_ERROR(MakeByteTable(tape, 0, steps, dtype, &bytes));
      for (size_t i = 0; i < kLanes; ++i) table[i] = bytes[i];
    }
    out_->of_bytes = table.data();
    return Status::Ok();
  }
  return Status::Ok();
}

// Greatest bytes of windows, and no index from data.
bool PartBuilder::FitsBytePool() const {
  const Nest& nest = out_->nest;
  constexpr int64_t kMostTaps = 1 << 12;
  if (!channels_ || part_.combine != Combine::kMax || nest.first[kM] != 1 || nest.points[kOuter] != 1 ||
      nest.points[kK] > kMostTaps) {
    return false;
  }
  const Operand& input = part_.operands[part_.lhs];
  if (!Is8Bit(input.dtype) || !input.indirects.empty() || part_.epilogue.empty()) return false;
  bool fits = true;
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) fits &= guard.strides[kGroup] == 0;
  return fits;
}

Status PartBuilder::BuildBytePool(bool* built) {
  const Nest& nest = out_->nest;
  const bool as_they_are = StoresTheGreatest();
  if (!as_they_are) {
    RONDO_RETURN_IF_ERROR(MakePoolTable());
    if (out_->of_bytes == nullptr) return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.epilogue[part_.epilogue.size() - 1].arg, out_->tiling, &out_->out));
  *built = out_->out->plain && out_->out->lane.kind == LaneKind::kUnit;
  if (!*built) return Status::Ok();
  out_->path = Path::kBytePool;
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.lhs, out_->tiling, &out_->rhs[0].by_n));
  RONDO_RETURN_IF_ERROR(BuildTaps(*out_->rhs[0].by_n, -1));
  const int64_t rows = nest.points[kM];
  constexpr int64_t kMostRows = 64;
  out_->block_rows = rows < kMostRows ? rows : kMostRows;
  out_->tasks = (rows + out_->block_rows - 1) / out_->block_rows * out_->tiling.tiles;
  const double points = static_cast<double>(rows) * static_cast<double>(nest.points[kN]);
  out_->work = points * (0.1 + 0.03 * static_cast<double>(nest.points[kK]));
  return Status::Ok();
}

// Where the taps lie, and the range of their coordinates, which the guards' tests then allow for.
Status PartBuilder::BuildTaps(const Access& input, int run) {
  const Nest& nest = out_->nest;
  out_->taps = nest.points[kK] / (run < 0 ? 1 : nest.extent[run]);
  const size_t taps = static_cast<size_t>(out_->taps);
  Span<int64_t> at = arena_.New<int64_t>(taps), weight = arena_.New<int64_t>(taps);
  Span<int64_t> coordinates = arena_.New<int64_t>(taps * (input.num_guards + size_t{1}));
  if (at.data() == nullptr || weight.data() == nullptr || coordinates.data() == nullptr) return NoMemory();
  int64_t pos[kMaxNest] = {};
  const auto walked = [&](int loops, const uint8_t* loop, const int64_t* step) {
    int64_t sum = 0;
    for (int i = 0; i < loops; ++i) sum += loop[i] >= nest.first[kK] ? step[i] * pos[loop[i]] : 0;
    return sum;
  };
  for (size_t t = 0; t < taps; ++t) {
    at[t] = walked(input.num_loops, input.loop, input.step);
    weight[t] =
        out_->weight == nullptr ? 0 : walked(out_->weight->num_loops, out_->weight->loop, out_->weight->step);
    for (size_t g = 0; g < input.num_guards; ++g) {
      GuardTest& guard = const_cast<GuardTest&>(input.guards[g]);  // made by this builder, not yet shared
      const int64_t c = coordinates[g * taps + t] = walked(guard.loops, guard.loop, guard.step);
      if (t == 0 || c < guard.least) guard.least = c;
      if (t == 0 || c > guard.greatest) guard.greatest = c;
    }
    for (int d = nest.first[kK + 1] - 1; d >= nest.first[kK]; --d) {
      if (d == run) continue;
      if (++pos[d] < nest.extent[d]) break;
      pos[d] = 0;
    }
  }
  out_->tap_at = at.data();
  out_->tap_weight = weight.data();
  out_->tap_coordinate = coordinates.data();
  return Status::Ok();
}

}  // namespace rondo::host
