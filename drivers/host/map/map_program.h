// The prepared form of maps. Words: see program.h.
#pragma once

#include "drivers/host/program.h"

namespace rondo::host {

// A transpose of bytes: they are stored in another order than their inputs are read. "Channels" are the loops
// along which the stored bytes of one point are contiguous; "points" is the loop along which inputs are
// contiguous. The tape computes a block of points for each channel in turn, and squares of bytes are
// transposed as they are stored.
inline constexpr int kTransposedChannels = 64, kTransposedPoints = 256;  // in one block
struct TransposeProgram {
  Program program;   // lanes along the points; ends with a store of a register of bytes
  int points = 0;    // the loop of the nest
  int64_t step = 0;  // bytes between points in the output
  int64_t channels = 1;
  int num_channel_loops = 0, num_outer_loops = 0;
  uint8_t channel_loop[kMaxNest] = {};  // innermost first
  uint8_t outer_loop[kMaxNest] = {};    // all others
  int64_t at_once = 0;                  // points in a block
  int64_t units = 0;                    // all outer loops and blocks of points
  int64_t bytes_at = 0;                 // scratch: [channel][point], kTransposedChannels of kTransposedPoints
};

struct MapPart : PartProgram {
  Tiling tiling;  // of all loops
  Program program;
  bool sequential = false;  // one task that walks all tiles in order
  // Maps without tiles: units are runs along the innermost loop (`in_runs`). Apart from what all tiles share,
  // the tape only stores one byte, the same for all points (`fills`); or it loads floats and stores the bytes
  // that a single operation makes of a run of any length.
  const Access* fills = nullptr;
  bool in_runs = false;
  const TransposeProgram* transpose = nullptr;  // replaces `program`
};

}  // namespace rondo::host
