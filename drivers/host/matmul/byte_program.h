// The prepared form of matmuls of 8-bit integers and of their epilogues. Words: see program.h.
#pragma once

#include "drivers/host/convolution/taps_program.h"
#include "drivers/host/matmul/byte_instructions.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host {

// An epilogue of the sums of one rhs that has this form:
//   x = ((sum - correction - row * times) + before) * factor + after, in [low, high],
// stored as f32, or as bytes: round(x / scale) + zero, in [least, greatest]. Or the floats x with which a
// longer epilogue begins. Values that depend on the column alone are computed once a tile.
inline constexpr uint32_t kNoRegister = ~uint32_t{0};
struct Requantisation {
  // Integers; without `times`, a row's number counts once.
  uint32_t correction = kNoRegister, times = kNoRegister;
  uint32_t before = kNoRegister, factor = kNoRegister, after = kNoRegister;  // f32
  // The row's number: an integer in memory, the same for all columns; or the sum of the lhs's row, for which
  // rhs `row_sum` stands.
  const Access* row = nullptr;
  int row_sum = -1;
  bool clamps = false, quantises = false, is_signed = false;
  float low = -__builtin_inff(), high = __builtin_inff();
  float scale = 1, zero = 0;       // QuotientIsQuick; zero is an integer
  const Access* out = nullptr;     // contiguous lanes
  const uint8_t* table = nullptr;  // replaces each byte before it is stored; null: no table
  bool of_row() const { return row_sum >= 0 || times != kNoRegister; }
};
struct RequantisedRows {
  const int32_t* sums = nullptr;
  int64_t sums_row = 0;  // between rows
  int rows = 0, columns = 0;
  const int32_t* less = nullptr;   // for each column
  const int32_t* times = nullptr;  // for each column; null: no row
  // For each row: sum + more - less - row * times, modulo 2^32.
  const uint32_t* more = nullptr;
  const uint32_t* row = nullptr;
  const float* before = nullptr;  // for each column, like the others; null: 0
  const float* factor = nullptr;
  const float* after = nullptr;
  char* out = nullptr;
  int64_t out_row = 0;  // bytes between rows
};
inline constexpr int kMostRequantised = 64;  // rows at a time

// Matmuls of bytes that read the lhs as lines of the image, instead of a packed row for each point: `taps`
// adjacent taps of k form a line.
struct ByteLines {
  WideLines how = {0, 0, 0, 0};      // lines 0: rows are packed
  int64_t taps = 1;                  // in a line
  int64_t point_bytes = 0;           // between points, along the innermost loop of group m
  bool apart = false;                // points have gaps between them: each is copied next to the one before
  int guard = -1;                    // the guard that depends on the point, if any
  int64_t guard_points = 0;          // its coordinates between points
  bool is_signed = false;            // of the lhs
  bool is_unsigned[kMaxSlots] = {};  // of each rhs
  int64_t k_step[kMaxSlots] = {};    // of each rhs's ByteColumns
  int64_t lines_at = 0, pieces_at = 0, added_at = 0;  // scratch
  MultiplyLines multiply = nullptr;
  WidenBytes widen = nullptr;
  SumLines sum = nullptr;
};

// An epilogue that begins with the floats of one rhs and continues only with f32 operations on these,
// constants, and floats with the layout of the result: f32, adjacent rows. The floats of many rows are made
// at once, in the result's memory if nothing else is read, and the operations run over that memory.
inline constexpr uint32_t kMostTail = 32;  // instructions
struct FloatTail {
  const Inst* body = nullptr;  // loads, one accumulator, operations; without the final store
  uint32_t count = 0;
  int right = 0;                // index of the rhs
  const Access* out = nullptr;  // of the store; null: the epilogue is a tape
  bool loads = false;
};

// Matmuls of bytes and their epilogue.
struct SumsPart : MatmulPart {
  uint8_t absent = 0;                  // the byte that an absent tap counts as
  uint8_t left_flip = 0;               // 0x80: the lhs is signed
  uint8_t right_flip[kMaxSlots] = {};  // 0x80: the rhs is unsigned
  // The rhs is one number for all of k and n: its matmul is a multiple of the row sum.
  bool row_sum[kMaxSlots] = {};
  bool sum_rows = false;    // row sums are needed: a rhs is such a number, or unsigned
  int64_t wide_at = 0;      // scratch: sums widened for the epilogue
  int64_t wide_stride = 0;  // bytes for one rhs
  int64_t lanes_at = 0;     // scratch: kLanes 8-byte numbers
  // For each rhs that is not a row sum; null: the epilogue gets the sums unchanged, as i64.
  const Requantisation* sums = nullptr;
  RequantiseRows requantise = nullptr;  // of `sums`
  bool whole = false;  // `sums` is the whole epilogue; otherwise the epilogue continues with the floats
  FloatTail tail;      // the rest of the epilogue, if it has this form
  LookUp look_up = nullptr;
  Program of_columns;                 // registers of `sums`
  int64_t correction_at = 0;          // for the columns of a tile, i32, kLanes for each rhs
  int64_t times_at = 0;               // like correction_at
  int64_t zeros_at = 0, ones_at = 0;  // kLanes floats
};

// Variant::kBytes. If in_runs, the points of k are taps of tap_run bytes each.
struct BytesPart : SumsPart {
  MultiplyBytes multiply = nullptr;
  LeftSide left;
  Taps taps;
  int64_t row_sums_at = 0;  // scratch
  ByteLines lines;
  // Rows of the lhs are multiplied in place, `left_row` bytes apart, without packing.
  bool in_place = false;
  int64_t left_row = 0;
  int64_t transposed_step = 0;  // rows are adjacent, and k is this many bytes apart; 0: not so
  bool in_runs = false;
  int64_t tap_run = 0;
  int64_t runs = 0;                    // contiguous runs of taps, where no tap is absent
  const int64_t* run_at = nullptr;     // bytes from tap 0
  const int64_t* run_bytes = nullptr;  // of each run
  int64_t columns_at = 0;              // packed columns, where k is not contiguous
};

}  // namespace rondo::host
