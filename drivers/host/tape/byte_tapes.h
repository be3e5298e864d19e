// Optimises tapes that read and write bytes: bytes become floats where they are computed with, stay bytes
// where they are only moved, and go through a table of 256 entries where everything follows from one byte.
// The table is made by the functions that would otherwise run.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

// Loads bytes as f32 if they are only cast to f32. The casts stay, unused.
void LoadBytesAsFloats(const PartContext& c, GrowingList<TapeInst>& tape);
// Stores floats that were clamped to a byte's range directly from f32.
void StoreFloatsAsBytes(const PartContext& c, GrowingList<TapeInst>& tape);
// Skips the conversion to a byte and back to float for floats that were already rounded to a byte's values.
void KeepBytesAsFloats(GrowingList<TapeInst>& tape);
// Marks loads of bytes that are stored unchanged, and these stores. Not ok() when out of memory.
GrowingList<uint8_t> OnlyMovesBytes(const PartContext& c, const GrowingList<TapeInst>& tape);
// Instructions that depend on quantised floats alone, end in a store of bytes, and take longer than a look-up
// are replaced by a look-up in a table of floats: one instruction at the place of the last, whose table is in
// `tables`.
Status MakeFloatTables(PartContext& c, GrowingList<TapeInst>* tape, GrowingList<const float*>* tables);

// The steps that depend on register `root`, up to the store of bytes (or of floats) in which they end. Empty
// if they read anything else but constants, or end otherwise. Not ok() when out of memory.
GrowingList<uint16_t> StepsFrom(const PartContext& c, Tape tape, size_t root, bool to_floats = false);
// The results of `steps` from register `root`, which holds all bytes of `dtype` as i64 or f32: lanes of the
// register that is stored.
Status TakeSteps(PartContext& c, Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                 int64_t (&results)[kLanes]);
// The stored byte for each byte, for `steps` as above that end in a store of bytes.
Status MakeByteTable(PartContext& c, Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                     const uint8_t** table);

}  // namespace rondo::host
