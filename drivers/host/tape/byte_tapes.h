// Tapes that read and write bytes: as floats where they compute with floats, as they are where they only move
// them, and by a table of 256, made by the very functions that would run, where all follows from one byte.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

// Bytes that are only cast to f32 are loaded as f32. The casts stay, but nothing reads them.
void LoadBytesAsFloats(const PartContext& c, GrowingList<TapeInst>& tape);
// Floats that were clamped to what a byte holds are stored from f32.
void StoreFloatsAsBytes(const PartContext& c, GrowingList<TapeInst>& tape);
// Floats that were rounded to what a byte holds are the same when they are floats again.
void KeepBytesAsFloats(GrowingList<TapeInst>& tape);
// Loads of bytes that are stored as they are, and those stores. Not ok() when out of memory.
GrowingList<uint8_t> OnlyMovesBytes(const PartContext& c, const GrowingList<TapeInst>& tape);
// What follows from quantised floats alone, is stored as bytes, and takes longer than a look-up, becomes a
// table of floats: an instruction in place of the last one, for which `tables` has it.
Status MakeFloatTables(PartContext& c, GrowingList<TapeInst>* tape, GrowingList<const float*>* tables);

// The steps that depend on register `root`, and the store, of bytes or of floats, that they end in: empty
// where they read anything else but constants, or end otherwise. Not ok() when out of memory.
GrowingList<uint16_t> StepsFrom(const PartContext& c, Tape tape, size_t root, bool to_floats = false);
// What `steps` from register `root`, which holds bytes of `dtype` as i64 or as f32, make of each, as lanes of
// the register that is stored.
Status TakeSteps(PartContext& c, Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                 int64_t (&results)[kLanes]);
// Of `steps` as above, which end in a store of bytes: the byte stored for each.
Status MakeByteTable(PartContext& c, Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                     const uint8_t** table);

}  // namespace rondo::host
