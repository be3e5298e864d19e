// Depthwise convolutions and pools whose channels are planes, one after another (Path::kPlanes).
#include <numeric>

#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kOuter = 0, kM = 1, kN = 2;  // groups of the nest

constexpr int64_t kMostFloats = int64_t{1} << 20;  // of a plane, and of its results
constexpr int64_t kMostTaps = 1 << 12;
constexpr int64_t kMostExtent = int64_t{1} << 40;

}  // namespace

// How the input of axis `s` is walked: by a guard of its own, or by strides alone. False: another way.
bool PartBuilder::PlaneAxisOf(int s, PlaneAxis* axis) const {
  const Operand& input = part_.operands[part_.lhs];
  const size_t out = static_cast<size_t>(3 + s), tap = static_cast<size_t>(4 + part_.n + s);
  axis->points = part_.loops[out];
  axis->taps = part_.loops[tap];
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

// f32, one channel in and out, every guard of one axis, and no index from data.
bool PartBuilder::FitsPlanes() const {
  if (part_.skeleton != Skeleton::kConvolution || channels_ || part_.acc_type != TapeType::kF32) return false;
  const size_t axes = part_.n;
  if (axes < 1 || axes > kMaxPlaneAxes || part_.reduced != part_.n + 1 || !part_.prologue.empty())
    return false;
  if (part_.loops[2] != 1 || part_.loops[3 + axes] != 1) return false;
  const Operand& input = part_.operands[part_.lhs];
  const bool pool = part_.combine != Combine::kProduct;
  if (input.dtype != DType::kF32 || !input.indirects.empty() || (!pool && input.absent != 0)) return false;
  for (const Guard& guard : input.guards) {
    size_t walked = axes;  // by which axis
    for (size_t d = 0; d < part_.loops.size(); ++d) {
      if (part_.loops[d] == 1 || guard.strides[d] == 0) continue;
      const size_t axis = d >= 4 + axes ? d - 4 - axes : d >= 3 && d < 3 + axes ? d - 3 : axes;
      if (axis == axes || (walked != axes && walked != axis)) return false;
      walked = axis;
    }
    if (walked == axes) return false;
  }
  if (pool) return true;
  const Operand& weight = part_.operands[part_.rhs[0]];
  return weight.dtype == DType::kF32 && weight.indirects.empty() && weight.guards.empty() &&
         !Depends(weight, kN);
}

Status PartBuilder::BuildPlanes(bool* built) {
  const Nest& nest = out_->nest;
  Span<PlanesProgram> made = arena_.New<PlanesProgram>(1);
  if (made.data() == nullptr) return NoMemory();
  PlanesProgram& planes = made[0];
  *built = true;
  for (int s = 0; s < part_.n && *built; ++s)
    *built = PlaneAxisOf(s, &planes.axis[kMaxPlaneAxes - part_.n + s]);
  if (!*built) return Status::Ok();
  for (const PlaneAxis& axis : planes.axis) {
    planes.phases = Bytes(planes.phases, axis.step);
    planes.phase = Bytes(planes.phase, axis.pitch);
    planes.points = Bytes(planes.points, axis.points);
    planes.taps = Bytes(planes.taps, axis.taps);
    planes.flat = planes.flat * axis.pitch + axis.points - 1;
  }
  ++planes.flat;
  constexpr int64_t kSlack = 16;  // floats read beyond a plane: a vector
  planes.phase += kSlack;
  *built = Bytes(planes.phases, planes.phase) <= kMostFloats && planes.taps <= kMostTaps;
  if (!*built) return Status::Ok();
  int64_t phases = planes.phase, pitch = 1;
  for (int s = kMaxPlaneAxes - 1; s >= 0; --s) {
    PlaneAxis& axis = planes.axis[s];
    axis.phase_floats = phases;
    axis.pitch_floats = pitch;
    phases *= axis.step;
    pitch *= axis.pitch;
  }
  out_->path = Path::kPlanes;
  out_->planes = &planes;
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.lhs, out_->tiling, &out_->rhs[0].by_n));
  if (out_->has_lhs) RONDO_RETURN_IF_ERROR(BuildAccess(part_.rhs[0], out_->tiling, &out_->weight));
  RONDO_RETURN_IF_ERROR(BuildPlaneTaps(&planes));
  RONDO_RETURN_IF_ERROR(BuildTape(part_.epilogue, out_->tiling, {}, &out_->program));
  out_->tasks = nest.points[kOuter] * nest.points[kM];
  out_->work = static_cast<double>(out_->tasks) * static_cast<double>(planes.points) *
               (0.3 + 0.05 * static_cast<double>(planes.taps));
  const int64_t results = (planes.flat + kSlack - 1) / kSlack * kSlack + kSlack;
  out_->rhs_at = Take(planes.phases * planes.phase * 4);
  out_->acc_at = Take(results * 4);
  out_->lhs_at = Take(planes.taps * 4);
  if (part_.combine == Combine::kMean) out_->count_at = Take(planes.points * 4);
  return Status::Ok();
}

// Where each tap lies in the plane, and its weight.
Status PartBuilder::BuildPlaneTaps(PlanesProgram* planes) {
  Span<int64_t> at = arena_.New<int64_t>(static_cast<size_t>(planes->taps)),
                weight = arena_.New<int64_t>(static_cast<size_t>(planes->taps));
  if (at.data() == nullptr || weight.data() == nullptr) return NoMemory();
  for (int64_t t = 0; t < planes->taps; ++t) {
    int64_t rest = t;
    for (int s = kMaxPlaneAxes - 1; s >= 0; --s) {
      const PlaneAxis& axis = planes->axis[s];
      const int64_t k = rest % axis.taps, from = k * axis.dilation;
      rest /= axis.taps;
      at[static_cast<size_t>(t)] +=
          from % axis.step * axis.phase_floats + from / axis.step * axis.pitch_floats;
      if (!out_->has_lhs || axis.taps == 1) continue;
      const Operand& of = part_.operands[part_.rhs[0]];
      weight[static_cast<size_t>(t)] +=
          k * of.strides[part_.loops.size() - static_cast<size_t>(kMaxPlaneAxes - s)];
    }
  }
  planes->tap_at = at.data();
  planes->tap_weight = weight.data();
  return Status::Ok();
}

}  // namespace rondo::host
