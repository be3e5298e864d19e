// The prepared form of a top k. Words: see program.h.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

// An element of a row.
struct RankedElement {
  uint64_t key = 0;  // core/row_order.h
  int64_t place = 0;
};

struct TopKPart : PartProgram {
  bool largest = true;
  Tiling tiling, element_tiling;  // of ranks, and of elements
  Program epilogue;
  const Access* elements = nullptr;  // lanes along the row
  int64_t kept_at = 0, temp_at = 0;  // in scratch: the first k elements so far; loaded lanes, or results
};

}  // namespace rondo::host
