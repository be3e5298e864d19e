#include "drivers/host/map/transpose_builder.h"

#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {

bool FindTranspose(const PartContext& c, Tape tape, TransposeProgram* transpose) {
  constexpr int64_t kLeastPoints = 32;
  if (c.part.sequential || tape.empty() || tape[tape.size() - 1].op != TapeOp::kStore) return false;
  const TapeInst& store = tape[tape.size() - 1];
  if (!c.IsPlainByte(store.arg)) return false;
  const Nest& nest = c.nest;
  const size_t loops = c.part.loops.size();
  // Writes the operand's steps along the nest's loops, and returns how many of them it moves with.
  const auto walk = [&](const Operand& operand, int64_t* step) {
    int64_t strides[kMaxLoops];
    FullStrides(operand, static_cast<int>(loops), strides);
    int moves = 0;
    for (int d = 0; d < nest.loops; ++d) {
      step[d] = nest.source[d] < 0 || nest.extent[d] == 1 ? 0 : strides[nest.source[d]];
      moves += step[d] != 0;
    }
    return moves;
  };
  int64_t from[kMaxNest] = {}, to[kMaxNest] = {};
  int most = 0;
  for (size_t k = 0; k + 1 < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    if (ClassOf(inst.op) == OpClass::kEffect || Reduces(inst.op) || inst.op == TapeOp::kKept ||
        inst.op == TapeOp::kAcc)
      return false;
    if (inst.op != TapeOp::kLoad || inst.arg >= c.part.operands.size()) continue;
    int64_t step[kMaxNest] = {};
    const int moves = walk(c.part.operands[inst.arg], step);
    if (moves <= most) continue;
    most = moves;
    for (int d = 0; d < nest.loops; ++d) from[d] = step[d];
  }
  walk(c.part.operands[store.arg], to);
  transpose->points = -1;
  for (int d = 0; d < nest.loops; ++d) {
    if (nest.extent[d] == 1) continue;
    if (to[d] <= 0) return false;
    if (from[d] == 1 && nest.extent[d] >= kLeastPoints) transpose->points = d;
  }
  if (transpose->points < 0) return false;
  transpose->step = to[transpose->points];
  transpose->channels = 1;
  transpose->num_channel_loops = transpose->num_outer_loops = 0;
  for (bool found = true; found;) {
    found = false;
    for (int d = 0; d < nest.loops && !found; ++d) {
      found = nest.extent[d] > 1 && d != transpose->points && to[d] == transpose->channels;
      if (!found) continue;
      transpose->channel_loop[transpose->num_channel_loops++] = static_cast<uint8_t>(d);
      transpose->channels *= nest.extent[d];
    }
  }
  transpose->units = 1;
  for (int d = 0; d < nest.loops; ++d) {
    bool other = nest.extent[d] > 1 && d != transpose->points;
    for (int i = 0; i < transpose->num_channel_loops; ++i) other &= transpose->channel_loop[i] != d;
    if (!other) continue;
    transpose->outer_loop[transpose->num_outer_loops++] = static_cast<uint8_t>(d);
    transpose->units *= nest.extent[d];
  }
  const int64_t points = nest.extent[transpose->points];
  const int64_t blocks = (points + kTransposedPoints - 1) / kTransposedPoints;
  transpose->at_once = ((points + blocks - 1) / blocks + 15) / 16 * 16;
  transpose->units *= (points + transpose->at_once - 1) / transpose->at_once;
  return transpose->channels > 1 && transpose->channels <= transpose->step;
}

void PointsLast(PartContext& c, TransposeProgram* transpose) {
  Nest& nest = c.nest;
  const int points = transpose->points, last = nest.loops - 1;
  const int64_t extent = nest.extent[points];
  const int8_t source = nest.source[points];
  for (int d = points; d < last; ++d) {
    nest.extent[d] = nest.extent[d + 1];
    nest.source[d] = nest.source[d + 1];
  }
  nest.extent[last] = extent;
  nest.source[last] = source;
  const auto moved = [&](int d) { return d == points ? last : d > points ? d - 1 : d; };
  for (int8_t& loop : nest.nest_loop) {
    if (loop >= 0) loop = static_cast<int8_t>(moved(loop));
  }
  transpose->points = last;
  for (uint8_t& loop : transpose->channel_loop) loop = static_cast<uint8_t>(moved(loop));
  for (uint8_t& loop : transpose->outer_loop) loop = static_cast<uint8_t>(moved(loop));
}

Status BuildTranspose(PartContext& c, Tape tape, TransposeProgram* transpose,
                      const TransposeProgram** built) {
  const Nest& nest = c.nest;
  *built = nullptr;
  if (transpose->points != nest.loops - 1) return Status::Ok();
  int group = 0;
  while (nest.first[group + 1] <= transpose->points) ++group;
  const Tiling tiling = MakeTiling(nest, nest.first[group], nest.first[group + 1], kTransposedPoints, true);
  RONDO_RETURN_IF_ERROR(BuildTape(c, tape, tiling, {}, &transpose->program));
  const Program& program = transpose->program;
  if (program.num_body <= program.num_same) return Status::Ok();
  const Inst& store = program.body[program.num_body - 1];
  if (store.kind != InstKind::kStore || !store.access->plain || store.access->wide != 1) return Status::Ok();
  transpose->bytes_at = c.Take(int64_t{kTransposedChannels} * kTransposedPoints);
  Span<TransposeProgram> made = c.arena.New<TransposeProgram>(1);
  if (made.data() == nullptr) return c.NoMemory();
  made[0] = *transpose;
  *built = made.data();
  return Status::Ok();
}

}  // namespace rondo::host
