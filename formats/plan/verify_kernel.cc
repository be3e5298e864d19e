#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

constexpr int kMaxOperands = 4096;  // of one part

// The loops of one part, grouped by role.
struct LoopGroups {
  LoopMask outer, m, n, reduced, features;
  explicit LoopGroups(const Part& p)
      : outer(LoopRange(0, p.outer)),
        m(LoopRange(p.outer, p.m)),
        n(LoopRange(p.outer + p.m, p.n)),
        reduced(LoopRange(p.outer + p.m + p.n, p.reduced)),
        features(LoopRange(p.outer + p.m + p.n + p.reduced, p.features)) {}
};

Status VerifyLoops(const Part& part) {
  if (part.skeleton > Skeleton::kTopK)
    return RONDO_BROKEN("skeleton %d is unknown", static_cast<int>(part.skeleton));
  if (part.combine > (part.skeleton == Skeleton::kTopK ? Combine::kMin : Combine::kMean))
    return RONDO_BROKEN("combine %d is unknown", static_cast<int>(part.combine));
  if (part.acc_type > TapeType::kI64)
    return RONDO_BROKEN("type %d of accumulators is unknown", static_cast<int>(part.acc_type));
  if (part.loops.empty() || part.loops.size() > kMaxLoops) {
    return RONDO_BROKEN("%zu loops, which must be 1 to %d", part.loops.size(), kMaxLoops);
  }
  if (part.tf32 && part.skeleton != Skeleton::kMatMul && part.skeleton != Skeleton::kConvolution)
    return RONDO_BROKEN("a %s has no factors in tf32", Name(part.skeleton));
  int64_t points = 1;
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if (part.loops[d] < 1)
      return RONDO_BROKEN("loop %zu has extent %lld", d, static_cast<long long>(part.loops[d]));
    if (__builtin_mul_overflow(points, part.loops[d], &points) || points > kMaxPoints) {
      return RONDO_BROKEN("its loops have more than %lld points", static_cast<long long>(kMaxPoints));
    }
  }
  const size_t sum = size_t{part.outer} + part.m + part.n + part.reduced + part.features;
  if (sum != part.loops.size())
    return RONDO_BROKEN("its roles need %zu loops, but it has %zu", sum, part.loops.size());
  return Status::Ok();
}

// Checks the numbers of loops that the skeleton requires.
Status VerifyCounts(const Part& p) {
  const Skeleton kind = p.skeleton;
  bool good =
      (p.reduced == 0) == (kind == Skeleton::kMap) && (p.features > 0) == (kind == Skeleton::kAttention);
  if (kind <= Skeleton::kReduction) good &= p.m == 0 && p.n == 0;
  if (kind == Skeleton::kConvolution) good &= p.outer == 1 && p.m == 2 && p.n >= 1 && p.reduced == 1 + p.n;
  if (kind == Skeleton::kTopK) good &= p.n == 1 && p.reduced == 1;
  if (good) return Status::Ok();
  return RONDO_BROKEN("a %s cannot have %u outer, %u m, %u n, %u reduced and %u feature loops",
                      Name(p.skeleton), p.outer, p.m, p.n, p.reduced, p.features);
}

Status VerifyOperand(const Part& part, size_t index, uint16_t num_params) {
  const Operand& operand = part.operands[index];
  const size_t loops = part.loops.size();
  if (operand.param >= num_params) return RONDO_BROKEN("parameter %u of %u", operand.param, num_params);
  if (static_cast<int>(operand.dtype) >= kNumDTypes)
    return RONDO_BROKEN("dtype %d is unknown", static_cast<int>(operand.dtype));
  if (operand.mode > Mode::kReadWrite)
    return RONDO_BROKEN("mode %d is unknown", static_cast<int>(operand.mode));
  if (operand.strides.size() != loops)
    return RONDO_BROKEN("%zu strides for %zu loops", operand.strides.size(), loops);
  for (size_t i = 0; i < operand.guards.size(); ++i) {
    const Guard& guard = operand.guards[i];
    if (guard.strides.size() != loops)
      return RONDO_BROKEN("guard %zu has %zu strides for %zu loops", i, guard.strides.size(), loops);
    if (guard.extent < 1)
      return RONDO_BROKEN("guard %zu has extent %lld", i, static_cast<long long>(guard.extent));
  }
  for (size_t i = 0; i < operand.indirects.size(); ++i) {
    const Indirect& indirect = operand.indirects[i];
    if (indirect.extent < 1)
      return RONDO_BROKEN("indirect %zu has extent %lld", i, static_cast<long long>(indirect.extent));
    if (indirect.operand >= part.operands.size()) {
      return RONDO_BROKEN("indirect %zu takes its index from operand %u of %zu", i, indirect.operand,
                          part.operands.size());
    }
    const Operand& source = part.operands[indirect.operand];
    if (source.mode != Mode::kRead || IsFloat(source.dtype) || !source.indirects.empty()) {
      return RONDO_BROKEN(
          "indirect %zu takes its index from operand %u, no read-only integer without indirects", i,
          indirect.operand);
    }
  }
  return Status::Ok();
}

