// Depthwise convolutions and pools with one plane for each channel (Variant::kPlanes).
#include <numeric>

#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {
namespace {

constexpr int64_t kMostFloats = int64_t{1} << 20;  // of a plane, and of its results
constexpr int64_t kMostTaps = 1 << 12;
constexpr int64_t kMostExtent = int64_t{1} << 40;

// Finds how the input walks axis `s`: by a guard of its own, or only by strides. False: in another way.
bool PlaneAxisOf(const PartContext& c, int s, PlaneAxis* axis) {
  const Operand& input = c.part.operands[c.part.lhs];
  const size_t out = static_cast<size_t>(3 + s), tap = static_cast<size_t>(4 + c.part.n + s);
  axis->points = c.part.loops[out];
  axis->taps = c.part.loops[tap];
  const Guard* own = nullptr;
  for (const Guard& guard : input.guards) {
    if ((axis->points > 1 && guard.strides[out] != 0) || (axis->taps > 1 && guard.strides[tap] != 0)) {
      if (own != nullptr) return false;
      own = &guard;
    }
  }
  int64_t step = input.strides[out], dilation = input.strides[tap];
  if (own != nullptr) {
    if ((axis->points > 1 && step != 0) || (axis->taps > 1 && dilation != 0)) return false;
    step = own->strides[out];
    dilation = own->strides[tap];
  }
  if (axis->points == 1) step = axis->taps == 1 ? 1 : dilation;
  if (axis->taps == 1) dilation = step;
  if (step < 1 || dilation < 1) return false;
  const int64_t unit = own != nullptr ? 1 : std::gcd(step, dilation);
  axis->stride = own != nullptr ? own->stride : unit;
  axis->step = step / unit;
  axis->dilation = dilation / unit;
  axis->length = 1 + Bytes(axis->step, axis->points - 1) + Bytes(axis->dilation, axis->taps - 1);
  if (axis->length > kMostFloats || axis->step > kMostFloats) return false;
  axis->last = axis->length;
  if (own != nullptr) {  // inside from -offset on, for `extent`
    if (own->offset < -kMostFloats || own->offset > kMostFloats || own->extent > kMostExtent) return false;
    axis->first = own->offset < 0 ? -own->offset : 0;
    if (own->extent - own->offset < axis->last) axis->last = own->extent - own->offset;
    if (axis->first > axis->length) axis->first = axis->length;
    if (axis->last < axis->first) axis->last = axis->first;
  }
  axis->pitch = (axis->length + axis->step - 1) / axis->step;
  return true;
}

// Fills in each tap's place in the plane, and its weight.
Status BuildPlaneTaps(PartContext& c, PlanesProgram* planes) {
  Span<int64_t> at = c.arena.New<int64_t>(static_cast<size_t>(planes->taps)),
                weight = c.arena.New<int64_t>(static_cast<size_t>(planes->taps));
  if (at.data() == nullptr || weight.data() == nullptr) return c.NoMemory();
  for (int64_t t = 0; t < planes->taps; ++t) {
    int64_t rest = t;
    for (int s = kMaxPlaneAxes - 1; s >= 0; --s) {
      const PlaneAxis& axis = planes->axis[s];
      const int64_t k = rest % axis.taps, from = k * axis.dilation;
      rest /= axis.taps;
      at[static_cast<size_t>(t)] +=
          from % axis.step * axis.phase_floats + from / axis.step * axis.pitch_floats;
      if (IsPool(c) || axis.taps == 1) continue;
      const Operand& of = c.part.operands[c.part.rhs[0]];
      weight[static_cast<size_t>(t)] +=
          k * of.strides[c.part.loops.size() - static_cast<size_t>(kMaxPlaneAxes - s)];
    }
  }
  planes->tap_at = at.data();
  planes->tap_weight = weight.data();
  return Status::Ok();
}

}  // namespace

