// The prepared form of tapes and of their operands. Words: see program.h.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace rondo::host {

inline constexpr int kLanes = 256;
inline constexpr int kMaxNest = kMaxLoops + 8;    // an empty group still has one loop of extent 1
inline constexpr int kMaxIndexDepth = 4;          // an index may itself be read through an index
inline constexpr int kAccessBytes = kLanes * 17;  // scratch of one level: offsets, indices, mask

// How the address (or coordinate) of lane i of a tile differs from lane 0's, in elements.
enum class LaneKind : uint8_t { kUnit = 0, kSame = 1, kStride = 2, kTable = 3 };
struct LanePattern {
  LaneKind kind = LaneKind::kSame;
  int64_t stride = 0;
  const int32_t* table = nullptr;  // kLanes entries
};

struct Inst;
// The addresses of an instruction's registers. `out` may be one of the others. Each has room for kLanes
// values or, if it is an operand's memory, for its lanes in whole vectors.
struct Registers {
  void* out;
  const void *a, *b, *c;
};
using OpFn = void (*)(const Registers& registers, const Inst& inst, int lanes);
using LoadFn = void (*)(void* out, const char* from, const LanePattern& lane, int lanes);
using StoreFn = void (*)(char* to, const void* in, const LanePattern& lane, int lanes);
// Lane by lane at element offsets[i] where mask[i] != 0.
using GatherFn = void (*)(void* out, const char* from, const int64_t* offsets, const uint8_t* mask,
                          double absent, int lanes);
using ScatterFn = void (*)(char* to, const void* in, const int64_t* offsets, const uint8_t* mask, int lanes);
using FillFn = void (*)(void* out, double value, int lanes);

// A predicate on the coordinate offset + strides . position + lane: it is in [0, extent), or the lane is
// absent.
struct GuardTest {
  int64_t offset = 0;
  int64_t extent = 0;
  int loops = 0;                  // with a stride: loop[], step[]
  const uint8_t* loop = nullptr;  // of the nest
  const int64_t* step = nullptr;
  LanePattern lane;
  int64_t least = 0, greatest = 0;  // of the lane term, over a full tile
  int64_t run_step = 0;             // between lanes of a run
};

struct Access;
struct IndexTerm {
  const Access* index = nullptr;  // of an integer operand; null: not used
  bool wrap = false, fault = true;
  bool same = true;  // the same for all lanes
  int64_t stride = 0, extent = 0;
};

// An operand for one nest and its tiles. Address in elements: offset + strides . position + lane (+
// indirects), including the guards' own terms.
struct Access {
  uint16_t param = 0;
  uint16_t operand = 0;  // in its part
  DType dtype = DType::kF32;
  uint8_t size = 4;        // bytes of an element
  uint8_t wide = 4;        // bytes of an element in a register
  bool plain = true;       // no guards, no indirects
  bool same_tests = true;  // guards and indirects are the same for all lanes
  uint8_t num_loops = 0;   // loops with a stride: loop[], step[]
  uint8_t num_guards = 0, num_indices = 0;
  uint8_t loop[kMaxNest] = {};
  int64_t step[kMaxNest] = {};
  int64_t offset = 0;
  double absent = 0;
  LanePattern lane;
  // A tile consists of runs of consecutive lanes along its innermost loop, with equal distances in every
  // operand.
  int64_t run_lanes = kLanes;
  LanePattern run;
  LoadFn load_run = nullptr;
  StoreFn store_run = nullptr;
  int64_t ahead = 0;     // prefetch distance in elements, for loads by runs of one vector
  bool by_runs = false;  // lanes are in a table, and their runs are contiguous and not short
  const GuardTest* guards = nullptr;
  const IndexTerm* indices = nullptr;
  LoadFn load = nullptr;
  StoreFn store = nullptr;
  GatherFn gather = nullptr;
  ScatterFn scatter = nullptr;
  FillFn fill = nullptr;
};

enum class InstKind : uint8_t {
  kOp,
  kLoad,
  kIndex,
  kAcc,
  kScalar,
  kKept,
  kStore,
  kYield,
  kSetScalar,
  kKeep,
  kReduce,
  kReduceArg,
  kCombine,  // kCombineMax, kCombineMin: into one element, with other threads
  kAssert,   // kAssertFinite
};

struct Inst {
  OpFn fn = nullptr;  // kOp
  InstKind kind = InstKind::kOp;
  TapeOp op = TapeOp::kConst;
  TapeType type = TapeType::kF32;         // of the result
  TapeType of = TapeType::kF32;           // of register a
  uint16_t arg = 0;                       // slot, accumulator, nest loop (kIndex)
  uint32_t out = 0, a = 0, b = 0, c = 0;  // byte offsets of registers
  const Access* access = nullptr;         // kLoad, kStore, kCombine
  LanePattern lane;                       // kIndex
  bool fixed = false;                     // kIndex of a loop of extent 1
  // kLoad: the register may be the operand's memory itself. kOp: the following store may be omitted, by
  // writing the result directly to its operand.
  bool direct = false;
  bool exact = false;  // `direct` for any number of lanes: writes nothing behind the last
  union {
    double f = 0;
    int64_t i;
    const float* table;  // Engine::table: of 256 bytes
    float range[4];  // Engine::add_clamp, clamp and quantise: minimum and maximum result; for quantise also
                     // scale and zero
  } imm;
};

// A tape prepared for one nest and its tiles.
struct Program {
  const Inst* once = nullptr;  // constants: before the first tile of a launch
  uint32_t num_once = 0;
  const Inst* body = nullptr;
  uint32_t num_body = 0;
  uint32_t num_same = 0;     // the first of `body`: loads of one number, also run before the first tile
  int64_t registers_at = 0;  // byte offset of the registers in a worker's scratch
  int64_t table_at = 0;      // table of the registers' current addresses
  uint32_t slots = 0, slot_shift = 0;
  uint32_t slot_bytes = 0;  // of one register: 1 << slot_shift
  uint32_t yield = 0;       // register of kYield
};

// Whether round(x / scale) + zero in [low, high] can be computed without a division: see tape/quotient.h.
inline bool QuotientIsQuick(float scale, float zero, float low, float high) {
  constexpr float kMostNumber = 1 << 20;
  return scale >= 0x1p-100f && scale <= 0x1p100f && zero >= -kMostNumber && zero <= kMostNumber &&
         low >= -kMostNumber && high <= kMostNumber;
}

}  // namespace rondo::host
