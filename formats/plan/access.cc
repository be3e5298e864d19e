#include "formats/plan/access.h"

namespace rondo {
namespace {

// A closed range of a sum, and the sum of its terms' magnitudes, which bounds every partial sum.
struct Sum {
  int64_t least = 0, greatest = 0, magnitude = 0;

  // Adds a term with values in [low, high].
  bool Add(int64_t low, int64_t high) {
    if (low < -kMaxReach || high > kMaxReach) return false;
    least += low;
    greatest += high;
    const int64_t size = high > -low ? high : -low;
    magnitude += size > 0 ? size : -size;
    return magnitude <= kMaxReach;
  }
  // Adds factor * x for x in [low, high].
  bool AddScaled(int64_t factor, int64_t low, int64_t high) {
    int64_t a, b;
    if (__builtin_mul_overflow(factor, low, &a) || __builtin_mul_overflow(factor, high, &b)) return false;
    return a < b ? Add(a, b) : Add(b, a);
  }
  bool AddLoops(const Part& part, Span<const int64_t> strides) {
    for (size_t d = 0; d < strides.size(); ++d) {
      if (!AddScaled(strides[d], 0, part.loops[d] - 1)) return false;
    }
    return true;
  }
};

}  // namespace

bool Reach(const Part& part, const Operand& operand, ElementRange* out) {
  bool exists = true;
  Sum address;
  if (!address.Add(operand.offset, operand.offset) || !address.AddLoops(part, operand.strides)) return false;
  int64_t magnitude = address.magnitude;
  for (const Guard& guard : operand.guards) {
    Sum coordinate;
    if (!coordinate.Add(guard.offset, guard.offset) || !coordinate.AddLoops(part, guard.strides))
      return false;
    // A driver may compute stride * c before it checks c.
    Sum whole;
    if (!whole.AddScaled(guard.stride, coordinate.least, coordinate.greatest)) return false;
    magnitude += whole.magnitude;
    if (magnitude > kMaxReach) return false;
    const int64_t low = coordinate.least > 0 ? coordinate.least : 0;
    const int64_t high = coordinate.greatest < guard.extent - 1 ? coordinate.greatest : guard.extent - 1;
    if (low > high) {
      exists = false;
    } else if (!address.AddScaled(guard.stride, low, high)) {
      return false;
    }
  }
  for (const Indirect& indirect : operand.indirects) {
    if (!address.AddScaled(indirect.stride, 0, indirect.extent - 1)) return false;
  }
  *out = exists ? ElementRange{address.least, address.greatest + 1} : ElementRange{};
  return true;
}

LoopMask DependsOn(const Part& part, const Operand& operand, bool affine_only) {
  LoopMask mask = 0;
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if (part.loops[d] == 1) continue;
    bool depends = operand.strides[d] != 0;
    for (const Guard& guard : operand.guards) depends |= guard.strides[d] != 0;
    if (depends) mask |= LoopMask{1} << d;
  }
  if (affine_only) return mask;
  for (const Indirect& indirect : operand.indirects) {
    mask |= DependsOn(part, part.operands[indirect.operand], true);
  }
  return mask;
}

int64_t EffectiveStride(const Operand& operand, size_t loop) {
  int64_t stride = operand.strides[loop];
  for (const Guard& guard : operand.guards) stride += guard.stride * guard.strides[loop];
  return stride;
}

}  // namespace rondo