// Requires f32, one channel in and out, guards of one axis each, and no index from data.
bool FitsPlanes(const PartContext& c) {
  if (c.part.skeleton != Skeleton::kConvolution || c.part.rhs.size() > 1 || c.channels_last ||
      c.part.acc_type != TapeType::kF32)
    return false;
  const size_t axes = c.part.n;
  if (axes < 1 || axes > kMaxPlaneAxes || c.part.reduced != c.part.n + 1 || !c.part.prologue.empty())
    return false;
  if (c.part.loops[2] != 1 || c.part.loops[3 + axes] != 1) return false;
  const Operand& input = c.part.operands[c.part.lhs];
  const bool pool = c.part.combine != Combine::kProduct;
  if (input.dtype != DType::kF32 || !input.indirects.empty() || (!pool && input.absent != 0)) return false;
  for (const Guard& guard : input.guards) {
    size_t walked = axes;  // the axis that the guard moves with
    for (size_t d = 0; d < c.part.loops.size(); ++d) {
      if (c.part.loops[d] == 1 || guard.strides[d] == 0) continue;
      const size_t axis = d >= 4 + axes ? d - 4 - axes : d >= 3 && d < 3 + axes ? d - 3 : axes;
      if (axis == axes || (walked != axes && walked != axis)) return false;
      walked = axis;
    }
    if (walked == axes) return false;
  }
  if (pool) return true;
  const Operand& weight = c.part.operands[c.part.rhs[0]];
  return weight.dtype == DType::kF32 && weight.indirects.empty() && weight.guards.empty() &&
         !c.Depends(weight, kN);
}

Status BuildPlanes(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  PlanesProgram planes;
  bool fits = true;
  for (int s = 0; s < c.part.n && fits; ++s)
    fits = PlaneAxisOf(c, s, &planes.axis[kMaxPlaneAxes - c.part.n + s]);
  if (!fits) return Status::Ok();
  for (const PlaneAxis& axis : planes.axis) {
    planes.phases = Bytes(planes.phases, axis.step);
    planes.phase = Bytes(planes.phase, axis.pitch);
    planes.points = Bytes(planes.points, axis.points);
    planes.taps = Bytes(planes.taps, axis.taps);
    planes.flat = planes.flat * axis.pitch + axis.points - 1;
  }
  ++planes.flat;
  constexpr int64_t kSlack = 16;  // floats read beyond a plane: one vector
  planes.phase += kSlack;
  if (Bytes(planes.phases, planes.phase) > kMostFloats || planes.taps > kMostTaps) return Status::Ok();
  int64_t phases = planes.phase, pitch = 1;
  for (int s = kMaxPlaneAxes - 1; s >= 0; --s) {
    PlaneAxis& axis = planes.axis[s];
    axis.phase_floats = phases;
    axis.pitch_floats = pitch;
    phases *= axis.step;
    pitch *= axis.pitch;
  }
  PlanesPart* p = c.New<PlanesPart>(Variant::kPlanes);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->combine = c.part.combine;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, c.tiling, &p->rhs[0].by_n));
  if (!IsPool(c)) RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.rhs[0], c.tiling, &p->weight));
  RONDO_RETURN_IF_ERROR(BuildPlaneTaps(c, &planes));
  p->planes = planes;
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, c.tiling, {}, &p->epilogue));
  p->tasks = nest.points[kOuter] * nest.points[kM];
  p->work = static_cast<double>(p->tasks) * static_cast<double>(planes.points) *
            (0.3 + 0.05 * static_cast<double>(planes.taps));
  const int64_t results = (planes.flat + kSlack - 1) / kSlack * kSlack + kSlack;
  p->plane_at = c.Take(planes.phases * planes.phase * 4);
  p->acc_at = c.Take(results * 4);
  p->weight_at = c.Take(planes.taps * 4);
  if (c.part.combine == Combine::kMean) p->count_at = c.Take(planes.points * 4);
  return Status::Ok();
}

}  // namespace rondo::host
