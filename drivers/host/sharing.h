// How the work of a launch is split over threads.
#pragma once

#include <cstdint>

namespace rondo::host {

struct Sharing {
  uint32_t threads = 1;
  double work_per_thread = 8000;  // nanoseconds of work that are worth another thread; at least 1

  // The number of threads for `work` nanoseconds.
  uint32_t Shares(double work) const {
    const double worth = work / work_per_thread;
    return worth >= threads ? threads : static_cast<uint32_t>(worth) + 1;
  }
};

// A task has one block of rows and one of `others` (for example, tiles of columns). Tasks are split evenly.
struct RowBlocks {
  int64_t rows = 1;   // of all blocks
  int64_t most = 1;   // of a block, limited by its memory
  int64_t step = 1;   // rows are computed in multiples of this
  int64_t extra = 0;  // cost of a task besides its rows, in rows
  int64_t others = 1;
};
// The number of rows of a block with which all `shares` threads finish earliest: fewer than `most` only if
// there would otherwise be too few tasks, or an uneven split.
int64_t RowsOfBlock(const RowBlocks& of, int64_t shares);

}  // namespace rondo::host