Status VerifyReach(const Part& part, const Operand& operand) {
  ElementRange range;
  if (!Reach(part, operand, &range)) {
    return RONDO_BROKEN("its addresses reach further than %lld elements", static_cast<long long>(kMaxReach));
  }
  return Status::Ok();
}

struct Role {
  const char* name;
  uint16_t operand;
  bool required;
  LoopMask loops;
  bool typed;  // whether it has the accumulators' type
};

Status VerifyRole(const Part& part, const OperandLoops* loops, const Role& role) {
  if (role.operand == kNoOperand) {
    return role.required ? RONDO_BROKEN("a %s needs its %s", Name(part.skeleton), role.name) : Status::Ok();
  }
  if (role.operand >= part.operands.size()) {
    return RONDO_BROKEN("its %s is operand %u of %zu", role.name, role.operand, part.operands.size());
  }
  const Operand& operand = part.operands[role.operand];
  if (operand.mode != Mode::kRead)
    return RONDO_BROKEN("its %s, operand %u, is not only read", role.name, role.operand);
  if (role.typed && NaturalType(operand.dtype) != part.acc_type) {
    return RONDO_BROKEN("its %s is %s, which is not of the accumulators' type", role.name,
                        Name(operand.dtype));
  }
  return VerifyLoopsOf(loops, role.operand, role.loops).At("its %s", role.name);
}

Status VerifyNoRole(uint16_t operand, const char* name, const Part& part) {
  if (operand == kNoOperand) return Status::Ok();
  return RONDO_BROKEN("a %s has no %s, but operand %u is named", Name(part.skeleton), name, operand);
}

// Checks that the operands of packed weights, with strides from PackedShape, cover all bytes that may be
// read.
Status VerifyPacked(const Part& part, const OperandLoops* loops, const LoopGroups& g) {
  const PackedWeights& packed = part.packed;
  if (packed.type >= PackedType{kNumPackedTypes} || packed.dtype > DType::kBF16)
    return RONDO_BROKEN("weights packed as type %d", static_cast<int>(packed.type));
  PackedShape shape = {1, 1, packed.block, BitsOf(packed.type)};
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if ((g.n >> d & 1) != 0) shape.n *= part.loops[d];
    if ((g.reduced >> d & 1) != 0) shape.k *= part.loops[d];
  }
  const size_t count = part.rhs.size();
  if (part.acc_type != TapeType::kF32 || shape.block < 16 || shape.block > kMaxPoints ||
      (shape.block % 16 != 0 && shape.block < shape.k) || shape.n < 16 || shape.k < 32 ||
      part.scales.size() != count || (part.zeros.size() != 0 && part.zeros.size() != count)) {
    return RONDO_BROKEN("packed weights [%lld, %lld] in blocks of %lld with %zu scales, %zu zero points",
                        static_cast<long long>(shape.n), static_cast<long long>(shape.k),
                        static_cast<long long>(shape.block), part.scales.size(), part.zeros.size());
  }
  const uint16_t scales = part.scales[0] < part.operands.size() ? part.scales[0] : part.rhs[0];
  for (size_t j = 0; j < 3 * count; ++j) {
    const bool codes = j < count;
    if (!codes && j >= 2 * count && part.zeros.empty()) break;
    const uint16_t index = codes           ? part.rhs[j]
                           : j < 2 * count ? part.scales[j - count]
                                           : part.zeros[j - 2 * count];
    RONDO_RETURN_IF_ERROR(
        VerifyRole(part, loops, {"packed weight", index, true, codes ? g.n | g.reduced : g.n, false}));
    const Operand& operand = part.operands[index];
    bool fits = operand.offset == 0 && operand.guards.empty() && operand.indirects.empty() &&
                operand.dtype == (codes ? DType::kU8 : part.operands[scales].dtype) &&
                (codes || operand.dtype <= DType::kBF16);
    // From the first row to the last, and from the first k to the last, the operand must move over all there
    // is.
    int64_t over_n = 0, over_k = 0;
    for (size_t d = 0; d < part.loops.size(); ++d) {
      const int64_t moved = operand.strides[d] * (part.loops[d] - 1);
      fits = fits && operand.strides[d] >= 0;
      ((g.n >> d & 1) != 0 ? over_n : over_k) += moved;
    }
    fits = fits && over_n == (shape.n - 1) * (codes ? shape.Stride() : shape.ScaleStride()) &&
           over_k == (codes ? shape.k - 1 : 0);
    if (!fits) return RONDO_BROKEN("operand %u does not lie as packed weights do", index);
  }
  return Status::Ok();
}

