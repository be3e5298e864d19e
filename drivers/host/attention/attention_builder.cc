#include "drivers/host/attention/attention_builder.h"

#include "drivers/host/attention/attention_program.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {

Status BuildAttention(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  constexpr int kFeatures = 4;
  if (c.part.lhs >= c.part.operands.size() || c.part.keys >= c.part.operands.size() ||
      c.part.values >= c.part.operands.size()) {
    return c.Fail("attention without queries, keys or values");
  }
  const DType of[3] = {c.part.operands[c.part.lhs].dtype, c.part.operands[c.part.keys].dtype,
                       c.part.operands[c.part.values].dtype};
  for (DType t : of) {
    if (!IsFloat(t)) return c.Fail("attention over integers");
  }
  if (c.part.acc_type == TapeType::kI64) return c.Fail("attention that accumulates integers");
  const bool strange =
      c.Depends(c.part.operands[c.part.lhs], kN) || c.Depends(c.part.operands[c.part.lhs], kK) ||
      c.Depends(c.part.operands[c.part.keys], kN) || c.Depends(c.part.operands[c.part.values], kFeatures) ||
      (c.part.mask != kNoOperand && c.part.mask < c.part.operands.size() &&
       (c.Depends(c.part.operands[c.part.mask], kN) || c.Depends(c.part.operands[c.part.mask], kFeatures)));
  if (strange) return c.Fail("attention whose operands depend on loops that their roles do not have");
  if (c.part.limit != kNoOperand &&
      (c.part.limit >= c.part.operands.size() || IsFloat(c.part.operands[c.part.limit].dtype))) {
    return c.Fail("attention with a limit that is not an integer");
  }
  AttentionPart* p = c.New<AttentionPart>(Variant::kAttention);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->acc_type = c.part.acc_type;
  p->scale = c.part.scale;
  p->softcap = c.part.softcap;
  p->nan_to_zero = c.part.nan_to_zero;
  p->tiling = c.tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], kLanes, c.linear);
  p->key_tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, c.linear);
  p->feature_tiling = MakeTiling(nest, nest.first[kFeatures], nest.first[kFeatures + 1], kLanes, c.linear);
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, c.tiling, {}, &p->epilogue));
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, p->feature_tiling, &p->q));
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.keys, p->feature_tiling, &p->keys));
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.values, c.tiling, &p->values));
  if (c.part.mask != kNoOperand) RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.mask, p->key_tiling, &p->mask));
  if (c.part.limit != kNoOperand) RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.limit, c.tiling, &p->limit));

  int64_t features = 0, columns = 0;
  const bool f32 = c.part.acc_type == TapeType::kF32;
  p->keys_direct = f32 && WidensToF32(of[1]) && Direct(p->keys, nest, kFeatures, &features) &&
                   Direct(p->keys, nest, kK, &p->key_step) &&
                   (features == 1 || nest.points[kFeatures] == 1) &&
                   !c.Depends(c.part.operands[c.part.keys], kM);
  p->values_direct = f32 && WidensToF32(of[2]) && Direct(p->values, nest, kN, &columns) &&
                     Direct(p->values, nest, kK, &p->value_step) && (columns == 1 || nest.points[kN] == 1) &&
                     !c.Depends(c.part.operands[c.part.values], kM);
  const int64_t size = f32 ? 4 : 8;
  const int64_t padded_keys = Bytes(nest.points[kK] + kLanes, size);
  const int64_t padded_features = Bytes(nest.points[kFeatures] + kLanes, size);
  p->block_rows = nest.points[kM] < kFewRows ? nest.points[kM] : kFewRows;
  p->query_at = c.Take(Bytes(p->block_rows, padded_features));
  p->key_at = c.Take(padded_features);
  p->scores_at = c.Take(Bytes(p->block_rows, padded_keys));
  p->temp_at = c.Take(kLanes * 8 * 2);
  p->acc_stride = p->block_rows * kLanes * size;
  p->acc_at = c.Take(p->acc_stride);
  const int64_t row_blocks = (nest.points[kM] + p->block_rows - 1) / p->block_rows;
  p->tasks = nest.points[kOuter] * row_blocks;
  p->work = static_cast<double>(nest.points[kOuter] * nest.points[kM]) *
            static_cast<double>(nest.points[kK]) *
            static_cast<double>(nest.points[kFeatures] + nest.points[kN]) * 0.05;
  return Status::Ok();
}

}  // namespace rondo::host
