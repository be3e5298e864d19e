// What a kernel touches, derived from its contract alone.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/kernel.h"
#include "formats/plan/check/boxes.h"

namespace rondo::check {

// The bytes that one operand touches, counted from the start of its parameter's binding.
struct Footprint {
  Box box;
  const Part* part = nullptr;  // null: a copy, a collective, a custom op or a kernel's workspace
  uint16_t operand = 0;        // of the part; of a custom op: the argument
  uint16_t param = 0;
  bool reads = false;
  bool writes = false;
  bool by_data = false;  // indirects or guards decide which bytes of the box are touched (ForPieces)
};

Footprint FootprintOf(const Part& part, uint16_t operand);

// One footprint for each operand of all parts, and a written one for the workspace. Null data when out of
// memory.
Span<Footprint> Footprints(const Kernel& kernel, Arena& scratch);

// Calls visit(piece) for boxes that together are exactly what `print` touches, in bytes like Footprint::box:
// for guards, the points that exist; for an index read from data, all of its possible values. False if
// `visit` returns false, if the work runs out, or if there are no such boxes.
bool ForPieces(const Footprint& print, Work& work, const Visit<Box>& visit);

// True if no piece of `a`, placed at `from`, can share a byte with a piece of `b`, placed at `other`. Also
// false if one of them has no exact pieces.
bool PiecesApart(const Footprint& a, int64_t from, const Footprint& b, int64_t other, Work& work);

// True if the two operands, of one part, whose parameters are bound `shift` bytes apart (b's minus a's
// address), touch the same element at each iteration point, with the same guards and indirects.
bool SameAccess(const Part& part, uint16_t a, uint16_t b, int64_t shift);

// True if reading through operand `read` and writing through operand `write`, which touch the same elements
// at the same points, gives the same result as with separate memories: the read is a tape's (not a role's, an
// index's or the prologue's), and no load follows a store of its row.
bool LoadedBeforeStored(const Part& part, uint16_t read, uint16_t write);

// True if `operand` is read by a tape only.
bool ReadByTapeOnly(const Part& part, uint16_t operand);

}  // namespace rondo::check
