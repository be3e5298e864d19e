#include "drivers/host/part_context.h"

#include <cstring>

#include "core/guard.h"
#include "core/plan.h"
#include "drivers/host/attention/attention_builder.h"
#include "drivers/host/map/map_builder.h"
#include "drivers/host/matmul/choose_matmul.h"
#include "drivers/host/reduction/reduction_builder.h"
#include "drivers/host/top_k/top_k_builder.h"

namespace rondo::host {

Status PartContext::Fail(const char* what) const {
  return Status::Error(Code::kUnsupported, "kernel \"%.*s\" (%s): the host driver cannot run %s",
                       static_cast<int>(kernel.name.size()), kernel.name.data(), Name(part.skeleton), what);
}

Status PartContext::NoMemory() const {
  return Status::Error(Code::kOutOfMemory, "kernel \"%.*s\": no memory to prepare it on the host driver",
                       static_cast<int>(kernel.name.size()), kernel.name.data());
}

int64_t PartContext::Take(int64_t bytes) {
  const int64_t at = scratch_bytes;  // a few pieces for each tape, each at most twice the limit: no overflow
  scratch_bytes += (bytes + 127) / 64 * 64;
  return at;
}

namespace {

// Converts strides over the part's loops to strides over the nest's loops.
void ToNest(const Nest& nest, const int64_t* strides, int64_t* coefficients) {
  for (int e = 0; e < nest.loops; ++e) coefficients[e] = nest.source[e] < 0 ? 0 : strides[nest.source[e]];
}

// The loop along which a tile's lanes run.
int RunLoop(const Nest& nest, const Tiling& tiling) {
  int d = tiling.end - 1;
  while (d > tiling.split && nest.extent[d] == 1) --d;
  return d;
}

int KindOf(const LanePattern& lane) { return static_cast<int>(lane.kind); }

}  // namespace

Status PartContext::BuildAccess(uint16_t operand_index, const Tiling& tiling, const Access** out, int depth,
                                LoadAs as) {
  if (operand_index >= part.operands.size()) return Fail("an operand that the part does not have");
  if (depth > kMaxIndexDepth) return Fail("indices read through more than 4 levels of indices");
  const Operand& operand = part.operands[operand_index];
  Span<Access> made = arena.New<Access>(1);
  if (made.data() == nullptr) return NoMemory();
  Access& access = made[0];
  access.param = operand.param;
  access.operand = operand_index;
  access.dtype = operand.dtype;
  access.size = static_cast<uint8_t>(ByteSize(operand.dtype));
  access.wide = as == LoadAs::kByte                                                    ? 1
                : as == LoadAs::kFloat || NaturalType(operand.dtype) == TapeType::kF32 ? 4
                                                                                       : 8;
  const auto& loads = as == LoadAs::kFloat  ? engine.load_float
                      : as == LoadAs::kByte ? engine.load_byte
                                            : engine.load;
  const auto& stores = as == LoadAs::kFloat  ? engine.store_float
                       : as == LoadAs::kByte ? engine.store_byte
                                             : engine.store;
  access.absent = operand.absent;
  access.offset = operand.offset;
  for (const Guard& guard : operand.guards) access.offset += guard.stride * guard.offset;

  int64_t strides[kMaxLoops], coefficients[kMaxNest];
  FullStrides(operand, static_cast<int>(part.loops.size()), strides);
  ToNest(nest, strides, coefficients);
  for (int e = 0; e < nest.loops; ++e) {
    if (coefficients[e] == 0) continue;
    access.loop[access.num_loops] = static_cast<uint8_t>(e);
    access.step[access.num_loops++] = coefficients[e];
  }
  int64_t least, greatest;
  if (!MakeLane(nest, tiling, coefficients, arena, &access.lane, &least, &greatest, &overflow)) {
    return NoMemory();
  }
  const int run = RunLoop(nest, tiling);
  access.run_lanes = run == tiling.split ? tiling.chunk * tiling.inner : nest.extent[run];
  access.run.stride = coefficients[run];
  access.run.kind = coefficients[run] == 1 ? LaneKind::kUnit : LaneKind::kStride;
  access.load_run = loads[static_cast<int>(operand.dtype)][KindOf(access.run)];
  access.store_run = stores[static_cast<int>(operand.dtype)][KindOf(access.run)];
  constexpr int64_t kShortRun = 4;
  access.by_runs = access.lane.kind == LaneKind::kTable && access.run.kind == LaneKind::kUnit &&
                   access.run_lanes >= kShortRun;
  RONDO_RETURN_IF_ERROR(BuildGuards(operand, tiling, &access));
  RONDO_RETURN_IF_ERROR(BuildIndices(operand, tiling, &access, depth));
  access.plain = access.num_guards == 0 && access.num_indices == 0;

  const int dtype = static_cast<int>(operand.dtype);
  access.load = loads[dtype][KindOf(access.lane)];
  access.store = stores[dtype][KindOf(access.lane)];
  access.gather = engine.gather[dtype];
  access.scatter = engine.scatter[dtype];
  access.fill = engine.fill[static_cast<int>(NaturalType(operand.dtype))];
  *out = &access;
  return Status::Ok();
}

Status PartContext::BuildGuards(const Operand& operand, const Tiling& tiling, Access* access) {
  if (operand.guards.size() > kMaxLoops) return Fail("an operand with more guards than loops");
  Span<GuardTest> tests = arena.New<GuardTest>(operand.guards.size());
  if (tests.data() == nullptr) return NoMemory();
  for (size_t g = 0; g < operand.guards.size(); ++g) {
    const Guard& guard = operand.guards[g];
    Span<uint8_t> loop = arena.New<uint8_t>(kMaxNest);
    Span<int64_t> step = arena.New<int64_t>(kMaxNest);
    if (loop.data() == nullptr || step.data() == nullptr) return NoMemory();
    int64_t strides[kMaxNest];
    ToNest(nest, guard.strides.data(), strides);
    GuardTest& test = tests[g];
    test.offset = guard.offset;
    test.extent = guard.extent;
    for (int e = 0; e < nest.loops; ++e) {
      if (strides[e] == 0) continue;
      loop[static_cast<size_t>(test.loops)] = static_cast<uint8_t>(e);
      step[static_cast<size_t>(test.loops++)] = strides[e];
    }
    test.loop = loop.data();
    test.step = step.data();
    if (!MakeLane(nest, tiling, strides, arena, &test.lane, &test.least, &test.greatest, &overflow)) {
      return NoMemory();
    }
    test.run_step = strides[RunLoop(nest, tiling)];
    access->same_tests &= test.lane.kind == LaneKind::kSame;
  }
  access->guards = tests.data();
  access->num_guards = static_cast<uint8_t>(operand.guards.size());
  return Status::Ok();
}

Status PartContext::BuildIndices(const Operand& operand, const Tiling& tiling, Access* access, int depth) {
  if (operand.indirects.size() > kMaxLoops) return Fail("an operand with more indirect indices than 16");
  Span<IndexTerm> terms = arena.New<IndexTerm>(operand.indirects.size());
  if (terms.data() == nullptr) return NoMemory();
  for (size_t i = 0; i < operand.indirects.size(); ++i) {
    const Indirect& indirect = operand.indirects[i];
    IndexTerm& term = terms[i];
    term.wrap = indirect.wrap;
    term.fault = indirect.fault;
    term.stride = indirect.stride;
    term.extent = indirect.extent;
    if (indirect.operand >= part.operands.size() || IsFloat(part.operands[indirect.operand].dtype)) {
      return Fail("an index whose operand is not an integer");
    }
    RONDO_RETURN_IF_ERROR(BuildAccess(indirect.operand, tiling, &term.index, depth + 1));
    term.same = term.index->lane.kind == LaneKind::kSame && term.index->same_tests;
    access->same_tests &= term.same;
  }
  access->indices = terms.data();
  access->num_indices = static_cast<uint8_t>(operand.indirects.size());
  return Status::Ok();
}

Status PartContext::Start() {
  Take(static_cast<int64_t>(kAccessBytes) * (kMaxIndexDepth + 2));  // for guarded accesses, at offset 0
  if (part.loops.size() > kMaxLoops) return Fail("more than 16 loops");
  RONDO_RETURN_IF_ERROR(DropGuards());
  channels_last = ChannelsLast(part);
  nest = MakeNest(part, channels_last);
  return Status::Ok();
}

void PartContext::Set(PartProgram* made, Variant variant) const {
  made->variant = variant;
  made->run = engine.run[static_cast<int>(variant)];
}

// Removes guards that all points pass.
Status PartContext::DropGuards() {
  bool any = false;
  for (const Operand& operand : part.operands) {
    for (const Guard& guard : operand.guards) any |= AlwaysHolds(guard, part.loops);
  }
  if (!any) return Status::Ok();
  Span<Operand> operands = arena.New<Operand>(part.operands.size());
  if (operands.data() == nullptr) return NoMemory();
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& from = part.operands[i];
    Operand& to = operands[i] = from;
    if (from.guards.empty()) continue;
    Span<int64_t> strides = arena.New<int64_t>(part.loops.size());
    Span<Guard> left = arena.New<Guard>(from.guards.size());
    if (strides.data() == nullptr || left.data() == nullptr) return NoMemory();
    size_t kept = 0;
    std::memcpy(strides.data(), from.strides.data(), strides.size() * sizeof(int64_t));
    for (const Guard& guard : from.guards) {
      if (!AlwaysHolds(guard, part.loops)) {
        left[kept++] = guard;
        continue;
      }
      to.offset += guard.stride * guard.offset;
      for (size_t l = 0; l < strides.size(); ++l) {  // modulo 2^64, as FullStrides
        strides[l] = static_cast<int64_t>(static_cast<uint64_t>(strides[l]) +
                                          static_cast<uint64_t>(guard.stride) *
                                              static_cast<uint64_t>(guard.strides[l]));
      }
    }
    to.strides = Span<const int64_t>(strides.data(), strides.size());
    to.guards = Span<const Guard>(left.data(), kept);
  }
  part.operands = Span<const Operand>(operands.data(), operands.size());
  return Status::Ok();
}

