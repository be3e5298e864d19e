// Helpers for the builders of matmuls and convolutions: operands by role, the lhs, epilogues.
#pragma once

#include "core/element.h"
#include "drivers/host/matmul/matmul_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

inline bool WidensToF32(DType t) { return t == DType::kF32 || Is16BitFloat(t) || IsFp8(t); }

// The operands of lhs and rhs. For a convolution they depend on its nest.
uint16_t LeftOperand(const PartContext& c);
uint16_t RightOperand(const PartContext& c, int j);
int NumRhs(const PartContext& c);
// Whether the part is a pool: a window operation without weights.
inline bool IsPool(const PartContext& c) {
  return c.part.skeleton == Skeleton::kConvolution && c.part.combine != Combine::kProduct;
}

// Estimated nanoseconds of a matmul on one thread: for each of `points` accumulators, and for each of their
// `products`.
struct MatmulWork {
  double points = 0, products = 0;

  explicit MatmulWork(const Nest& nest)
      : points(static_cast<double>(nest.points[kOuter]) * static_cast<double>(nest.points[kM]) *
               static_cast<double>(nest.points[kN])),
        products(points * static_cast<double>(nest.points[kK])) {}
  double Accumulated() const { return points * 0.5 + products * 0.5; }
  double Blocked() const { return points * 0.5 + products * 0.02; }
  double Packed() const { return points * 0.5 + products * 0.05; }
  double OfBytes() const { return points + products * 0.005; }
};

TapeInst MakeInst(TapeOp op, TapeType type, uint16_t arg, uint16_t a);
// Appends a cast of register `from`, the last of `tape`, to `type`; returns the register.
uint16_t AppendCast(GrowingList<TapeInst>& tape, uint16_t from, TapeType type);
// The lhs prologue as a tape that yields in the accumulator's type; not ok() when out of memory.
GrowingList<TapeInst> LhsTape(const PartContext& c);
// Builds the load of the lhs along k, or the tape that computes it.
Status BuildLeft(PartContext& c, LeftSide* left);

// The access, if it is plain and the group has a single loop, and its step; otherwise null.
const Access* Direct(const Access* access, const Nest& nest, int group, int64_t* step);
// Floats between the panels of kStoredColumns columns in which the rhs is stored; 0: it is not.
int64_t StoredPanels(const PartContext& c, const Access& rhs);
// Whether lanes of f32 are contiguous, and rows follow one another without gaps.
bool IsMatrix(const PartContext& c, const Access& access);

// Builds the epilogue, over a tile of n or, if all of n is short, over several rows at once.
Status BuildEpilogue(PartContext& c, MatmulPart* part);
// Sets PartProgram::written if the part writes the floats of a whole tensor row by row (and possibly
// integers).
Status FindWritten(PartContext& c, MatmulPart* part);

// Floats between rows of accumulators over a tile of n: whole vectors.
int64_t AccumulatorRow(const Tiling& tiling, const Engine& engine);
// Rows in a block of a part with this much work; whole lines of points if `most` rows contain one.
int64_t RowsOfLines(const PartContext& c, double work, int64_t most);

}  // namespace rondo::host
