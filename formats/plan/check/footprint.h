// What a kernel touches, from its contract alone.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/kernel.h"
#include "formats/plan/check/boxes.h"

namespace rondo::check {

// The bytes that one operand touches, counted from the start of what its parameter is bound to.
struct Footprint {
  Box box;
  const Part* part = nullptr;  // null: a copy, a collective, a custom op or a kernel's workspace
  uint16_t operand = 0;        // of the part; of a custom op: the argument
  uint16_t param = 0;
  bool reads = false;
  bool writes = false;
  bool by_data = false;  // indirects or guards decide which bytes of the box are touched: see ForPieces
};

Footprint FootprintOf(const Part& part, uint16_t operand);

// One footprint an operand, of all parts, and one, written, of the workspace. Null data when out of memory.
Span<Footprint> Footprints(const Kernel& kernel, Arena& scratch);

// Calls visit(piece) for boxes that together are what `print` touches, neither more nor less, in bytes
// as Footprint::box: of guards, the points that exist; of an index that is read from data, all that it may
// be. False if `visit` is, if the work runs out, or if there are no such boxes.
bool ForPieces(const Footprint& print, Work& work, const Visit<Box>& visit);

// True if no piece of `a`, placed at `from`, may share a byte with one of `b`, placed at `other`. False, too,
// if one has no such pieces.
bool PiecesApart(const Footprint& a, int64_t from, const Footprint& b, int64_t other, Work& work);

// True if the two operands, of one part, whose parameters are bound `shift` bytes apart (b's minus a's
// address), touch the same element at each iteration point, with the same guards and indirects.
bool SameAccess(const Part& part, uint16_t a, uint16_t b, int64_t shift);

// True if reading through operand `read` and writing through operand `write`, which touch the same
// elements at the same points, gives what separate memories would: the read is a tape's (not a role's,
// an index's or the prologue's) and no load comes after a store of its row.
bool LoadedBeforeStored(const Part& part, uint16_t read, uint16_t write);

// True if `operand` is read by a tape only.
bool ReadByTapeOnly(const Part& part, uint16_t operand);

}  // namespace rondo::check
