// Declarations shared by the engine's loops. Compiled once for each instruction set, each time in a namespace
// of its own (RONDO_ISA). Nothing here may be used by code outside the engines, and nothing here uses inline
// functions of the standard library that the linker could share between instruction sets.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "drivers/host/engine.h"

#ifndef RONDO_ISA
#error "exec/ is compiled with RONDO_ISA set to the name of an instruction set"
#endif

namespace rondo::host::RONDO_ISA {

// Floats of one vector register.
#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
inline constexpr int kBlockRows = 14;  // rows and vectors of a register block of the packed matmul
inline constexpr int kBlockVectors = 2;
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = 2;
#else
inline constexpr int kWidth = 4;
inline constexpr int kBlockRows = 4;
inline constexpr int kBlockVectors = 2;
#endif
inline constexpr int kBlockColumns = kWidth * kBlockVectors;

typedef float Vector __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

template <typename T>
static inline T Least(T a, T b) {
  return b < a ? b : a;
}

// Whether the launch must end early. Called once a tile; costs a load.
static inline bool Stopped(Worker& w) {
  const uint64_t word = __atomic_load_n(&w.stop->word, __ATOMIC_RELAXED);
  return __builtin_expect(word < StopSignal::kNever, 0) && StopNow(w);
}

// Remembers the first fault of the launch's stream.
static inline void Report(Worker& w, const HostFault& fault) {
  int none = 0;
  if (!w.fault->state.compare_exchange_strong(none, 1)) return;
  w.fault->fault = fault;
  w.fault->state.store(2);
}

// ------------------------------------------------------------------------------- operands (access.cc)

enum class Presence { kAll, kNone, kSome };

// Element offset of lane 0 at `pos`, without indirects.
static inline int64_t BaseOf(const Access& a, const int64_t* pos) {
  int64_t at = a.offset;
  for (int i = 0; i < a.num_loops; ++i) at += a.step[i] * pos[a.loop[i]];
  return at;
}
static inline char* Pointer(const Access& a, const Worker& w, int64_t element) {
  return reinterpret_cast<char*>(w.addresses[a.param]) + element * a.size;
}
static inline int64_t LaneOffset(const LanePattern& lane, int64_t i) {
  return lane.kind == LaneKind::kTable ? lane.table[i] : lane.stride * i;
}

// Loads `n` lanes at `pos`, widened, into `out`. Absent lanes get the operand's absent value. If `mask` is
// given and the result is kSome, *mask marks the lanes that are present.
Presence LoadGuarded(const Access& a, Worker& w, const int64_t* pos, int n, void* out, int depth,
                     const uint8_t** mask);
void StoreGuarded(const Access& a, Worker& w, const int64_t* pos, int n, const void* in);

// Loads (stores) all lanes of an access without guards and indirects; lane 0 is at `from` (`to`).
void LoadByRuns(const Access& a, const char* from, int n, void* out);
void StoreByRuns(const Access& a, char* to, int n, const void* in);
static inline void LoadAt(const Access& a, const char* from, int n, void* out) {
  a.by_runs ? LoadByRuns(a, from, n, out) : a.load(out, from, a.lane, n);
}
static inline void StoreAt(const Access& a, char* to, int n, const void* in) {
  a.by_runs ? StoreByRuns(a, to, n, in) : a.store(to, in, a.lane, n);
}

static inline void LoadLanes(const Access& a, Worker& w, const int64_t* pos, int n, void* out) {
  if (__builtin_expect(a.plain, 1)) {
    LoadAt(a, Pointer(a, w, BaseOf(a, pos)), n, out);
  } else {
    LoadGuarded(a, w, pos, n, out, 0, nullptr);
  }
}

// ------------------------------------------------------------------------------------ tapes (tape.cc)

// The input of a tape besides its operands.
struct TapeFrame {
  Worker* worker = nullptr;
  const char* acc = nullptr;  // accumulator j of lane 0 is at acc + j * acc_stride
  int64_t acc_stride = 0;
  uint8_t acc_size = 4;
  int acc_lanes = kLanes;    // lanes in a row of accumulators (of 4 bytes) or of sums
  int64_t acc_row = kLanes;  // accumulators between rows
  // Reductions. Row scalar s has three arrays of kLanes 8-byte values: value, compared value, sum.
  int64_t kept_stride = 0;
  bool columns = false;         // lanes across rows: scalars are arrays; otherwise only lane 0 is used
  char* scalars = nullptr;      // scalars that are reduced or set
  const char* known = nullptr;  // scalars that are read
  char* kept = nullptr;         // kept row 0 of lane 0
  int64_t position = 0;         // of lane 0 along the reduced loops
};

// The current address of a register.
static inline char* RegisterOf(const Program& program, const Worker& w, uint32_t at) {
  return reinterpret_cast<char**>(w.scratch + program.table_at)[at >> program.slot_shift];
}

// Sets the constants of a program. Call it before the first RunTape of a launch.
void BeginTape(const Program& program, Worker& w);
void RunTape(const Program& program, TapeFrame& frame, const int64_t* pos, int n);
// --------------------------------------------------------------------------------- walking a nest

// Sets pos[first..end) to the `index`-th point of those loops.
static inline void Decode(const Nest& nest, int first, int end, int64_t index, int64_t* pos) {
  for (int d = end - 1; d > first; --d) {
    pos[d] = index % nest.extent[d];
    index /= nest.extent[d];
  }
  if (end > first) pos[first] = index;
}
// The next point of loops [first, end).
static inline void Advance(const Nest& nest, int first, int end, int64_t* pos) {
  for (int d = end - 1; d >= first; --d) {
    if (++pos[d] < nest.extent[d]) return;
    pos[d] = 0;
  }
}
// Sets pos to the start of a tile; returns its number of lanes.
static inline int DecodeTile(const Nest& nest, const Tiling& t, int64_t tile, int64_t* pos) {
  for (int d = t.split + 1; d < t.end; ++d) pos[d] = 0;
  const int64_t at = tile % t.chunks * t.chunk;
  pos[t.split] = at;
  Decode(nest, t.first, t.split, tile / t.chunks, pos);
  return static_cast<int>(Least(t.chunk, nest.extent[t.split] - at) * t.inner);
}
static inline int NextTile(const Nest& nest, const Tiling& t, int64_t* pos) {
  pos[t.split] += t.chunk;
  if (pos[t.split] >= nest.extent[t.split]) {
    pos[t.split] = 0;
    Advance(nest, t.first, t.split, pos);
  }
  return static_cast<int>(Least(t.chunk, nest.extent[t.split] - pos[t.split]) * t.inner);
}

// Copies n floats; fast for small n.
static inline void CopyFloats(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    *reinterpret_cast<Vector*>(to + i) = *reinterpret_cast<const Vector*>(from + i);
  }
#if defined(__AVX512F__)
  if (i == n) return;
  const __mmask16 rest = static_cast<__mmask16>((1u << (n - i)) - 1);
  _mm512_mask_storeu_ps(to + i, rest, _mm512_maskz_loadu_ps(rest, from + i));
#else
  for (; i < n; ++i) to[i] = from[i];
#endif
}

// f32 from n contiguous elements of a float dtype of at most 32 bits.
void WidenRow(const char* from, DType dtype, int64_t n, float* out);

// --------------------------------------------------------------------------- variants, by room

void RunMap(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunRowReduction(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunOneRow(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void EndOneRow(const PartProgram& part, Worker& w, uint32_t shares, int64_t scratch_bytes);
void TakeRangeOf(const PartProgram& part, Worker& w, const char* range, uint32_t shares);
void RunColumnReduction(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunAccumulate(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunFewRows(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunPacked(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunGemm(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunChannels(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunPlanes(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunBytes(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunChannelBytes(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunBytePool(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunDirect(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunAttention(const PartProgram& part, Worker& w, int64_t first, int64_t last);
void RunTopK(const PartProgram& part, Worker& w, int64_t first, int64_t last);

OpFn FindOp(TapeOp op, TapeType result, TapeType operand);
OpFn AddClamp();
OpFn Clamp();
RequantiseRows RowsRequantiser();
LookUp ByteLookUp();
void FillBytes(Engine* engine);
void FillLoads(Engine* engine);
void FillQuantisers(Engine* engine);

}  // namespace rondo::host::RONDO_ISA
