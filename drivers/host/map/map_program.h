// The prepared form of maps: see program.h, whose words these are.
#pragma once

#include "drivers/host/program.h"

namespace rondo::host {

// Bytes that lie one behind the other along other loops than what they are made of: "channels", whose loops
// are those along which the bytes of one point lie side by side, and "points", one loop along which numbers
// are read. A tape makes some of each channel in turn, and squares of bytes are transposed as they are
// stored.
inline constexpr int kTransposedChannels = 64, kTransposedPoints = 256;  // at once
struct TransposeProgram {
  Program program;   // lanes along the points; ends in a store of a register of bytes
  int points = 0;    // the nest's loop
  int64_t step = 0;  // bytes from point to point
  int64_t channels = 1;
  int num_channel_loops = 0, num_outer_loops = 0;
  uint8_t channel_loop[kMaxNest] = {};  // the innermost first
  uint8_t outer_loop[kMaxNest] = {};    // all others
  int64_t at_once = 0;                  // points
  int64_t units = 0;                    // of all outer loops and blocks of points
  int64_t bytes_at = 0;                 // scratch: [channel][point], kTransposedChannels of kTransposedPoints
};

struct MapPart : PartProgram {
  Tiling tiling;  // of all loops
  Program program;
  bool sequential = false;  // one task that walks all tiles in order
  // The tape, behind what all tiles share, does no more than store one of those bytes (`fills`), or than load
  // floats and store the bytes that one operation makes of any number of them: runs along the innermost loop,
  // not tiles, are its units then.
  const Access* fills = nullptr;
  bool in_runs = false;
  const TransposeProgram* transpose = nullptr;  // in place of `program`
};

}  // namespace rondo::host
