// Compiles tapes: scalar operations over registers of kLanes values, for one nest and its tiles.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

struct TapeUse {
  int pinned = 0;                       // registers kept free at the front
  GrowingList<uint16_t> keep;           // tape registers that stay valid to the end
  GrowingList<uint32_t>* at = nullptr;  // out: byte offset of every tape register
  bool loads_once = false;  // operands that are the same in every tile are loaded before the first
};
Status BuildTape(PartContext& c, Tape tape, const Tiling& tiling, const TapeUse& use, Program* out);

// Builds one instruction of a tape. `moves`: a load or store of bytes that are only moved.
Status BuildInst(PartContext& c, const TapeInst& in, const GrowingList<TapeInst>& tape, const Tiling& tiling,
                 Inst* out, bool moves = false);
// Checks that instruction `k` only reads registers and slots that are set, and names existing operands.
Status CheckInst(const PartContext& c, const TapeInst& in, size_t k, const GrowingList<TapeInst>& tape);
// Copies instructions into the arena.
Status FinishProgram(PartContext& c, const GrowingList<Inst>& once, const GrowingList<Inst>& body,
                     Program* out);

}  // namespace rondo::host
