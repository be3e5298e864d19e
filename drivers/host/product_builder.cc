// Contractions, convolutions and attention: which path, and what it needs.
#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;  // groups of the nest

bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }
bool WidensToF32(DType t) { return t == DType::kF32 || IsHalf(t) || IsFp8(t); }

TapeInst MakeInst(TapeOp op, TapeType type, uint16_t arg, uint16_t a) {
  TapeInst inst;
  inst.op = op;
  inst.type = type;
  inst.arg = arg;
  inst.a = a;
  return inst;
}

constexpr DType WidestOf(TapeType t) {
  return t == TapeType::kF32 ? DType::kF32 : t == TapeType::kF64 ? DType::kF64 : DType::kI64;
}

// Appends what turns the last register of `tape` into `type`; returns the register.
uint16_t AppendCast(GrowingList<TapeInst>& tape, uint16_t from, TapeType type) {
  if (!tape.ok() || tape[from].type == type) return from;
  TapeInst cast = MakeInst(TapeOp::kCast, type, 0, from);
  cast.imm.i = static_cast<int64_t>(WidestOf(type));
  tape.push_back(cast);
  return static_cast<uint16_t>(tape.size() - 1);
}

// A power-of-two friendly row length for blocks of the lhs: one more cache line than the lanes.
int64_t PaddedRow(int64_t k) { return (k + kLanes - 1) / kLanes * (kLanes + 16); }

const Access* Direct(const Access* access, const Nest& nest, int group, int64_t* step) {
  if (!access->plain || nest.first[group + 1] - nest.first[group] != 1) return nullptr;
  *step = 0;
  for (int i = 0; i < access->num_loops; ++i) {
    if (access->loop[i] == nest.first[group]) *step = access->step[i];
  }
  return access;
}

}  // namespace

bool Linear(const Access& access, const Nest& nest, int group, int64_t* step) {
  int64_t steps[kMaxNest] = {};
  for (int i = 0; i < access.num_loops; ++i) steps[access.loop[i]] = access.step[i];
  const int last = nest.first[group + 1] - 1;
  *step = steps[last];
  bool linear = access.plain;
  for (int e = nest.first[group]; e < last; ++e) linear &= steps[e] == steps[e + 1] * nest.extent[e + 1];
  return linear;
}

int64_t AccumulatorRow(const Tiling& tiling, const Engine& engine) {
  const int64_t lanes = tiling.chunk * tiling.inner;
  return (lanes + engine.columns - 1) / engine.columns * engine.columns;
}

bool PartBuilder::Depends(const Operand& operand, int group, int depth) const {
  const Nest& nest = out_->nest;
  for (int e = nest.first[group]; e < nest.first[group + 1]; ++e) {
    const int d = nest.source[e];
    if (d < 0) continue;
    if (operand.strides[d] != 0) return true;
    for (const Guard& guard : operand.guards) {
      if (guard.strides[d] != 0) return true;
    }
  }
  for (const Indirect& indirect : operand.indirects) {
    if (depth > kMaxIndexDepth || indirect.operand >= part_.operands.size()) return true;
    if (Depends(part_.operands[indirect.operand], group, depth + 1)) return true;
  }
  return false;
}

bool PartBuilder::TapeDepends(Tape tape, int group) const {
  const Nest& nest = out_->nest;
  for (const TapeInst& inst : tape) {
    if (inst.op == TapeOp::kLoad) {
      if (inst.arg >= part_.operands.size() || Depends(part_.operands[inst.arg], group)) return true;
    } else if (inst.op == TapeOp::kIndex) {
      const int e = inst.arg < part_.loops.size() ? nest.nest_loop[inst.arg] : -1;
      if (e >= nest.first[group] && e < nest.first[group + 1]) return true;
    }
  }
  return false;
}

uint16_t PartBuilder::LeftOperand() const {
  return part_.skeleton == Skeleton::kConvolution && !channels_ ? part_.rhs[0] : part_.lhs;
}
uint16_t PartBuilder::RightOperand(int j) const {
  return part_.skeleton == Skeleton::kConvolution && !channels_ ? part_.lhs : part_.rhs[j];
}

GrowingList<TapeInst> PartBuilder::LhsTape() const {
  const uint16_t lhs = LeftOperand();
  GrowingList<TapeInst> tape;
  uint16_t result = 0;
  if (part_.prologue.empty()) {
    tape.push_back(MakeInst(TapeOp::kLoad, NaturalType(part_.operands[lhs].dtype), lhs, 0));
  } else {
    for (const TapeInst& inst : part_.prologue) {
      if (inst.op == TapeOp::kYield) {
        result = inst.a;
        break;
      }
      tape.push_back(inst);
    }
  }
  result = AppendCast(tape, result, part_.acc_type);
  tape.push_back(MakeInst(TapeOp::kYield, part_.acc_type, 0, result));
  return tape;
}

