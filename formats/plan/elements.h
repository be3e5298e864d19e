// The elements that an operand really touches in a run, one by one, using the indices in memory. access.h has
// the elements that it may touch.
#pragma once

#include <cstdint>

#include "core/kernel.h"
#include "formats/plan/access.h"

namespace rondo {

// Calls visit(element, loop counters) for every element, counted from the start of the bound region, that
// operand `index` of `part` touches; once for each point of the loops its address depends on.
// `load(operand, element)` gives element `element` of an integer operand as int64_t.
template <typename Load, typename Visit>
void ForEachElement(const Part& part, uint16_t index, const Load& load, const Visit& visit) {
  const Operand& operand = part.operands[index];
  const LoopMask depends = DependsOn(part, operand, false);
  size_t loops[kMaxLoops], count = 0;
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if ((depends >> d & 1) != 0) loops[count++] = d;
  }
  int64_t point[kMaxLoops] = {};
  const auto sum = [&](int64_t offset, Span<const int64_t> strides) {
    for (size_t l = 0; l < count; ++l) offset += strides[loops[l]] * point[loops[l]];
    return offset;
  };
  // The element at the point; false if it does not exist.
  const auto locate = [&](const Operand& of, int64_t* at) {
    *at = sum(of.offset, of.strides);
    for (const Guard& guard : of.guards) {
      const int64_t c = sum(guard.offset, guard.strides);
      if (c < 0 || c >= guard.extent) return false;
      *at += guard.stride * c;
    }
    return true;
  };
  const auto find = [&](int64_t* at) {
    if (!locate(operand, at)) return false;
    for (const Indirect& indirect : operand.indirects) {
      const Operand& by = part.operands[indirect.operand];
      int64_t from;
      int64_t value = static_cast<int64_t>(by.absent);
      if (locate(by, &from)) value = load(by, from);
      if (indirect.wrap && value < 0) value += indirect.extent;
      if (value < 0 || value >= indirect.extent) return false;
      *at += indirect.stride * value;
    }
    return true;
  };
  for (;;) {
    int64_t at;
    if (find(&at)) visit(at, point);
    size_t l = count;
    while (l > 0 && ++point[loops[l - 1]] == part.loops[loops[l - 1]]) point[loops[--l]] = 0;
    if (l == 0) return;
  }
}

}  // namespace rondo
