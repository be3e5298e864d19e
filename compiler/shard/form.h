// Form: how the devices of a program hold one value.
//
// Dense row-major storage of E elements is dealt out in runs: seen as [E / (N * run), N, run], device r of N
// holds index r of the middle. So a form survives every reshape, and heads, blocks of columns and whole rows
// are all the same thing. Within a shape, the run is a split of one dim, seen as [outer, N, inner]: what a
// device holds has that dim divided by N. With copies, there are N / copies parts, and neighbours hold the
// same one: device r has part r / copies (two heads of keys on four devices). Plain values and pure
// functions; thread-safe.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "core/shape.h"

namespace rondo::shard {

using ir::ConstantData, ir::Graph, ir::kNoNode, ir::Node, ir::NodeId, ir::Op, ir::View;

// Elements of a run, or one of the two below.
using Form = int64_t;
inline constexpr Form kWhole = 0;     // every device holds all of it, equal to the bit
inline constexpr Form kPartial = -1;  // every device holds a summand of all of it
inline constexpr Form kFree = -2;     // of a value whose form nobody has given: none yet

inline bool IsSplit(Form form) { return form > 0; }

// A split of which every part is on `copies` devices, at most 256; they divide the number of devices.
inline constexpr int kCopiesShift = 48;
constexpr Form WithCopies(Form form, int64_t copies) {
  return form > 0 ? form | (copies - 1) << kCopiesShift : form;
}
constexpr int64_t CopiesOf(Form form) { return form > 0 ? (form >> kCopiesShift) + 1 : 1; }
// The same without copies: elements of a run.
constexpr Form RunOf(Form form) { return form > 0 ? form & ((Form{1} << kCopiesShift) - 1) : form; }
// How many parts a split has.
constexpr int64_t PartsOf(Form form, int64_t devices) { return devices / CopiesOf(form); }

// Which dim of a shape a split divides, and the innermost part of that dim that stays together.
struct SplitDim {
  int dim = -1;  // -1: the runs cross dims, so that no share has a shape
  int64_t inner = 0;
};
SplitDim DimOf(const Shape& shape, Form form, int64_t devices);

// The form that splits `dim` into [outer, devices / copies, inner]; kWhole if the dim does not divide that
// way.
Form SplitOf(const Shape& shape, int dim, int64_t inner, int64_t devices, int64_t copies = 1);

// What device `rank` holds of dense storage of `shape`.
ir::View ShareView(const Shape& shape, Form form, int64_t devices, int64_t rank);
// What one device holds of `shape`.
Shape LocalShape(const Shape& shape, Form form, int64_t devices);

}  // namespace rondo::shard