Status PartBuilder::BuildProduct() {
  const bool convolution = part_.skeleton == Skeleton::kConvolution;
  const Nest& nest = out_->nest;
  const size_t operands = part_.operands.size();
  for (uint16_t r : part_.rhs) {
    if (r >= operands) return Fail("an operand that the part does not have");
  }
  if (part_.rhs.size() > kMaxSlots) return Fail("more than 16 right-hand sides");
  if (part_.lhs >= operands && (convolution || part_.prologue.empty()))
    return Fail("a product without a lhs");
  if (!part_.prologue.empty()) {
    bool yields = false;
    for (const TapeInst& inst : part_.prologue) {
      yields |= inst.op == TapeOp::kYield && inst.a < part_.prologue.size();
    }
    if (!yields) return Fail("a prologue that yields nothing");
  }
  const bool pool = convolution && part_.combine != Combine::kProduct;
  if (!pool && part_.rhs.empty()) return Fail("a product without a right-hand side");

  const double points = static_cast<double>(nest.points[kOuter]) * static_cast<double>(nest.points[kM]) *
                        static_cast<double>(nest.points[kN]);
  const double products = points * static_cast<double>(nest.points[kK]);
  const bool bytes = FitsBytes(), packed = part_.packed.type != PackedType::kNone;
  const double blocked_work = points * 0.5 + products * 0.02,
               byte_work = points * (1 + 0.005 * static_cast<double>(nest.points[kK]));
  const int lanes = packed ? kLanes : LanesOfTile(bytes ? byte_work : blocked_work);
  out_->tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], lanes, linear_);
  out_->has_lhs = !pool;
  out_->work = points * 0.5 + products * 0.5;
  if (packed) {
    const GrowingList<TapeInst> left = LhsTape();
    if (!left.ok()) return NoMemory();
    if (TapeDepends(Tape(left.data(), left.size()), kN))
      return Fail("a left side that moves with the columns");
    out_->work = points * 0.5 + products * 0.05;
    return BuildPacked();
  }
  if (bytes) {
    out_->work = byte_work;
    return BuildBytes();
  }
  const bool one = part_.rhs.size() <= 1;  // which convolutions mostly have
  if (one && FitsChannelBytes()) return BuildChannelBytes();
  if (one && FitsChannels()) return BuildChannels();
  if (!pool && one && FitsDirect()) {
    bool built = false;
    const double work = out_->work;
    out_->work = blocked_work;
    RONDO_RETURN_IF_ERROR(BuildDirect(&built));
    if (built) return Status::Ok();
    out_->work = work;
  }
  if (one && FitsPlanes()) {
    bool built = false;
    RONDO_RETURN_IF_ERROR(BuildPlanes(&built));
    if (built) return Status::Ok();
  }
  if (pool && FitsBytePool()) {
    bool built = false;
    RONDO_RETURN_IF_ERROR(BuildBytePool(&built));
    if (built) return Status::Ok();
  }
  if (pool) return BuildAccumulate();

  bool fast = part_.acc_type == TapeType::kF32;
  out_->num_rhs = convolution && !channels_ ? 1 : static_cast<int>(part_.rhs.size());
  for (int j = 0; j < out_->num_rhs; ++j) {
    const Operand& rhs = part_.operands[RightOperand(j)];
    fast &= WidensToF32(rhs.dtype) && !Depends(rhs, kM);
  }
  const GrowingList<TapeInst> lhs = LhsTape();
  if (!lhs.ok()) return NoMemory();
  fast &= !TapeDepends(Tape(lhs.data(), lhs.size()), kN);
  if (!fast || (convolution && !channels_ && nest.points[kM] == 1)) return BuildAccumulate();
  if (products < 512 && nest.points[kK] < 8) return BuildAccumulate();
  out_->work = blocked_work;
  return BuildBlocked(convolution && !channels_);
}

