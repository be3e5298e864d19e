#include "drivers/host/map/map_builder.h"

#include "drivers/host/map/map_program.h"
#include "drivers/host/map/transpose_builder.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {

namespace {

// Decides whether the map consists of runs.
void FindRuns(const PartContext& c, MapPart* map) {
  const Nest& nest = c.nest;
  const Program& program = map->program;
  const auto along = [&](const Access& access) {
    return access.plain && access.lane.kind == LaneKind::kUnit;
  };
  if (c.part.sequential || map->tiling.split != nest.loops - 1 || program.num_body <= program.num_same)
    return;
  Inst* const body =
      const_cast<Inst*>(program.body) + program.num_same;  // made by this builder, not yet shared
  const uint32_t count = program.num_body - program.num_same;
  const Inst& store = body[count - 1];
  if (store.kind != InstKind::kStore || store.access->size != 1 || !along(*store.access)) return;
  if (count == 1 && program.num_same == 1 && program.num_once == 0 && nest.loops == 1) {
    const Access& from = *program.body[0].access;
    if (program.body[0].out == store.a && from.dtype == store.access->dtype) map->fills = &from;
    return;
  }
  Inst &load = body[0], &op = body[count - 2];
  if (count != 3 || load.kind != InstKind::kLoad || !load.direct || load.access->dtype != DType::kF32 ||
      !along(*load.access) || op.kind != InstKind::kOp || !op.direct || !op.exact || op.a != load.out ||
      op.b == load.out || op.c == load.out)
    return;
  load.exact = true;
  map->in_runs = true;
}

}  // namespace

Status BuildMap(PartContext& c, PartProgram** out) {
  MapPart* map = c.New<MapPart>(Variant::kMap);
  if (map == nullptr) return c.NoMemory();
  map->sequential = c.part.sequential;
  TransposeProgram transpose;
  if (FindTranspose(c, c.part.body, &transpose)) {
    PointsLast(c, &transpose);
    RONDO_RETURN_IF_ERROR(BuildTranspose(c, c.part.body, &transpose, &map->transpose));
  }
  const Nest& nest = c.nest;
  map->tiling = MakeTiling(nest, 0, nest.loops, kLanes, c.linear || c.part.sequential);
  if (c.part.sequential) {
    // Points whose writes may coincide must not share a tile, which loads before it stores.
    bool apart = true;
    for (const Operand& operand : c.part.operands) {
      if (operand.mode == Mode::kRead) continue;
      const int inner = nest.source[nest.loops - 1];
      apart &= inner >= 0 && operand.strides[inner] != 0 && operand.guards.empty();
      for (const Indirect& indirect : operand.indirects) {
        if (indirect.operand >= c.part.operands.size()) return c.Fail("an index that the part does not have");
        const Operand& index = c.part.operands[indirect.operand];
        apart &= inner >= 0 && index.strides[inner] == 0 && index.guards.empty() && index.indirects.empty();
      }
    }
    if (!apart) map->tiling = MakeTiling(nest, 0, nest.loops, 1, true);
  }
  c.tiling = map->tiling;
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.body, map->tiling, {}, &map->program));
  if (map->transpose == nullptr) FindRuns(c, map);
  map->tasks = map->tiling.tiles;
  if (c.part.sequential) map->tasks = 1;
  map->work = static_cast<double>(nest.points[0]) * kInstructionCost * (map->program.num_body + 1);
  *out = map;
  return Status::Ok();
}

}  // namespace rondo::host
