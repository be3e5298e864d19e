// The prepared form of products of 8-bit integers, and of what becomes of their sums: see program.h, whose
// words these are.
#ifndef RONDO_DRIVERS_HOST_BYTE_PROGRAM_H_
#define RONDO_DRIVERS_HOST_BYTE_PROGRAM_H_

#include <cstdint>

#include "drivers/host/tape_program.h"

namespace rondo::host {

// acc[m * acc_row + j] = sum over i < k of a[m * a_row + i] * (b[j * b_step + i] ^ flip), a unsigned, b (with
// its bits flipped) signed; modulo 2^32. Rows of a are 0 from k to the next multiple of 64; acc is written up
// to the next multiple of 4 columns.
using MultiplyBytes = void (*)(const uint8_t* a, int64_t a_row, int rows, const char* b, int64_t b_step,
                               int columns, int64_t k, uint8_t flip, int32_t* acc, int64_t acc_row);

// Rows of the left side as 16 bits, as they are multiplied where there are no dot products of bytes: `lines`
// lines of numbers that lie one behind the other, of which point m reads `length` from m * point_step on.
struct WideLines {
  int64_t lines = 1, line_step = 0;  // numbers from line to line
  int64_t length = 0, point_step = 0;
};
// What MultiplyLines does of B: `columns` columns, b_step bytes apart, whose k is contiguous and lies in the
// order of the lines; or, with a k_step, columns beside each other, whose k lies so many bytes apart.
struct ByteColumns {
  const char* b = nullptr;
  int64_t b_step = 0, k_step = 0;
  int columns = 0;
  bool is_unsigned = false;
};
// Points of one image line: their first line, and how many.
struct WidePiece {
  const int16_t* lines = nullptr;
  int points = 0;
};
// Sums of all points of `pieces`, one behind the other, as MultiplyBytes gives them, exact. Rows of acc are
// acc_row apart. Numbers behind a line's end are read, and are any.
using MultiplyLines = void (*)(const WideLines& how, const WidePiece* pieces, int count,
                               const ByteColumns& columns, int32_t* acc, int64_t acc_row);
// n bytes as 16 bits; up to kWideSlack numbers behind them are written.
using WidenBytes = void (*)(const uint8_t* from, int64_t n, bool is_signed, int16_t* to);
// What each point's numbers add up to; `added` has room for a line.
using SumLines = void (*)(const WideLines& how, const WidePiece& piece, int16_t* added, int64_t* sums);
inline constexpr int64_t kWideSlack = 64;

// kChannelBytes. Points beside each other of kStep channels. Column c has four bytes a channel, fours times:
// vertical taps, filled up; so has each horizontal tap of the weights. Four taps as bytes, unsigned columns
// and weights of one signed byte or two; or two taps of 16 bits. Room for whole vectors everywhere.
struct ChannelStrip {
  const uint8_t* columns = nullptr;
  int64_t point_step = 0, tap_step = 0;  // bytes from point to point, and from one horizontal tap to the next
  const uint8_t* weights = nullptr;
  const uint8_t* high = nullptr;  // of weights of 16 bits, `weights` being the low ones; null: signed bytes
  int taps = 1, fours = 1, points = 1;
  int channels = 0;        // at most a step
  int32_t* acc = nullptr;  // of a point, one a channel
  int64_t acc_row = 0;     // from point to point
};
// Whether MultiplyBytes reads no more than k bytes of each row of a.
using ReadsNoMore = bool (*)(int rows, int columns, int64_t k);
using SumChannels = void (*)(const ChannelStrip& strip);
// `channels` bytes (at most a step) from each of four addresses, of which one byte each, with `flip`ped bits,
// is beside the others in `to`, in an order that SumChannels undoes; then the same `step`s further on. Or of
// two, as numbers of 16 bits, signed bytes where there is a `flip`; what is beside a null is any.
using InterleaveBytes = void (*)(const uint8_t* const* from, const int64_t* step, int columns, int channels,
                                 uint8_t flip, uint8_t* to, int64_t to_step);
// How those of channels are.
struct ChannelInstructions {
  SumChannels sum = nullptr;
  InterleaveBytes interleave = nullptr;
  int step = 0;  // channels at a time
  int taps = 4;  // beside each other: four bytes or two numbers of 16 bits
};

// How bytes are multiplied.
struct ByteInstructions {
  MultiplyBytes multiply = nullptr;
  ReadsNoMore reads_no_more = nullptr;
  ChannelInstructions channels;
  // Null: `multiply` is as quick.
  MultiplyLines multiply_lines = nullptr;
  WidenBytes widen = nullptr;
  SumLines sum_lines = nullptr;
};

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
// to[i] = table[from[i]]; both may be the same.
using LookUp = void (*)(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to);
// Whether round(x / scale) + zero in [low, high] can be had without a division: see exec/quotient.h.
inline bool QuotientIsQuick(float scale, float zero, float low, float high) {
  constexpr float kMostNumber = 1 << 20;
  return scale >= 0x1p-100f && scale <= 0x1p100f && zero >= -kMostNumber && zero <= kMostNumber &&
         low >= -kMostNumber && high <= kMostNumber;
}
using RequantiseRows = void (*)(const Requantisation& how, const RequantisedRows& rows);

// kBytes whose left side is read as lines of the image, not as a row for each point: `taps` taps of k beside
// each other are a line.
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

// kBytes. The points of k are PartProgram::taps, each of tap_run bytes, if the left side lies so.
struct BytesProgram {
  MultiplyBytes multiply = nullptr;
  ByteLines lines;
  // The rows of the left side are multiplied where they lie, `left_row` bytes apart, not packed.
  bool in_place = false;
  int64_t left_row = 0;
  int64_t turned_step = 0;  // rows lie beside each other, and k so many bytes apart; 0: otherwise
  bool in_runs = false;
  int64_t tap_run = 0;
  int64_t runs = 0;                    // of taps that lie one behind the other, where none is absent
  const int64_t* run_at = nullptr;     // bytes from tap 0
  const int64_t* run_bytes = nullptr;  // of each
  uint8_t absent = 0;                  // the byte of an absent tap
  uint8_t left_flip = 0;               // 0x80: the left side is signed
  uint8_t right_flip[kMaxSlots] = {};  // 0x80: the right side is unsigned
  bool row_sum[kMaxSlots] =
      {};                 // the right side is one number for all of k and n: its product is a sum of the row
  bool sum_rows = false;  // one of them is that, or unsigned
  int64_t wide_stride = 0;  // bytes of the sums of one right side, widened for the epilogue
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
  int64_t columns_at = 0;             // packed columns, where k is not contiguous
};

// kChannelBytes. A strip of points along the innermost loop of group m shares its columns: those of the input
// under every tap of the innermost loop of k (horizontal; the others are vertical), a few coordinates apart.
struct ChannelBytesProgram {
  ChannelInstructions with;
  int64_t vertical = 1, horizontal = 1;        // taps
  int64_t fours = 1;                           // of vertical taps; pairs
  int64_t points = 1;                          // of a strip, at most
  int64_t point_columns = 1, tap_columns = 1;  // from point to point, from one horizontal tap to the next
  int64_t unit = 0;                            // bytes of the input from column to column
  const int64_t* guard_unit = nullptr;         // coordinates from column to column, of each guard
  // Scratch. Weights are made when a worker first needs them in a launch, and kept: so many bytes for each
  // step of channels of a tile, of which made_at says whether, and as what, they are there.
  int64_t columns_at = 0, weights_at = 0, rows_at = 0, absent_at = 0, sums_at = 0, made_at = 0;
  int64_t weights_bytes = 0;
  int64_t tile_steps = 1;
};

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_BYTE_PROGRAM_H_