// Lanes of a tile of columns: fewer where all tiles, and rows, would leave threads without work.
int PartBuilder::LanesOfTile(double work) const {
  const Nest& nest = out_->nest;
  const int64_t shares = sharing_.Shares(work);
  constexpr int kLeast = 64, kExtra = 16;  // what a tile takes besides its lanes, in lanes
  const int64_t row_blocks = nest.points[kM] / (2 * engine_.rows);
  const int64_t blocks = Bytes(nest.points[kOuter], row_blocks < 1 ? 1 : row_blocks);
  int best = kLanes;
  double least_time = 0;
  for (int lanes = kLanes; lanes >= kLeast; lanes /= 2) {
    const Tiling tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], lanes, linear_);
    const int64_t each = (Bytes(blocks, tiling.tiles) + shares - 1) / shares;
    const double time = static_cast<double>(each) * static_cast<double>(tiling.chunk * tiling.inner + kExtra);
    if (lanes == kLanes || time < least_time) {
      best = lanes;
      least_time = time;
    }
    if (shares == 1) break;
  }
  return best;
}

int64_t PartBuilder::RowsOfLines(int64_t most) const {
  const Nest& nest = out_->nest;
  const int64_t rows = nest.points[kM], line = nest.extent[nest.first[kM + 1] - 1],
                others = Bytes(nest.points[kOuter], out_->tiling.tiles), shares = sharing_.Shares(out_->work);
  if (most < line) return RowsOfBlock({rows, most, 1, 1, others}, shares);
  return line * RowsOfBlock({rows / line, most / line, 1, 0, others}, shares);
}

// The epilogue, over a tile of n or, where all of n is short, over several rows at once.
Status PartBuilder::BuildEpilogue() {
  const Nest& nest = out_->nest;
  Tiling tiling = out_->tiling;
  const int64_t n = nest.points[kN];
  if (!linear_ && n * 2 <= kLanes && out_->tiling.tiles == 1) {
    tiling.first = nest.first[kM];
    tiling.split = nest.first[kN] - 1;
    tiling.inner = n;
    tiling.chunk = kLanes / n < nest.extent[tiling.split] ? kLanes / n : nest.extent[tiling.split];
    out_->epilogue_rows = tiling.chunk;
  }
  return BuildTape(part_.epilogue, tiling, {}, &out_->program);
}

// Any product: lanes along n, one step of k at a time.
Status PartBuilder::BuildAccumulate() {
  const Nest& nest = out_->nest;
  out_->path = Path::kAccumulate;
  RONDO_RETURN_IF_ERROR(BuildTape(part_.epilogue, out_->tiling, {}, &out_->program));
  out_->tasks = nest.points[kOuter] * nest.points[kM] * out_->tiling.tiles;
  out_->acc_stride = kLanes * 8;
  if (!out_->has_lhs) {
    out_->acc_at = Take(kLanes * 8);
    out_->count_at = Take(kLanes * 8);
    out_->temp_at = Take(kLanes * 8);
    return BuildAccess(part_.lhs, out_->tiling, &out_->rhs[0].by_n);
  }
  GrowingList<TapeInst> tape = LhsTape();
  if (!tape.ok()) return NoMemory();
  TapeUse use;
  use.pinned = out_->num_rhs;
  use.keep.push_back(tape.back().a);
  tape.pop_back();
  for (int j = 0; j < out_->num_rhs; ++j) {
    const uint16_t operand = RightOperand(j);
    tape.push_back(MakeInst(TapeOp::kLoad, NaturalType(part_.operands[operand].dtype), operand, 0));
    use.keep.push_back(AppendCast(tape, static_cast<uint16_t>(tape.size() - 1), part_.acc_type));
  }
  if (!tape.ok()) return NoMemory();
  GrowingList<uint32_t> at;
  use.at = &at;
  Program& program = out_->step_by_n;
  RONDO_RETURN_IF_ERROR(BuildTape(Tape(tape.data(), tape.size()), out_->tiling, use, &program));
  GrowingList<Inst> once(program.once, program.num_once);
  GrowingList<Inst> body(program.body, program.num_body);
  for (int j = 0; j < out_->num_rhs; ++j) {
    Inst add;
    add.op = TapeOp::kFma;
    add.type = add.of = part_.acc_type;
    add.fn = engine_.find_op(TapeOp::kFma, part_.acc_type, part_.acc_type);
    add.a = at[use.keep[0]];
    add.b = at[use.keep[static_cast<size_t>(j) + 1]];
    add.out = add.c = static_cast<uint32_t>(j) * program.slot_bytes;
    body.push_back(add);
  }
  out_->acc_at = program.registers_at;
  out_->acc_stride = program.slot_bytes;
  return Finish(once, body, &program);
}

