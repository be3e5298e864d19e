#include "drivers/host/top_k/top_k_builder.h"

#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/tape_builder.h"
#include "drivers/host/top_k/top_k_program.h"

namespace rondo::host {

Status BuildTopK(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  if (c.part.lhs >= c.part.operands.size() || c.part.acc_type != TapeType::kI64 ||
      c.Depends(c.part.operands[c.part.lhs], kN) || nest.points[kN] > nest.points[kK])
    return c.Fail("the first elements of rows whose operands do not fit their roles");
  TopKPart* p = c.New<TopKPart>(Variant::kTopK);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->largest = c.part.combine == Combine::kMax;
  p->tiling = c.tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], kLanes, c.linear);
  p->element_tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, c.linear);
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, c.tiling, {}, &p->epilogue));
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, p->element_tiling, &p->elements));
  p->kept_at = c.Take(Bytes(nest.points[kN], sizeof(RankedElement)));
  p->temp_at = c.Take(kLanes * 8);
  p->tasks = nest.points[kOuter] * nest.points[kM];
  constexpr double kElement = 2, kFirst = 40;  // nanoseconds: to look at one, to keep and order one
  p->work = static_cast<double>(p->tasks) *
            (kElement * static_cast<double>(nest.points[kK]) + kFirst * static_cast<double>(nest.points[kN]));
  return Status::Ok();
}

}  // namespace rondo::host