Status VerifyRoles(const Part& part, const OperandLoops* loops) {
  const LoopGroups g(part);
  const bool matmul = part.skeleton == Skeleton::kMatMul;
  const bool convolution = part.skeleton == Skeleton::kConvolution;
  const bool attention = part.skeleton == Skeleton::kAttention;
  if (!attention) {
    RONDO_RETURN_IF_ERROR(VerifyNoRole(part.keys, "keys", part));
    RONDO_RETURN_IF_ERROR(VerifyNoRole(part.values, "values", part));
    RONDO_RETURN_IF_ERROR(VerifyNoRole(part.mask, "mask", part));
    RONDO_RETURN_IF_ERROR(VerifyNoRole(part.limit, "limit", part));
  }
  const size_t least = matmul ? 1 : 0;
  const size_t most = matmul || convolution ? kMaxSlots : 0;
  if (part.rhs.size() < least || part.rhs.size() > most) {
    return RONDO_BROKEN("a %s has %zu to %zu rhs, not %zu", Name(part.skeleton), least, most,
                        part.rhs.size());
  }
  if (matmul) {
    const bool typed = part.prologue.empty();
    RONDO_RETURN_IF_ERROR(VerifyRole(part, loops, {"lhs", part.lhs, true, g.outer | g.m | g.reduced, typed}));
    const bool packed = part.packed.type != PackedType::kNone;
    for (uint16_t rhs : part.rhs) {
      RONDO_RETURN_IF_ERROR(VerifyRole(part, loops, {"rhs", rhs, true, g.outer | g.n | g.reduced, !packed}));
    }
    return packed ? VerifyPacked(part, loops, g) : Status::Ok();
  }
  if (part.packed.type != PackedType::kNone)
    return RONDO_BROKEN("a %s has no packed weights", Name(part.skeleton));
  if (convolution) {
    const LoopMask group = LoopRange(1, 1), out_channel = LoopRange(2, 1);
    if ((part.combine == Combine::kProduct) == part.rhs.empty()) {
      return RONDO_BROKEN(part.rhs.empty() ? "a convolution needs its weight" : "a pool has no weight");
    }
    if (part.rhs.empty() && (part.loops[2] != 1 || part.loops[3 + part.n] != 1)) {
      return RONDO_BROKEN("a pool with %lld output and %lld input channels a group",
                          static_cast<long long>(part.loops[2]),
                          static_cast<long long>(part.loops[3 + part.n]));
    }
    RONDO_RETURN_IF_ERROR(
        VerifyRole(part, loops, {"input", part.lhs, true, g.outer | group | g.n | g.reduced, true}));
    for (uint16_t weight : part.rhs) {
      RONDO_RETURN_IF_ERROR(
          VerifyRole(part, loops, {"weight", weight, true, group | out_channel | g.reduced, true}));
    }
    return Status::Ok();
  }
  const bool top_k = part.skeleton == Skeleton::kTopK;
  if (!attention && !top_k) return VerifyNoRole(part.lhs, "lhs", part);
  if (attention && part.acc_type == TapeType::kI64)
    return RONDO_BROKEN("attention has floating accumulators");
  const Role roles[] = {
      {"elements", part.lhs, true, g.outer | g.m | g.reduced, false},
      {"q", part.lhs, true, g.outer | g.m | g.features, true},
      {"k", part.keys, true, g.outer | g.reduced | g.features, true},
      {"v", part.values, true, g.outer | g.reduced | g.n, true},
      {"mask", part.mask, false, g.outer | g.m | g.reduced, false},
      {"limit", part.limit, false, g.outer | g.m, false},
  };
  for (size_t i = top_k ? 0 : 1; i < (top_k ? 1 : std::size(roles)); ++i)
    RONDO_RETURN_IF_ERROR(VerifyRole(part, loops, roles[i]));
  if (top_k &&
      (part.acc_type != TapeType::kI64 || (part.combine != Combine::kMax && part.combine != Combine::kMin) ||
       part.loops[part.loops.size() - 2] > part.loops.back()))
    return RONDO_BROKEN("a %s cannot have %s", Name(part.skeleton), "such ranks");
  if (part.mask != kNoOperand && !IsFloat(part.operands[part.mask].dtype) &&
      part.operands[part.mask].dtype != DType::kBool) {
    return RONDO_BROKEN("its mask is %s, neither bool nor float", Name(part.operands[part.mask].dtype));
  }
  if (part.limit != kNoOperand && part.operands[part.limit].dtype != DType::kI64) {
    return RONDO_BROKEN("its limit is %s, not i64", Name(part.operands[part.limit].dtype));
  }
  return Status::Ok();
}