// What loads the left side along k, or computes it.
Status PartBuilder::BuildLeft() {
  const Nest& nest = out_->nest;
  out_->k_tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, linear_);
  const GrowingList<TapeInst> lhs = LhsTape();
  if (!lhs.ok()) return NoMemory();
  RONDO_RETURN_IF_ERROR(BuildTape(Tape(lhs.data(), lhs.size()), out_->k_tiling, {}, &out_->lhs_by_k));
  if (!part_.prologue.empty() || !WidensToF32(part_.operands[LeftOperand()].dtype)) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildAccess(LeftOperand(), out_->k_tiling, &out_->lhs_load));
  constexpr int64_t kRowsAhead = 8;
  Access& left = const_cast<Access&>(*out_->lhs_load);  // made by this builder, not yet shared
  for (int i = 0; i < left.num_loops; ++i) {
    if (left.loop[i] + 1 == nest.first[kM + 1]) left.ahead = kRowsAhead * left.step[i];
  }
  return Status::Ok();
}

// f32 accumulators, lhs without n, rhs without m: packed blocks, or a few rows against a streamed rhs.
Status PartBuilder::BuildBlocked(bool convolution) {
  const Nest& nest = out_->nest;
  const int64_t rows = nest.points[kM], k = nest.points[kK];
  RONDO_RETURN_IF_ERROR(BuildLeft());
  bool stream = !convolution && rows <= kFewRows;
  for (int j = 0; j < out_->num_rhs; ++j) {
    RhsProgram& rhs = out_->rhs[j];
    RONDO_RETURN_IF_ERROR(BuildAccess(RightOperand(j), out_->tiling, &rhs.by_n));
    const bool direct = Linear(*rhs.by_n, nest, kK, &rhs.k_step);
    rhs.k_unit = direct && rhs.k_step == 1 && rhs.by_n->lane.kind != LaneKind::kUnit;
    const bool n_unit = rhs.by_n->lane.kind == LaneKind::kUnit || rhs.by_n->lane.kind == LaneKind::kSame;
    stream &= !IsFp8(rhs.by_n->dtype);  // which is widened a block at a time
    stream &= direct && (rhs.k_unit || (n_unit && rhs.by_n->lane.kind == LaneKind::kUnit));
  }
  const int64_t padded = PaddedRow(Bytes(out_->k_tiling.tiles, kLanes));
  const int64_t pieces = out_->num_rhs;
  if (stream) {
    RONDO_RETURN_IF_ERROR(BuildTape(part_.epilogue, out_->tiling, {}, &out_->program));
    out_->path = Path::kFewRows;
    out_->block_rows = rows;
    out_->tasks = nest.points[kOuter] * out_->tiling.tiles;
    out_->lhs_row = (k + kLanes - 1) / kLanes * kLanes + 16;
    constexpr int64_t kMostAcc = int64_t{64} << 10;  // bytes of accumulators of tiles walked together
    out_->tiles_at_once = kMostAcc / (rows * kLanes * 4);
    if (out_->tiles_at_once > out_->tiling.tiles) out_->tiles_at_once = out_->tiling.tiles;
    const Access* access = out_->lhs_load;
    int64_t step = 0;
    if (access != nullptr && access->dtype == DType::kF32 && Direct(access, nest, kK, &step) != nullptr &&
        step == 1) {
      out_->lhs_direct = access;
    }
  } else {
    RONDO_RETURN_IF_ERROR(BuildEpilogue());
    out_->path = convolution ? Path::kConvolution : Path::kGemm;
    // As many rows as keep the packed lhs within 8 MiB, up to 16 register blocks.
    constexpr int64_t kMostBytes = int64_t{8} << 20;
    int64_t blocks = kMostBytes / (padded * 4 * engine_.rows);
    blocks = blocks < 1 ? 1 : blocks > 16 ? 16 : blocks;
    constexpr int64_t kExtra = 6;  // rows' time to pack the right side
    const int64_t others = Bytes(nest.points[kOuter], out_->tiling.tiles);
    out_->block_rows =
        RowsOfBlock({rows, blocks * engine_.rows, engine_.rows, kExtra, others}, sharing_.Shares(out_->work));
    const int64_t row_blocks = (rows + out_->block_rows - 1) / out_->block_rows;
    out_->tasks = nest.points[kOuter] * row_blocks * out_->tiling.tiles;
    out_->rhs_at = Take(kLanes * (kLanes + 64) * 4);
    out_->temp_at = Take(kLanes * 16 * 4);
  }
  out_->lhs_at = Take(Bytes(out_->block_rows, padded, 4));
  if (!stream) out_->acc_row = AccumulatorRow(out_->tiling, engine_);
  out_->acc_stride = Bytes(out_->block_rows, out_->tiles_at_once, out_->acc_row, 4);
  out_->acc_at = Take(Bytes(out_->acc_stride, pieces));
  return Status::Ok();
}

