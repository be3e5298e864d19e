#include "drivers/host/matmul/choose_matmul.h"

#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"

namespace rondo::host {
namespace {

struct Candidate {
  bool (*fits)(const PartContext& c);
  Status (*build)(PartContext& c, PartProgram** out);  // null: it does not fit after all
};
// From the fastest to the most general. If two of them fit, the first one takes less time: each states its
// estimate as PartProgram::work.
constexpr Candidate kCandidates[] = {
    {FitsPacked, BuildPacked},              //
    {FitsBytes, BuildBytes},                //
    {FitsChannelBytes, BuildChannelBytes},  //
    {FitsChannels, BuildChannels},          //
    {FitsDirect, BuildDirect},              //
    {FitsPlanes, BuildPlanes},              //
    {FitsBytePool, BuildBytePool},          //
    {FitsBlocked, BuildBlocked},            //
    {[](const PartContext&) { return true; }, BuildAccumulate},
};

Status CheckOperands(const PartContext& c) {
  const bool convolution = c.part.skeleton == Skeleton::kConvolution;
  const size_t operands = c.part.operands.size();
  for (uint16_t r : c.part.rhs) {
    if (r >= operands) return c.Fail("an operand that the part does not have");
  }
  if (c.part.rhs.size() > kMaxSlots) return c.Fail("more than 16 right-hand sides");
  if (c.part.lhs >= operands && (convolution || c.part.prologue.empty()))
    return c.Fail("a product without a lhs");
  if (!c.part.prologue.empty()) {
    bool yields = false;
    for (const TapeInst& inst : c.part.prologue) {
      yields |= inst.op == TapeOp::kYield && inst.a < c.part.prologue.size();
    }
    if (!yields) return c.Fail("a prologue that yields nothing");
  }
  if (!IsPool(c) && c.part.rhs.empty()) return c.Fail("a product without a right-hand side");
  return Status::Ok();
}

// Lanes of a tile of columns: fewer if whole tiles and rows would leave threads without work.
int LanesOfTile(const PartContext& c, double work) {
  const Nest& nest = c.nest;
  const int64_t shares = c.sharing.Shares(work);
  constexpr int kLeast = 64, kExtra = 16;  // a tile's fixed cost, in lanes
  const int64_t row_blocks = nest.points[kM] / (2 * c.engine.rows);
  const int64_t blocks = Bytes(nest.points[kOuter], row_blocks < 1 ? 1 : row_blocks);
  int best = kLanes;
  double least_time = 0;
  for (int lanes = kLanes; lanes >= kLeast; lanes /= 2) {
    const Tiling tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], lanes, c.linear);
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

}  // namespace

Status BuildMatmul(PartContext& c, PartProgram** out) {
  RONDO_RETURN_IF_ERROR(CheckOperands(c));
  const Nest& nest = c.nest;
  const MatmulWork work(nest);
  const int lanes = FitsPacked(c) ? kLanes : LanesOfTile(c, FitsBytes(c) ? work.OfBytes() : work.Blocked());
  c.tiling = MakeTiling(nest, nest.first[kN], nest.first[kN + 1], lanes, c.linear);
  for (const Candidate& candidate : kCandidates) {
    if (!candidate.fits(c)) continue;
    RONDO_RETURN_IF_ERROR(candidate.build(c, out));
    if (*out != nullptr) break;
  }
  return Status::Ok();
}

}  // namespace rondo::host