bool PartContext::Depends(const Operand& operand, int group, int depth) const {
  for (int e = nest.first[group]; e < nest.first[group + 1]; ++e) {
    const int d = nest.source[e];
    if (d < 0) continue;
    if (operand.strides[d] != 0) return true;
    for (const Guard& guard : operand.guards) {
      if (guard.strides[d] != 0) return true;
    }
  }
  for (const Indirect& indirect : operand.indirects) {
    if (depth > kMaxIndexDepth || indirect.operand >= part.operands.size()) return true;
    if (Depends(part.operands[indirect.operand], group, depth + 1)) return true;
  }
  return false;
}

bool PartContext::TapeDepends(Tape tape, int group) const {
  for (const TapeInst& inst : tape) {
    if (inst.op == TapeOp::kLoad) {
      if (inst.arg >= part.operands.size() || Depends(part.operands[inst.arg], group)) return true;
    } else if (inst.op == TapeOp::kIndex) {
      const int e = inst.arg < part.loops.size() ? nest.nest_loop[inst.arg] : -1;
      if (e >= nest.first[group] && e < nest.first[group + 1]) return true;
    }
  }
  return false;
}

bool PartContext::IsPlainByte(uint16_t operand) const {
  if (operand >= part.operands.size()) return false;
  const Operand& o = part.operands[operand];
  return (o.dtype == DType::kI8 || o.dtype == DType::kU8) && o.guards.empty() && o.indirects.empty();
}

