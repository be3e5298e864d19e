#include "core/plan.h"
#include "drivers/host/part_builder.h"

namespace rondo::host {

Status PartBuilder::Fail(const char* what) const {
  return Status::Error(Code::kUnsupported, "kernel \"%.*s\" (%s): the host driver cannot run %s",
                       static_cast<int>(kernel_.name.size()), kernel_.name.data(), Name(part_.skeleton),
                       what);
}

Status PartBuilder::NoMemory() const {
  return Status::Error(Code::kOutOfMemory, "kernel \"%.*s\": no memory to prepare it on the host driver",
                       static_cast<int>(kernel_.name.size()), kernel_.name.data());
}

int64_t PartBuilder::Take(int64_t bytes) {
  const int64_t at =
      out_->scratch_bytes;  // a few pieces a tape, each of at most twice the limit: no overflow
  out_->scratch_bytes += (bytes + 127) / 64 * 64;
  return at;
}

namespace {

// Strides over the loops of the part to strides over the loops of the nest.
void ToNest(const Nest& nest, const int64_t* strides, int64_t* coefficients) {
  for (int e = 0; e < nest.loops; ++e) coefficients[e] = nest.source[e] < 0 ? 0 : strides[nest.source[e]];
}

// The loop along which the lanes of a tile run.
int RunLoop(const Nest& nest, const Tiling& tiling) {
  int d = tiling.end - 1;
  while (d > tiling.split && nest.extent[d] == 1) --d;
  return d;
}

int KindOf(const LanePattern& lane) { return static_cast<int>(lane.kind); }

}  // namespace

Status PartBuilder::BuildAccess(uint16_t operand_index, const Tiling& tiling, const Access** out, int depth,
                                As as) {
  if (operand_index >= part_.operands.size()) return Fail("an operand that the part does not have");
  if (depth > kMaxIndexDepth) return Fail("indices read through more than 4 levels of indices");
  const Operand& operand = part_.operands[operand_index];
  Span<Access> made = arena_.New<Access>(1);
  if (made.data() == nullptr) return NoMemory();
  Access& access = made[0];
  access.param = operand.param;
  access.operand = operand_index;
  access.dtype = operand.dtype;
  access.size = static_cast<uint8_t>(ByteSize(operand.dtype));
  access.wide = as == As::kByte                                                    ? 1
                : as == As::kFloat || NaturalType(operand.dtype) == TapeType::kF32 ? 4
                                                                                   : 8;
  const auto& loads = as == As::kFloat  ? engine_.load_float
                      : as == As::kByte ? engine_.load_byte
                                        : engine_.load;
  const auto& stores = as == As::kFloat  ? engine_.store_float
                       : as == As::kByte ? engine_.store_byte
                                         : engine_.store;
  access.absent = operand.absent;
  access.offset = operand.offset;
  for (const Guard& guard : operand.guards) access.offset += guard.stride * guard.offset;

  int64_t strides[kMaxLoops], coefficients[kMaxNest];
  FullStrides(operand, static_cast<int>(part_.loops.size()), strides);
  ToNest(out_->nest, strides, coefficients);
  for (int e = 0; e < out_->nest.loops; ++e) {
    if (coefficients[e] == 0) continue;
    access.loop[access.num_loops] = static_cast<uint8_t>(e);
    access.step[access.num_loops++] = coefficients[e];
  }
  int64_t least, greatest;
  if (!MakeLane(out_->nest, tiling, coefficients, arena_, &access.lane, &least, &greatest, &overflow_)) {
    return NoMemory();
  }
  const int run = RunLoop(out_->nest, tiling);
  access.run_lanes = run == tiling.split ? tiling.chunk * tiling.inner : out_->nest.extent[run];
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
  access.gather = engine_.gather[dtype];
  access.scatter = engine_.scatter[dtype];
  access.fill = engine_.fill[static_cast<int>(NaturalType(operand.dtype))];
  *out = &access;
  return Status::Ok();
}

Status PartBuilder::BuildGuards(const Operand& operand, const Tiling& tiling, Access* access) {
  if (operand.guards.size() > kMaxLoops) return Fail("an operand with more guards than loops");
  Span<GuardTest> tests = arena_.New<GuardTest>(operand.guards.size());
  if (tests.data() == nullptr) return NoMemory();
  for (size_t g = 0; g < operand.guards.size(); ++g) {
    const Guard& guard = operand.guards[g];
    Span<uint8_t> loop = arena_.New<uint8_t>(kMaxNest);
    Span<int64_t> step = arena_.New<int64_t>(kMaxNest);
    if (loop.data() == nullptr || step.data() == nullptr) return NoMemory();
    int64_t strides[kMaxNest];
    ToNest(out_->nest, guard.strides.data(), strides);
    GuardTest& test = tests[g];
    test.offset = guard.offset;
    test.extent = guard.extent;
    for (int e = 0; e < out_->nest.loops; ++e) {
      if (strides[e] == 0) continue;
      loop[static_cast<size_t>(test.loops)] = static_cast<uint8_t>(e);
      step[static_cast<size_t>(test.loops++)] = strides[e];
    }
    test.loop = loop.data();
    test.step = step.data();
    if (!MakeLane(out_->nest, tiling, strides, arena_, &test.lane, &test.least, &test.greatest, &overflow_)) {
      return NoMemory();
    }
    test.run_step = strides[RunLoop(out_->nest, tiling)];
    access->same_tests &= test.lane.kind == LaneKind::kSame;
  }
  access->guards = tests.data();
  access->num_guards = static_cast<uint8_t>(operand.guards.size());
  return Status::Ok();
}

Status PartBuilder::BuildIndices(const Operand& operand, const Tiling& tiling, Access* access, int depth) {
  if (operand.indirects.size() > kMaxLoops) return Fail("an operand with more indirect indices than 16");
  Span<IndexTerm> terms = arena_.New<IndexTerm>(operand.indirects.size());
  if (terms.data() == nullptr) return NoMemory();
  for (size_t i = 0; i < operand.indirects.size(); ++i) {
    const Indirect& indirect = operand.indirects[i];
    IndexTerm& term = terms[i];
    term.wrap = indirect.wrap;
    term.fault = indirect.fault;
    term.stride = indirect.stride;
    term.extent = indirect.extent;
    if (indirect.operand >= part_.operands.size() || IsFloat(part_.operands[indirect.operand].dtype)) {
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

}  // namespace rondo::host
