// What the builders of matmuls and convolutions share: operands by their role, the left side, epilogues.
#pragma once

#include "drivers/host/matmul/matmul_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

inline bool WidensToF32(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || IsFp8(t);
}

// What the left and right sides of a matmul read: those of a convolution change places with its nest.
uint16_t LeftOperand(const PartContext& c);
uint16_t RightOperand(const PartContext& c, int j);
int NumRhs(const PartContext& c);
// Whether it is a pool: a window operation without weights.
inline bool IsPool(const PartContext& c) {
  return c.part.skeleton == Skeleton::kConvolution && c.part.combine != Combine::kProduct;
}

// Estimated nanoseconds of a matmul on one thread: what each of `points` accumulators takes, and each of
// their `products`.
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
// Appends what turns register `from`, the last one of `tape`, into `type`; returns the register.
uint16_t AppendCast(GrowingList<TapeInst>& tape, uint16_t from, TapeType type);
// The lhs prologue as a tape that yields in the accumulator's type; not ok() when out of memory.
GrowingList<TapeInst> LhsTape(const PartContext& c);
// What loads the left side along k, or computes it.
Status BuildLeft(PartContext& c, LeftSide* left);

// The access, if it is plain and the group has one loop, along which it goes by `step`; else null.
const Access* Direct(const Access* access, const Nest& nest, int group, int64_t* step);
// Whether lanes of f32 lie beside each other, and rows one behind the other.
bool IsMatrix(const PartContext& c, const Access& access);

// The epilogue, over a tile of n or, where all of n is short, over several rows at once.
Status BuildEpilogue(PartContext& c, MatmulPart* part);
// Finds PartProgram::written: what the part writes, where that is the floats of a whole tensor, row by row,
// and perhaps integers.
Status FindWritten(PartContext& c, MatmulPart* part);

// Floats from row to row of accumulators over a tile of n: whole vectors, of register blocks as well.
int64_t AccumulatorRow(const Tiling& tiling, const Engine& engine);
// Rows of a block of a part of so much work, in whole lines of points if `most` rows have one.
int64_t RowsOfLines(const PartContext& c, double work, int64_t most);

}  // namespace rondo::host
