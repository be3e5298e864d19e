// Regular sets of bytes. The checker asks two questions: may two sets share a byte, and do some sets together
// cover another?
//
// Both use mixed-radix arithmetic: where the strides of all boxes divide one another, the digits of an
// address are the counters of these strides, and a box is a product of intervals of digits.
#pragma once

#include <cstdint>

#include "formats/plan/work.h"

namespace rondo::check {

inline constexpr int kMaxBoxRank = 8;
inline constexpr int kMaxDigits = 12;
inline constexpr int kMaxPieces = 512;

struct BoxDim {
  int64_t stride = 0;  // bytes, positive
  int64_t extent = 1;
};

// The bytes base + sum of i[d] * dims[d].stride, for all 0 <= i[d] < dims[d].extent. Innermost first;
// dims[0].stride is 1. If not `exact`, the set is only known to lie within [base, end).
struct Box {
  int64_t base = 0;
  int64_t end = 0;  // base == end: no bytes
  int rank = 0;
  bool exact = true;
  BoxDim dims[kMaxBoxRank];

  bool empty() const { return base >= end; }
  // Exactly the bytes [base, end).
  bool dense() const { return exact && rank == 1; }
};

Box DenseBox(int64_t base, int64_t end);
// Elements of `element` bytes, the first at byte `base`; `dims` in any order, strides of either sign.
Box StridedBox(int64_t base, int64_t element, const BoxDim* dims, int count);
inline Box Shifted(Box box, int64_t by) {
  box.base += by;
  box.end += by;
  return box;
}

// The union of `box` in `times` rounds, each `stride` bytes after the one before.
Box Repeated(const Box& box, int64_t stride, int64_t times);

// False only if no byte is in both. Also true when the work budget runs out.
bool MayShare(const Box& a, const Box& b, Work& work);

// The digits of addresses: strides that divide one another, ascending from 1.
struct Grid {
  int digits = 1;
  int64_t strides[kMaxDigits] = {1};
  bool Has(int64_t stride) const {
    int at = 0;
    while (at < digits && strides[at] != stride) ++at;
    return at < digits;
  }
  // Adds a stride; false, and unchanged, if it does not fit.
  bool Add(int64_t stride);
  // Adds those strides of a box that fit; false if some do not.
  bool Add(const Box& box);
};

// A reference to the caller's function, valid during a call.
template <typename T>
class Visit {
 public:
  template <typename F>
  Visit(const F& f)  // NOLINT: conversion is the point
      : user_(&f), call_([](const void* user, const T& x) { return (*static_cast<const F*>(user))(x); }) {}
  bool operator()(const T& x) const { return call_(user_, x); }

 private:
  const void* user_;
  bool (*call_)(const void* user, const T& x);
};

// Splits `box` into parts whose strides all belong to the grid: one for each value of the counters of the
// other strides. Calls visit(part) for each. False if `visit` returns false or the work runs out.
bool ForPartsOnGrid(const Grid& grid, const Box& box, Work& work, const Visit<Box>& visit);

// A product of closed intervals of digits.
struct GridBox {
  int64_t low[kMaxDigits];
  int64_t high[kMaxDigits];
};

// What is left of a box after others have been subtracted. Gives up when there are too many pieces.
class Remainder {
 public:
  // `grid` must contain all strides of the boxes; `origin` is at most any of their bases.
  Remainder(const Grid& grid, int64_t origin, const Box& box, Work& work);
  void Subtract(const Box& box);
  bool gave_up() const { return gave_up_; }
  bool empty() const { return count_ == 0; }
  // One remaining address, if not empty.
  int64_t FirstByte() const;

 private:
  void SubtractPiece(const GridBox& piece);
  const Grid& grid_;
  int64_t origin_;
  Work& work_;
  bool gave_up_ = false;
  int count_ = 0;
  GridBox pieces_[kMaxPieces];
};

}  // namespace rondo::check
