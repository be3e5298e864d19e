// How the work of a launch is shared out among threads.
#pragma once

#include <cstdint>

namespace rondo::host {

struct Sharing {
  uint32_t threads = 1;
  double work_per_thread = 8000;  // nanoseconds of work that are worth another thread; at least 1

  // Threads for so many nanoseconds of work.
  uint32_t Shares(double work) const {
    const double worth = work / work_per_thread;
    return worth >= threads ? threads : static_cast<uint32_t>(worth) + 1;
  }
};

// A task has one block of rows and one of `others` (tiles of columns, say). Tasks are shared out evenly.
struct RowBlocks {
  int64_t rows = 1;   // of all blocks
  int64_t most = 1;   // of a block: what its memory holds
  int64_t step = 1;   // rows are computed so many at a time
  int64_t extra = 0;  // what a task takes besides its rows, in rows
  int64_t others = 1;
};
// Rows of a block, so that all of `shares` threads are done as soon as can be: fewer than `most` only where
// there would be too few tasks for all, or where they would not be even.
int64_t RowsOfBlock(const RowBlocks& of, int64_t shares);

}  // namespace rondo::host
