// LeastPeak: a number of bytes that no order of a program's ops gets below.
#pragma once

#include <cstdint>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// The most that has to live at one op, whatever the order: what it touches, less what it may write in place,
// and what some op before it in all orders has begun and some op after it in all orders still needs; or the
// least that lives while the first op runs, or the last. Takes time and memory by the square of the ops, over
// 64; of more than 16,384 ops only what each touches counts.
int64_t LeastPeak(const MemoryModel& model, const Dependences& deps);

}  // namespace rondo
