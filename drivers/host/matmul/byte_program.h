// The prepared form of matmuls of 8-bit integers, and of what becomes of their sums: see program.h, whose
// words these are.
#pragma once

#include "drivers/host/convolution/taps_program.h"
#include "drivers/host/matmul/byte_instructions.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host {

// What an epilogue makes of the sums of one right side, where it is no more than this:
//   x = ((sum - correction - row * times) + before) * factor + after, in [low, high],
// stored as f32, or as bytes: round(x / scale) + zero, in [least, greatest]. Or how an epilogue that is more
// begins: the same, as floats. What depends on the column alone is computed once a tile.
inline constexpr uint32_t kNoRegister = ~uint32_t{0};
struct Requantisation {
  // Whole numbers; without `times`, a row sum counts once.
  uint32_t correction = kNoRegister, times = kNoRegister;
  uint32_t before = kNoRegister, factor = kNoRegister, after = kNoRegister;  // f32
  // The row's: a whole number in memory, the same for all columns; or the sum of the left side that right
  // side `row_sum` stands for.
  const Access* row = nullptr;
  int row_sum = -1;
  bool clamps = false, quantises = false, is_signed = false;
  float low = -__builtin_inff(), high = __builtin_inff();
  float scale = 1, zero = 0;       // QuotientIsQuick; zero is whole
  const Access* out = nullptr;     // lanes side by side
  const uint8_t* table = nullptr;  // the byte that is stored for each byte; null: itself
  bool of_row() const { return row_sum >= 0 || times != kNoRegister; }
};
struct RequantisedRows {
  const int32_t* sums = nullptr;
  int64_t sums_row = 0;  // from row to row
  int rows = 0, columns = 0;
  const int32_t* less = nullptr;   // of each column
  const int32_t* times = nullptr;  // of each column; null: no row
  // Of each row: sum + more - less - row * times, modulo 2^32.
  const uint32_t* more = nullptr;
  const uint32_t* row = nullptr;
  const float* before = nullptr;  // of each column, as the others; null: 0
  const float* factor = nullptr;
  const float* after = nullptr;
  char* out = nullptr;
  int64_t out_row = 0;  // bytes from row to row
};
inline constexpr int kMostRequantised = 64;  // rows at a time

// Matmuls of bytes whose left side is read as lines of the picture, not as a row for each point: `taps` taps
// of k beside each other are a line.
struct ByteLines {
  WideLines how = {0, 0, 0, 0};  // lines 0: rows are packed
  int64_t taps = 1;              // of a line
  int64_t point_bytes = 0;       // from point to point, along the innermost loop of group m
  bool apart = false;  // points are further apart than they are long: each is brought beside the one before
  int guard = -1;      // the one that depends on the point, if any
  int64_t guard_points = 0;                           // its coordinates from point to point
  bool is_signed = false;                             // the left side
  bool is_unsigned[kMaxSlots] = {};                   // right sides
  int64_t k_step[kMaxSlots] = {};                     // ByteColumns, of each
  int64_t lines_at = 0, pieces_at = 0, added_at = 0;  // scratch
  MultiplyLines multiply = nullptr;
  WidenBytes widen = nullptr;
  SumLines sum = nullptr;
};

// An epilogue that begins with the floats of one right side, and goes on with nothing but operations of
// those, numbers, and floats that lie like the result: f32, rows beside each other. Floats are made of many
// rows at once, where the result will be if nothing else is read, and operations run over them as over
// memory.
inline constexpr uint32_t kMostTail = 32;  // instructions
struct FloatTail {
  const Inst* body = nullptr;  // loads, one accumulator, operations; without the store
  uint32_t count = 0;
  int right = 0;                // the right side
  const Access* out = nullptr;  // of the store; null: a tape
  bool loads = false;
};

// Sums of products of bytes, and their epilogue.
struct SumsPart : MatmulPart {
  uint8_t absent = 0;                  // the byte of an absent tap
  uint8_t left_flip = 0;               // 0x80: the left side is signed
  uint8_t right_flip[kMaxSlots] = {};  // 0x80: the right side is unsigned
  // The right side is one number for all of k and n: its product is a sum of the row.
  bool row_sum[kMaxSlots] = {};
  bool sum_rows = false;    // one of them is that, or unsigned
  int64_t wide_at = 0;      // scratch: sums widened for the epilogue
  int64_t wide_stride = 0;  // bytes of those of one right side
  int64_t lanes_at = 0;     // scratch: kLanes 8-byte numbers
  // Of each right side that is no row sum; null where the epilogue gets the sums as they are, as i64.
  const Requantisation* sums = nullptr;
  RequantiseRows requantise = nullptr;  // of `sums`
  bool whole = false;                   // in place of the epilogue; else that gets the floats
  FloatTail tail;                       // those floats' way, where it is one
  LookUp look_up = nullptr;
  Program of_columns;                 // registers of `sums`
  int64_t correction_at = 0;          // of the columns of a tile, i32, kLanes a right side
  int64_t times_at = 0;               // as correction_at
  int64_t zeros_at = 0, ones_at = 0;  // kLanes floats
};

// Variant::kBytes. The points of k are taps, each of tap_run bytes, if the left side lies so (in_runs).
struct BytesPart : SumsPart {
  MultiplyBytes multiply = nullptr;
  LeftSide left;
  Taps taps;
  int64_t row_sums_at = 0;  // scratch
  ByteLines lines;
  // The rows of the left side are multiplied where they lie, `left_row` bytes apart, not packed.
  bool in_place = false;
  int64_t left_row = 0;
  int64_t transposed_step = 0;  // rows lie beside each other, and k so many bytes apart; 0: otherwise
  bool in_runs = false;
  int64_t tap_run = 0;
  int64_t runs = 0;                    // of taps that lie one behind the other, where none is absent
  const int64_t* run_at = nullptr;     // bytes from tap 0
  const int64_t* run_bytes = nullptr;  // of each
  int64_t columns_at = 0;              // packed columns, where k is not contiguous
};

}  // namespace rondo::host
