// Kernels as plain data: a contract (what is read and written, and where) and a skeleton (how the
// work is shaped), with scalar expression tapes as prologue, body and epilogue.
//
// The compiler writes these, a plan carries them, the checker reads the contracts only, and a driver
// turns them into code: `host` interprets the skeletons with vectorised C++, `cuda` generates text.
// Everything here is trivially destructible; Spans point into the Arena of whoever made the kernel
// and are valid as long as that Arena. Immutable once made, so safe to share between threads.
//
// A kernel has parameters (one memory region each, bound by a step) and one or more *parts*. The
// parts of a kernel are independent of each other and may run at the same time: several parts are
// what sibling fusion makes. A part is an iteration space (a nest of counted loops), operands
// (how an iteration point maps to an element of a parameter) and tapes.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "core/packed_weights.h"
#include "core/span.h"
#include "core/tape_ops.h"

namespace rondo {

inline constexpr int kMaxLoops = 16;   // loops of one part
inline constexpr int kMaxTape = 4096;  // instructions of one tape
inline constexpr int kMaxSlots = 16;   // row scalars, kept rows and accumulators, each

// ---------------------------------------------------------------------------------------- tapes

// What a tape computes in. f16 and bf16 are widened to f32 when loaded, every integer type and bool
// to i64 (u64 wraps).
enum class TapeType : uint8_t { kF32 = 0, kF64 = 1, kI64 = 2 };

constexpr TapeType NaturalType(DType t) {
  return t == DType::kF64 ? TapeType::kF64 : IsFloat(t) ? TapeType::kF32 : TapeType::kI64;
}

// One instruction. Instruction k of a tape defines register k; a, b, c name earlier registers.
struct TapeInst {
  TapeOp op = TapeOp::kConst;
  TapeType type = TapeType::kF32;  // of the result
  uint16_t arg = 0;
  uint16_t a = 0, b = 0, c = 0;
  union {
    double f = 0;
    int64_t i;
  } imm;
};
using Tape = Span<const TapeInst>;

// --------------------------------------------------------------------------------------- access

// A data-dependent index: value v of integer operand `operand` (read at the same iteration point)
// adds stride * v to the address. If `wrap`, a negative v has `extent` added first. A v outside
// [0, extent) touches nothing: a read gives 0, a write is dropped, and, if `fault`, the run ends with
// an error (kOutOfRange).
struct Indirect {
  uint16_t operand = 0;
  bool wrap = false;
  bool fault = true;
  int64_t stride = 0;
  int64_t extent = 0;
};

// A guarded coordinate: c = offset + sum(strides[d] * i[d]) adds stride * c to the address, and the
// point exists only where 0 <= c < extent. Absent reads give the `absent` value of their operand,
// absent writes are dropped. Padding of convolutions, pools and Pad.
struct Guard {
  int64_t stride = 0;
  int64_t offset = 0;
  int64_t extent = 0;
  Span<const int64_t> strides;  // one per loop of the part
};

enum class Mode : uint8_t { kRead = 0, kWrite = 1, kReadWrite = 2 };

// How a part touches one parameter. Address in elements from the start of the bound region:
//   offset + sum over loops d of strides[d] * i[d] + guards + indirects.
// A stride of 0 broadcasts; strides may be negative. A write must touch each element once per iteration point
// of the loops it depends on. Two iteration points that differ in a loop with stride 0 on a written operand
// are a fault of the plan, except in the loops that the skeleton reduces. An operand that a tape combines
// into (kCombineMax, kCombineMin) is one element for all points instead: kReadWrite, with strides of 0, and
// no tape loads or stores it.
struct Operand {
  uint16_t param = 0;
  DType dtype = DType::kF32;
  Mode mode = Mode::kRead;
  double absent = 0;  // value of a read whose guard fails (also used for indirects out of range)
  int64_t offset = 0;
  Span<const int64_t> strides;  // one per loop of the part
  Span<const Indirect> indirects;
  Span<const Guard> guards;
};

// ------------------------------------------------------------------------------------ skeletons

// Stored in plans: append only.
enum class Skeleton : uint8_t {
  kMap = 0,          // body once per point: pointwise, copy, gather, scatter
  kReduction = 1,    // rows: stages over the last `reduced` loops
  kMatMul = 2,       // acc_j[b,m,n] = sum_k lhs[b,m,k] * rhs_j[b,k,n]
  kConvolution = 3,  // acc_j[n,g,o,out] = combine over c, kernel of input (* weight_j)
  kAttention = 4,    // acc[b,q,v] = sum_k softmax_k(scale * q.k + mask) v
  kTopK = 5,         // acc[b,r] = the place in row b of the element that comes r-th (core/row_order.h)
};

enum class Combine : uint8_t {
  kProduct = 0,  // sum of input * weight
  kMax = 1,      // greatest present input
  kSum = 2,      // sum of present inputs (average pooling divides in the epilogue)
  kMean = 3,     // mean over the present inputs
  kMin = 4,      // kTopK: the smallest elements come first (kMax: the greatest)
};

// One stage of a row reduction. A per-row stage runs once a row, a per-element stage once for each point of
// the reduced loops. Stages of a row run in order; row scalars and kept rows carry values onward.
struct Stage {
  bool per_row = false;
  Tape tape;
};

inline constexpr uint16_t kNoOperand = 0xffff;
inline constexpr uint16_t kUnless = 0x8000;  // in Part::when: the operand must be false

// One iteration space with its skeleton. Loops are ordered outermost first and grouped by role:
//   kMap:         [outer...]
//   kReduction:   [outer..., reduced...]
//   kMatMul: [outer (batch)..., m..., n..., reduced (k)...]
//   kConvolution: [outer (n), g, o, out spatial..., c, kernel spatial...]; outer = 1, m = 2 (g and o),
//                 n = spatial, reduced = 1 + spatial. Pools have g = channels, o = c = 1.
//   kAttention:   [outer (batch, heads)..., m (query)..., n (value features)..., reduced (key)...,
//                 features...]
//   kTopK:        [outer, m (rows)..., n (rank), reduced (element)]: one loop of ranks, one of elements
// Counts not named for a skeleton are 0.
struct Part {
  Skeleton skeleton = Skeleton::kMap;
  bool sequential = false;  // the loops run in order, on one thread (writes may coincide)
  Combine combine = Combine::kProduct;
  bool nan_to_zero = false;  // kAttention: a row whose softmax is NaN contributes 0
  uint8_t outer = 0, m = 0, n = 0, reduced = 0, features = 0;
  // Operands with a role, as indices into `operands`; kNoOperand where absent.
  uint16_t lhs = kNoOperand;           // matmul lhs, convolution input, attention q, elements of kTopK
  uint16_t keys = kNoOperand;          // attention k
  uint16_t values = kNoOperand;        // attention v
  uint16_t mask = kNoOperand;          // attention, over [outer, m, reduced]: bool (1 keeps) or added float
  uint16_t limit = kNoOperand;         // attention, over [outer, m]: i64, only keys [0, limit) exist
  bool tf32 = false;                   // f32 matmul, convolution: a driver may round both inputs to tf32
  float scale = 1;                     // attention: multiplies q.k
  float softcap = 0;                   // attention: c * tanh(score / c) before the mask, if not 0
  TapeType acc_type = TapeType::kF32;  // FP8 inputs: each 128 along k may err by 2^-12 of their greatest sum
  Span<const int64_t> loops;           // extents, each >= 1
  Span<const Operand> operands;
  Span<const uint16_t> rhs;  // matmul: one or more; convolution: its weights, mostly one (none for pools)
  // Matmul with packed weights (core/packed_weights.h): each rhs holds codes (u8) and has its own scales and,
  // optionally, zero points, all of one float type. n and k count through the loops of their role in the
  // order of the rhs's strides, largest first.
  PackedWeights packed;
  Span<const uint16_t> scales, zeros;
  // Prologue of the lhs, over the loops of the lhs (matmul); empty: the lhs as it is loaded.
  Tape prologue;
  Tape body;                      // kMap
  Span<const Stage> stages;       // kReduction
  uint8_t scalars = 0, kept = 0;  // kReduction: row scalars and kept rows used
  // Over [outer, m, n]; reads accumulators, stores results. kMatMul, kConvolution, kAttention, kTopK.
  Tape epilogue;
  // Conditions: operands of one bool each, negated if marked kUnless. A driver checks them in order. At the
  // first that does not hold it skips the part, whose results are then not needed or already there. The part
  // that computes a condition may itself be skipped when an earlier condition does not hold.
  Span<const uint16_t> when;
};

struct Kernel {
  std::string_view name;   // unique in its plan, e.g. "k12_matmul"
  std::string_view label;  // what was recognised, e.g. "rms_norm", "swiglu", "attention"; may be empty
  uint16_t num_params = 0;
  Span<const Part> parts;  // at least one
  // A parameter whose memory, from its bound address on, the kernel may write and read back while it runs.
  // Its contents are arbitrary before and unspecified after. No operand names it.
  uint16_t workspace_param = kNoOperand;
  uint64_t workspace_bytes = 0;
};

// Calls f for each tape of the part, in the order in which they run for a point or a row.
template <typename F>
void ForEachTape(const Part& part, F f) {
  f(part.prologue);
  f(part.body);
  for (const Stage& stage : part.stages) f(stage.tape);
  f(part.epilogue);
}

// Loops over which the epilogue of `part` runs (they come first in part.loops).
constexpr int EpilogueLoops(const Part& part) { return part.outer + part.m + part.n; }

}  // namespace rondo