// A tape of another skeleton must be empty; a tape of this skeleton must not be.
Status VerifyPresence(const Part& part) {
  const bool map = part.skeleton == Skeleton::kMap, reduction = part.skeleton == Skeleton::kReduction;
  const struct {
    const char* name;
    bool present, required, allowed;
  } rules[] = {
      {"a prologue", !part.prologue.empty(), false, part.skeleton == Skeleton::kMatMul},
      {"a body", !part.body.empty(), map, map},
      {"stages", !part.stages.empty(), reduction, reduction},
      {"row scalars or kept rows", part.scalars + part.kept > 0, false, reduction},
      {"an epilogue", !part.epilogue.empty(), !map && !reduction, !map && !reduction},
  };
  for (const auto& rule : rules) {
    if (rule.required && !rule.present) return RONDO_BROKEN("a %s needs %s", Name(part.skeleton), rule.name);
    if (!rule.allowed && rule.present)
      return RONDO_BROKEN("a %s cannot have %s", Name(part.skeleton), rule.name);
  }
  if (part.scalars > kMaxSlots || part.kept > kMaxSlots) {
    return RONDO_BROKEN("%u row scalars and %u kept rows exceed %d", part.scalars, part.kept, kMaxSlots);
  }
  return Status::Ok();
}

// Checks that different points of `loops` store to different elements: each stride exceeds the span of the
// smaller strides. Loops on which an index from memory depends are left out.
Status VerifyDistinct(const Part& part, size_t index, LoopMask loops, LoopMask indexed) {
  const Operand& operand = part.operands[index];
  struct Dim {
    int64_t stride, extent;
    size_t loop;
  } dims[kMaxLoops];
  int count = 0;
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if (part.loops[d] == 1 || (loops >> d & 1) == 0 || (indexed >> d & 1) != 0) continue;
    const int64_t stride = EffectiveStride(operand, d);
    Dim dim = {stride < 0 ? -stride : stride, part.loops[d], d};
    int at = count++;
    for (; at > 0 && dims[at - 1].stride > dim.stride; --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  int64_t span = 0;  // span of the smaller strides
  for (int i = 0; i < count; ++i) {
    if (dims[i].stride <= span) {
      return RONDO_BROKEN("operand %zu: points of loop %zu (stride %lld) store to the same element", index,
                          dims[i].loop, static_cast<long long>(dims[i].stride));
    }
    span += dims[i].stride * (dims[i].extent - 1);
  }
  return Status::Ok();
}

// Verifies the tapes of one part and the operands that they store to.
class PartTapes {
 public:
  PartTapes(const Part& part, const OperandLoops* loops, Work& work)
      : part_(part), loops_(loops), work_(work) {}

  Status Run() {
    const LoopGroups g(part_);
    const LoopMask results = g.outer | g.m | g.n;
    const uint32_t accumulators = part_.rhs.empty() ? 1 : static_cast<uint32_t>(part_.rhs.size());
    RONDO_RETURN_IF_ERROR(One(part_.prologue, {g.outer | g.m | g.reduced, kMayYield, 0}).At("prologue"));
    RONDO_RETURN_IF_ERROR(One(part_.body, {AllLoops(part_), kMayStore | kMayCombine, 0}).At("body"));
    for (size_t i = 0; i < part_.stages.size(); ++i) {
      const Stage& stage = part_.stages[i];
      const TapePlace per_row = {g.outer, kMayStore | kMayCombine | kMayUseScalars | kMaySetScalars, 0};
      const TapePlace per_element = {g.outer | g.reduced,
                                     kMayStore | kMayCombine | kMayUseScalars | kMayReduce, 0};
      RONDO_RETURN_IF_ERROR(One(stage.tape, stage.per_row ? per_row : per_element).At("stage %zu", i));
    }
    RONDO_RETURN_IF_ERROR(
        One(part_.epilogue, {results, kMayStore | kMayCombine | kMayReadAcc, accumulators}).At("epilogue"));
    for (size_t i = 0; i < part_.operands.size(); ++i) {
      if (touched_[i] == 3 || touched_[i] > 4)
        return RONDO_BROKEN("operand %zu is combined into, and touched otherwise", i);
      if (part_.operands[i].mode != Mode::kRead && !stored_[i]) {
        return RONDO_BROKEN("operand %zu is written, but no tape stores to it", i);
      }
    }
    return any_ ? Status::Ok() : RONDO_BROKEN("it stores nothing");
  }

 private:
  Status One(Tape tape, TapePlace place) {
    place.operands = loops_;
    RONDO_RETURN_IF_ERROR(VerifyTape(part_, tape, place, &row_));
    for (const TapeInst& inst : tape) {
      if (inst.op == TapeOp::kLoad || inst.op == TapeOp::kStore) touched_[inst.arg] |= 4;
      if (Combines(inst.op)) {
        any_ = stored_[inst.arg] = true;
        touched_[inst.arg] |= inst.op == TapeOp::kCombineMax ? 1 : 2;
      }
      if (inst.op != TapeOp::kStore) continue;
      any_ = stored_[inst.arg] = true;
      if (part_.sequential) continue;
      if (!work_.Spend(kMaxLoops * (4 + part_.operands[inst.arg].guards.size()))) return TooMuchWork();
      RONDO_RETURN_IF_ERROR(VerifyDistinct(part_, inst.arg, place.loops, loops_[inst.arg].indexed));
    }
    return Status::Ok();
  }

  const Part& part_;
  const OperandLoops* const loops_;
  Work& work_;
  RowState row_;
  bool any_ = false;
  bool stored_[kMaxOperands] = {};
  uint8_t touched_[kMaxOperands] = {};  // bits: its maximum is kept, its minimum, it is loaded or stored
};

Status VerifyPart(const Part& part, uint16_t num_params, Work& work) {
  RONDO_RETURN_IF_ERROR(VerifyLoops(part));
  RONDO_RETURN_IF_ERROR(VerifyCounts(part));
  if (part.operands.size() > kMaxOperands)
    return RONDO_BROKEN("%zu operands exceed %d", part.operands.size(), kMaxOperands);
  for (size_t i = 0; i < part.operands.size(); ++i) {
    RONDO_RETURN_IF_ERROR(VerifyOperand(part, i, num_params).At("operand %zu", i));
  }
  for (size_t i = 0; i < part.operands.size(); ++i) {
    RONDO_RETURN_IF_ERROR(VerifyReach(part, part.operands[i]).At("operand %zu", i));
  }
  RONDO_RETURN_IF_ERROR(VerifyPresence(part));
  OperandLoops loops[kMaxOperands];
  for (size_t i = 0; i < part.operands.size(); ++i) loops[i] = {DependsOn(part, part.operands[i], true), 0};
  for (size_t i = 0; i < part.operands.size(); ++i) {
    for (const Indirect& indirect : part.operands[i].indirects)
      loops[i].indexed |= loops[indirect.operand].affine;
  }
  RONDO_RETURN_IF_ERROR(VerifyRoles(part, loops));
  for (const uint16_t when : part.when) {
    const uint16_t i = when & ~kUnless;
    if (i >= part.operands.size() || part.operands[i].dtype != DType::kBool ||
        part.operands[i].mode != Mode::kRead || loops[i].affine != 0 || !part.operands[i].indirects.empty() ||
        !part.operands[i].guards.empty())
      return RONDO_BROKEN("a condition is operand %u, which is not one bool that is read", i);
  }
  return PartTapes(part, loops, work).Run();
}

}  // namespace

Status VerifyLoopsOf(const OperandLoops* operands, size_t index, LoopMask loops) {
  if (LoopMask outside = (operands[index].affine | operands[index].indexed) & ~loops; outside != 0) {
    return RONDO_BROKEN("operand %zu moves with loop %d, over which it is not used", index,
                        __builtin_ctz(outside));
  }
  return Status::Ok();
}

Status VerifyKernel(const Kernel& kernel, Work& work) {
  if (kernel.parts.empty()) return RONDO_BROKEN("it has no parts");
  for (size_t i = 0; i < kernel.parts.size(); ++i) {
    RONDO_RETURN_IF_ERROR(VerifyPart(kernel.parts[i], kernel.num_params, work).At("part %zu", i));
  }
  return Status::Ok();
}

}  // namespace rondo::plan
