// How an instruction set multiplies 8-bit integers and processes the sums. matmul/ and convolution/ choose
// from these when a plan is loaded.
#pragma once

#include <cstdint>

namespace rondo::host {

// acc[m * acc_row + j] = sum over i < k of a[m * a_row + i] * (b[j * b_step + i] ^ flip), where a is unsigned
// and b, after the flip, signed; modulo 2^32. Rows of a must be 0 from k to the next multiple of 64; acc is
// written up to the next multiple of 4 columns.
using MultiplyBytes = void (*)(const uint8_t* a, int64_t a_row, int rows, const char* b, int64_t b_step,
                               int columns, int64_t k, uint8_t flip, int32_t* acc, int64_t acc_row);

// The lhs widened to 16 bits, for machines without byte dot products: `lines` contiguous lines of numbers;
// point m reads `length` numbers from m * point_step on.
struct WideLines {
  int64_t lines = 1, line_step = 0;  // numbers between lines
  int64_t length = 0, point_step = 0;
};
// Columns of B for MultiplyLines: `columns` columns, b_step bytes apart, with contiguous k in the order of
// the lines; or, if k_step is set, contiguous columns whose k is k_step bytes apart.
struct ByteColumns {
  const char* b = nullptr;
  int64_t b_step = 0, k_step = 0;
  int columns = 0;
  bool is_unsigned = false;
};
// Points of one line of the image: their first line, and their number.
struct WidePiece {
  const int16_t* lines = nullptr;
  int points = 0;
};
// The exact sums, as from MultiplyBytes, of all points of `pieces`, one after another. Rows of acc are
// acc_row apart. Numbers behind the end of a line are read, and may be anything.
using MultiplyLines = void (*)(const WideLines& how, const WidePiece* pieces, int count,
                               const ByteColumns& columns, int32_t* acc, int64_t acc_row);
// Widens n bytes to 16 bits; writes up to kWideSlack numbers behind them.
using WidenBytes = void (*)(const uint8_t* from, int64_t n, bool is_signed, int16_t* to);
// The sum of each point's numbers; `added` has room for a line.
using SumLines = void (*)(const WideLines& how, const WidePiece& piece, int16_t* added, int64_t* sums);
inline constexpr int64_t kWideSlack = 64;

// For kChannelBytes: adjacent points of kStep channels. A column has, `fours` times, four bytes for each
// channel: vertical taps, padded; the weights of each horizontal tap likewise. Either four taps as bytes,
// with unsigned columns and weights of one signed byte or two; or two taps of 16 bits. There is room for
// whole vectors everywhere.
struct ChannelStrip {
  const uint8_t* columns = nullptr;
  int64_t point_step = 0, tap_step = 0;  // bytes between points; between horizontal taps
  const uint8_t* weights = nullptr;
  const uint8_t* high = nullptr;  // high bytes of 16-bit weights; null: signed bytes
  int taps = 1, fours = 1, points = 1;
  int channels = 0;        // at most ChannelInstructions::step
  int32_t* acc = nullptr;  // for one point, one sum for each channel
  int64_t acc_row = 0;     // between points
};
// Whether MultiplyBytes reads at most k bytes of each row of a.
using ReadsWithinRow = bool (*)(int rows, int columns, int64_t k);
using SumChannels = void (*)(const ChannelStrip& strip);
// Interleaves `channels` bytes (at most one step) from each of four addresses: the four bytes of a channel,
// with `flip`ped bits, become adjacent in `to`, in an order that SumChannels undoes. Repeats this for each
// column, `step` bytes further on. Or it interleaves two addresses as numbers of 16 bits, from signed bytes
// if `flip` is set. A null address leaves arbitrary values.
using InterleaveBytes = void (*)(const uint8_t* const* from, const int64_t* step, int columns, int channels,
                                 uint8_t flip, uint8_t* to, int64_t to_step);
// Instructions for channels.
struct ChannelInstructions {
  SumChannels sum = nullptr;
  InterleaveBytes interleave = nullptr;
  int step = 0;  // channels in one step
  int taps = 4;  // that are interleaved: four bytes or two numbers of 16 bits
};

// Instructions for bytes.
struct ByteInstructions {
  MultiplyBytes multiply = nullptr;
  ReadsWithinRow reads_within_row = nullptr;
  ChannelInstructions channels;
  // Null: `multiply` is as fast.
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
