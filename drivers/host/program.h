// The result of LoadModule for a core Kernel, as plain data: everything that a launch needs, with all
// decisions taken (loops merged, innermost loops chosen, registers placed, functions looked up).
//
// Owned by a HostModule; immutable once made, so safe to share between threads. Loops that are compiled once
// for each instruction set include this file, so it has only plain structs and no functions: no code of one
// instruction set can leak into another. Here is what all parts have; each family of kernels adds its own in
// its folder (map/, reduction/, matmul/, convolution/, attention/).
//
// Words: a *nest* is a part's loops after merging, in groups by role. A *tile* is up to kLanes consecutive
// points of one group of the nest, computed together; point i of a tile is *lane* i. A *register* holds one
// value for each lane. A *variant* is one way to compute a part.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/kernel.h"
#include "core/stop.h"
#include "drivers/host/tape/tape_program.h"

namespace rondo::host {

// Loops of a part after merging. Group g is loops [first[g], first[g + 1]); every group has at least one.
inline constexpr int kMaxGroups = 5;
struct Nest {
  int loops = 0;
  int groups = 0;
  int64_t extent[kMaxNest] = {};
  int first[kMaxGroups + 1] = {};
  int64_t points[kMaxGroups] = {};   // product of the extents of each group
  int8_t source[kMaxNest] = {};      // innermost loop of the part in this loop, or -1
  int8_t nest_loop[kMaxLoops] = {};  // nest loop of each loop of the part; -1 if its extent is 1
};

// How the loops [first, end) of a nest are cut into tiles: loops before `split` counted, loop `split` in
// chunks, loops after it whole.
struct Tiling {
  int first = 0, end = 0, split = 0;
  int64_t chunk = 1;   // of loop `split`
  int64_t inner = 1;   // lanes per step of loop `split`
  int64_t chunks = 1;  // of loop `split`
  int64_t tiles = 1;
};

struct PartProgram;
struct Worker;
// Whether the worker's launch must end. Call it when the signal's word says that it may have to; it reads the
// clock now and then. In stream.cc, shared by all instruction sets.
bool StopNow(Worker& worker);
// Tasks [first, last) of a part.
using RunFn = void (*)(const PartProgram& part, Worker& worker, int64_t first, int64_t last);
// The work of one thread after a phase, which `shares` workers have computed; their scratch is
// `scratch_bytes` apart.
using EndPhaseFn = void (*)(const PartProgram& part, Worker& worker, uint32_t shares, int64_t scratch_bytes);
// Replaces a first phase that computes a range: combines the ranges that `shares` workers kept for their
// shares while they wrote the data, at `range`, kRangeBytes each.
using TakeRangeFn = void (*)(const PartProgram& part, Worker& worker, const char* range, uint32_t shares);

// The ways to compute a part, by folder.
enum class Variant : uint8_t {
  // map/
  kMap,
  // reduction/
  kRows,     // lanes along the row
  kColumns,  // lanes across rows
  kOneRow,   // a single row, whose elements are split over threads
  // matmul/
  kAccumulate,  // matmul, convolution, pool: any operands, lanes along n
  kFewRows,     // at most kFewRows rows: reads the rhs once, in place
  kGemm,        // packed blocks; also convolutions, whose input is then the rhs
  kPacked,      // weights in fewer bits, unpacked a few columns at a time
  kBytes,       // 8-bit integers
  // convolution/
  kDirect,        // few output channels in a group: reads the input in place
  kChannels,      // depthwise convolution, pool: lanes along contiguous channels
  kPlanes,        // depthwise convolution, pool: lanes along the points of a channel's plane
  kChannelBytes,  // depthwise convolution of 8-bit integers: lanes along contiguous channels
  kBytePool,      // maximum pool of bytes: lanes along contiguous channels
  // attention/
  kAttention,
  // top_k/
  kTopK,
};
inline constexpr int kNumVariants = 16;

// A condition: the bool at `offset` of a parameter equals `holds`.
struct Condition {
  uint16_t param = 0;
  int64_t offset = 0;
  bool holds = true;
};

// The common fields of all variants. Each variant is a struct that begins with this one; `run` knows which.
struct PartProgram {
  Variant variant = Variant::kMap;
  RunFn run = nullptr;
  uint32_t kernel_index = 0;
  Span<const Condition> when;  // Part::when
  Nest nest;
  int64_t tasks = 1;  // units of work, split over threads
  // All tasks run once in each phase; phases run one after another.
  int phases = 1;
  EndPhaseFn end_phase = nullptr;
  double work = 0;            // estimated nanoseconds of the whole part on one thread
  int64_t scratch_bytes = 0;  // that one worker needs; fields named ..._at are byte offsets in it

  // The range (minimum and maximum) of a tensor can be computed while the tensor is written. `written`: the
  // contiguous f32 rows that this part writes (null: none). `ranged`: the floats whose range this part's
  // first phase computes (null: none); take_range can then replace that phase.
  const Access* written = nullptr;
  const Access* ranged = nullptr;
  TakeRangeFn take_range = nullptr;
};

// An index that was out of range, or an assertion that failed.
struct HostFault {
  uint32_t step = 0;
  uint32_t kernel = 0;     // index in the plan
  uint32_t operand = 0;    // of its part: the operand that uses the index
  int64_t value = 0;       // the index
  int64_t extent = 0;      // its limit
  int64_t assertion = -1;  // which of the kernel's assertions failed; -1: it is an index
  double seen = 0;         // by that: the number that is not finite
};

// The first fault of a stream since the last Synchronize.
struct FaultCell {
  std::atomic<int> state{0};  // 0 none, 1 being written, 2 set
  HostFault fault;
};

// The state of one thread in one launch.
struct Worker {
  char* scratch = nullptr;
  char* shared = nullptr;  // the scratch of the first worker
  int phase = 0;
  char* range = nullptr;  // kRangeBytes for the minimum and maximum of PartProgram::written; null: not needed
  const uint64_t* addresses = nullptr;
  FaultCell* fault = nullptr;
  uint32_t step = 0;
  uint32_t kernel = 0;
  StopSignal* stop = nullptr;
  uint32_t looks = 0;  // how often StopNow has been called
};

inline constexpr int64_t kRangeBytes = 1024;  // of one worker

}  // namespace rondo::host
