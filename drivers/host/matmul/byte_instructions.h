// How an instruction set multiplies 8-bit integers and makes use of the sums: matmul/ and convolution/ choose
// from these when a plan is loaded.
#pragma once

#include <cstdint>

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
// Points of one picture line: their first line, and how many.
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
using ReadsWithinRow = bool (*)(int rows, int columns, int64_t k);
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
  ReadsWithinRow reads_within_row = nullptr;
  ChannelInstructions channels;
  // Null: `multiply` is as quick.
  MultiplyLines multiply_lines = nullptr;
  WidenBytes widen = nullptr;
  SumLines sum_lines = nullptr;
};

// to[i] = table[from[i]]; both may be the same.
using LookUp = void (*)(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to);
struct Requantisation;
struct RequantisedRows;
using RequantiseRows = void (*)(const Requantisation& how, const RequantisedRows& rows);

}  // namespace rondo::host