// ------------------------------------------------------------------------------------- attention

Status PartBuilder::BuildAttention() {
  const Nest& nest = out_->nest;
  constexpr int kFeatures = 4;
  if (part_.lhs >= part_.operands.size() || part_.keys >= part_.operands.size() ||
      part_.values >= part_.operands.size()) {
    return Fail("attention without queries, keys or values");
  }
  const DType of[3] = {part_.operands[part_.lhs].dtype, part_.operands[part_.keys].dtype,
                       part_.operands[part_.values].dtype};
  for (DType t : of) {
    if (!IsFloat(t)) return Fail("attention over integers");
  }
  if (part_.acc_type == TapeType::kI64) return Fail("attention that accumulates integers");
  const bool strange =
      Depends(part_.operands[part_.lhs], kN) || Depends(part_.operands[part_.lhs], kK) ||
      Depends(part_.operands[part_.keys], kN) || Depends(part_.operands[part_.values], kFeatures) ||
      (part_.mask != kNoOperand && part_.mask < part_.operands.size() &&
       (Depends(part_.operands[part_.mask], kN) || Depends(part_.operands[part_.mask], kFeatures)));
  if (strange) return Fail("attention whose operands depend on loops that their roles do not have");
  if (part_.limit != kNoOperand &&
      (part_.limit >= part_.operands.size() || IsFloat(part_.operands[part_.limit].dtype))) {
    return Fail("attention with a limit that is not an integer");
  }
  out_->path = Path::kAttention;
  out_->tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], kLanes, linear_);
  out_->k_tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, linear_);
  out_->feature_tiling = MakeTiling(nest, nest.first[kFeatures], nest.first[kFeatures + 1], kLanes, linear_);
  RONDO_RETURN_IF_ERROR(BuildTape(part_.epilogue, out_->tiling, {}, &out_->program));
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.lhs, out_->feature_tiling, &out_->q));
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.keys, out_->feature_tiling, &out_->keys));
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.values, out_->tiling, &out_->values));
  if (part_.mask != kNoOperand) RONDO_RETURN_IF_ERROR(BuildAccess(part_.mask, out_->k_tiling, &out_->mask));
  if (part_.limit != kNoOperand) RONDO_RETURN_IF_ERROR(BuildAccess(part_.limit, out_->tiling, &out_->limit));

  int64_t features = 0, columns = 0;
  const bool f32 = part_.acc_type == TapeType::kF32;
  out_->keys_direct = f32 && WidensToF32(of[1]) && Direct(out_->keys, nest, kFeatures, &features) &&
                      Direct(out_->keys, nest, kK, &out_->key_step) &&
                      (features == 1 || nest.points[kFeatures] == 1) &&
                      !Depends(part_.operands[part_.keys], kM);
  out_->values_direct = f32 && WidensToF32(of[2]) && Direct(out_->values, nest, kN, &columns) &&
                        Direct(out_->values, nest, kK, &out_->value_step) &&
                        (columns == 1 || nest.points[kN] == 1) && !Depends(part_.operands[part_.values], kM);
  const int64_t size = f32 ? 4 : 8;
  const int64_t padded_keys = Bytes(nest.points[kK] + kLanes, size);
  const int64_t padded_features = Bytes(nest.points[kFeatures] + kLanes, size);
  out_->block_rows = nest.points[kM] < kFewRows ? nest.points[kM] : kFewRows;
  out_->lhs_at = Take(Bytes(out_->block_rows, padded_features));
  out_->rhs_at = Take(padded_features);
  out_->scores_at = Take(Bytes(out_->block_rows, padded_keys));
  out_->temp_at = Take(kLanes * 8 * 2);
  out_->acc_stride = out_->block_rows * kLanes * size;
  out_->acc_at = Take(out_->acc_stride);
  const int64_t row_blocks = (nest.points[kM] + out_->block_rows - 1) / out_->block_rows;
  out_->tasks = nest.points[kOuter] * row_blocks;
  out_->work = static_cast<double>(nest.points[kOuter] * nest.points[kM]) *
               static_cast<double>(nest.points[kK]) *
               static_cast<double>(nest.points[kFeatures] + nest.points[kN]) * 0.05;
  return Status::Ok();
}

}  // namespace rondo::host
