// LeastPeak: a lower bound for the peak of live bytes over all orders of a program's ops.
#pragma once

#include <cstdint>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// The most that must be alive at one op in any order: what it touches, less what it may write in place, plus
// what an op before it in all orders has begun and an op after it in all orders still needs; or the least
// that is alive during the first op, or the last. Time and memory are quadratic in the ops, divided by 64;
// with more than 16,384 ops only what each touches counts.
int64_t LeastPeak(const MemoryModel& model, const Dependences& deps);

}  // namespace rondo