bool PartContext::IsPlainFloat(uint16_t operand) const {
  if (operand >= part.operands.size()) return false;
  const Operand& o = part.operands[operand];
  return o.dtype == DType::kF32 && o.guards.empty() && o.indirects.empty();
}

bool Linear(const Access& access, const Nest& nest, int group, int64_t* step) {
  int64_t steps[kMaxNest] = {};
  for (int i = 0; i < access.num_loops; ++i) steps[access.loop[i]] = access.step[i];
  const int last = nest.first[group + 1] - 1;
  *step = steps[last];
  bool linear = access.plain;
  for (int e = nest.first[group]; e < last; ++e) linear &= steps[e] == steps[e + 1] * nest.extent[e + 1];
  return linear;
}

int64_t StepAlong(int loops, const uint8_t* loop, const int64_t* step, int which) {
  for (int i = 0; i < loops; ++i) {
    if (loop[i] == which) return step[i];
  }
  return 0;
}

namespace {

Status BuildForSkeleton(PartContext& c, PartProgram** out) {
  switch (c.part.skeleton) {
    case Skeleton::kMap: return BuildMap(c, out);
    case Skeleton::kReduction: return BuildReduction(c, out);
    case Skeleton::kMatMul:
    case Skeleton::kConvolution: return BuildMatmul(c, out);
    case Skeleton::kAttention: return BuildAttention(c, out);
    case Skeleton::kTopK: return BuildTopK(c, out);
  }
  return c.Fail("a skeleton that it does not know");
}

}  // namespace

Status BuildPart(PartContext& c, PartProgram** out) {
  *out = nullptr;
  RONDO_RETURN_IF_ERROR(c.Start());
  PartProgram* made = nullptr;
  RONDO_RETURN_IF_ERROR(BuildForSkeleton(c, &made));
  if (c.scratch_bytes > kMaxScratchBytes) return c.Fail("what needs more than 4 GiB of scratch a thread");
  made->nest = c.nest;
  made->scratch_bytes = c.scratch_bytes;
  *out = made;
  return Status::Ok();
}

}  // namespace rondo::host
