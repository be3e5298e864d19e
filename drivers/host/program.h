// What LoadModule prepares from a core Kernel, as plain data: everything that a launch needs, with all
// decisions taken (loops merged, innermost loops chosen, registers placed, functions looked up).
//
// Owned by a HostModule; immutable once made, so safe to share between threads. Compiled once, read by
// the engine that is compiled once per instruction set (exec/): only plain structs here, no functions, so
// that no code of one instruction set can leak into another.
//
// Words: a *nest* is a part's loops after merging, in groups by role. A *tile* is up to kLanes
// consecutive points of one group of the nest, computed together; point i of a tile is *lane* i. A
// *register* holds one value a lane.
#ifndef RONDO_DRIVERS_HOST_PROGRAM_H_
#define RONDO_DRIVERS_HOST_PROGRAM_H_

#include <atomic>
#include <cstdint>

#include "core/kernel.h"
#include "core/stop.h"

namespace rondo::host {

inline constexpr int kLanes = 256;
inline constexpr int kMaxNest = kMaxLoops + 8;    // an empty group still has one loop of extent 1
inline constexpr int kMaxIndexDepth = 4;          // an index may itself be read through an index
inline constexpr int kAccessBytes = kLanes * 17;  // scratch of one level: offsets, indices, mask
inline constexpr int kFewRows = 8;                // contractions with at most so many rows stream their rhs

// How lane i of a tile differs from lane 0, in elements (or in a coordinate).
enum class LaneKind : uint8_t { kUnit = 0, kSame = 1, kStride = 2, kTable = 3 };
struct LanePattern {
  LaneKind kind = LaneKind::kSame;
  int64_t stride = 0;
  const int32_t* table = nullptr;  // kLanes entries
};

struct Inst;
// Where the registers of an instruction are. `out` may be one of the others; all have room for kLanes values
// or, where they are memory of an operand, for lanes in whole vectors.
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

// A predicate on the coordinate offset + strides . position + lane: in [0, extent), or the lane is absent.
struct GuardTest {
  int64_t offset = 0;
  int64_t extent = 0;
  int loops = 0;                  // with a stride: loop[], step[]
  const uint8_t* loop = nullptr;  // of the nest
  const int64_t* step = nullptr;
  LanePattern lane;
  int64_t least = 0, greatest = 0;  // of the lane term, over a full tile
  int64_t run_step = 0;             // from lane to lane of a run
};

struct Access;
struct IndexTerm {
  const Access* index = nullptr;  // of an integer operand; null: not used
  bool wrap = false, fault = true;
  bool same = true;  // the same for all lanes
  int64_t stride = 0, extent = 0;
};

// An operand as seen from one nest and its tiles. Address in elements: offset + strides . position + lane
// (+ indices), the guards' own terms included.
struct Access {
  uint16_t param = 0;
  uint16_t operand = 0;  // in its part
  DType dtype = DType::kF32;
  uint8_t size = 4;        // bytes of an element
  uint8_t wide = 4;        // of one in a register
  bool plain = true;       // no guards, no indices
  bool same_tests = true;  // guards and indices are the same for all lanes
  uint8_t num_loops = 0;   // loops with a stride: loop[], step[]
  uint8_t num_guards = 0, num_indices = 0;
  uint8_t loop[kMaxNest] = {};
  int64_t step[kMaxNest] = {};
  int64_t offset = 0;
  double absent = 0;
  LanePattern lane;
  // A tile is made of runs of consecutive lanes along its innermost loop: evenly spaced in every operand.
  int64_t run_lanes = kLanes;
  LanePattern run;
  LoadFn load_run = nullptr;
  StoreFn store_run = nullptr;
  int64_t ahead = 0;     // elements from a lane to where memory is asked for, in loads by runs of one vector
  bool by_runs = false;  // lanes are in a table, their runs contiguous and not short
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
};

struct Inst {
  OpFn fn = nullptr;  // kOp
  InstKind kind = InstKind::kOp;
  TapeOp op = TapeOp::kConst;
  TapeType type = TapeType::kF32;         // of the result
  TapeType of = TapeType::kF32;           // of register a
  uint16_t arg = 0;                       // slot, accumulator, nest loop (kIndex)
  uint32_t out = 0, a = 0, b = 0, c = 0;  // byte offsets of registers
  const Access* access = nullptr;         // kLoad, kStore
  LanePattern lane;                       // kIndex
  bool fixed = false;                     // kIndex of a loop of extent 1
  // kLoad: the register may be the operand's memory itself. kOp: the next instruction, a store, may be left
  // out by writing the result to its operand.
  bool direct = false;
  bool exact = false;  // `direct` for any number of lanes: none behind the last is computed
  union {
    double f = 0;
    int64_t i;
    float range[4];  // Engine::add_clamp, clamp and quantise: least and greatest result; the latter's scale
                     // and zero
  } imm;
};

// A tape for one nest and its tiles.
struct Program {
  const Inst* once = nullptr;  // constants: before the first tile of a launch
  uint32_t num_once = 0;
  const Inst* body = nullptr;
  uint32_t num_body = 0;
  uint32_t num_same = 0;     // the first of `body`: loads of one number, before the first tile as well
  int64_t registers_at = 0;  // byte offset of the registers in a worker's scratch
  int64_t table_at = 0;      // of their addresses as they are at present
  uint32_t slots = 0, slot_shift = 0;
  uint32_t slot_bytes = 0;  // of one register: 1 << slot_shift
  uint32_t yield = 0;       // register of kYield
};

// Loops of a part after merging. Group g is loops [first[g], first[g + 1]); every group has at least one.
inline constexpr int kMaxGroups = 5;
struct Nest {
  int loops = 0;
  int groups = 0;
  int64_t extent[kMaxNest] = {};
  int first[kMaxGroups + 1] = {};
  int64_t points[kMaxGroups] = {};   // product of the extents of each group
  int8_t source[kMaxNest] = {};      // innermost loop of the part that this loop is made of, or -1
  int8_t nest_loop[kMaxLoops] = {};  // nest loop of each loop of the part, -1 if of extent 1
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

struct StageProgram {
  bool per_row = false;
  uint32_t resets = 0;  // bit s: scalar s starts anew in this stage
  Program program;
  // kOneRow. All that the stage does of elements is to look for the least or the greatest of floats (slots;
  // -1: not that one), or to make bytes of them by its last instructions (`straight` and two more: an
  // operation and a store), for which those before it are the same everywhere. The floats lie one behind the
  // other along the innermost loop, and run_step apart from there on.
  const Access* floats = nullptr;
  int64_t run_step = 0;
  uint32_t straight = 0;  // instructions that load and compute the floats
  int least = -1, greatest = -1;
  bool quantises = false;
  // Not those floats, but each times one of as many as the innermost loop has points, a channel's, say; and
  // that plus another such.
  const Access *factors = nullptr, *terms = nullptr;
};

// A row scalar: how it is accumulated.
struct ScalarSlot {
  TapeOp reduce = TapeOp::kConst;  // kReduce..., or kConst if only set
  TapeType type = TapeType::kF32;
  TapeType of = TapeType::kF32;  // of the values compared (arg reductions)
  bool last = false;             // arg reductions: the last extreme
};

struct PartProgram;
struct Worker;
// Whether the worker's launch is to end, for when its signal's word says that it may be: reads the clock now
// and then. In stream.cc, for all instruction sets.
bool StopNow(Worker& worker);
using RunFn = void (*)(const PartProgram& part, Worker& worker, int64_t first, int64_t last);
// What one thread does behind a phase, of which each of `shares` workers has done some; their scratch is
// `scratch_bytes` apart.
using EndPhaseFn = void (*)(const PartProgram& part, Worker& worker, uint32_t shares, int64_t scratch_bytes);

// Which routine runs a part.
enum class Path : uint8_t {
  kMap = 0,
  kRows = 1,         // reduction, lanes along the row
  kColumns = 2,      // reduction, lanes across rows
  kAccumulate = 3,   // contraction, convolution, pool: any operands, lanes along n
  kFewRows = 4,      // contraction of at most kFewRows rows: the rhs is read once, where it is
  kGemm = 5,         // contraction through packed blocks
  kConvolution = 6,  // convolution through packed blocks
  kAttention = 7,
  kChannels = 8,       // depthwise convolution, pool: lanes along channels that lie side by side
  kDirect = 9,         // convolution of few output channels a group: the input is read where it is
  kPlanes = 10,        // depthwise convolution, pool: channels are planes, lanes along the points
  kBytes = 11,         // contraction or convolution of 8-bit integers
  kPacked = 12,        // contraction by weights in fewer bits, unpacked a few columns at a time
  kChannelBytes = 13,  // depthwise convolution of 8-bit integers: lanes along channels that lie side by side
  kBytePool = 14,      // greatest bytes of windows: lanes along channels that lie side by side
  kOneRow = 15,        // reduction of a single row, whose elements are shared out
};
inline constexpr int kNumPaths = 16;

// One rhs (or convolution input) of a contraction.
struct RhsProgram {
  const Access* by_n = nullptr;  // lanes along n
  bool k_unit = false;           // element (k, n) is at k + lane(n): rows of n
  int64_t k_step = 0;            // elements per step of the (single) k loop
};

// kPlanes. A plane is copied into scratch with its padding, one *phase* for every offset modulo the steps of
// the kernel, so that the points of a row find any tap in neighbouring floats. All points of all rows are
// computed in one go, those that lie between rows in vain.
inline constexpr int kMaxPlaneAxes = 3;
struct PlaneAxis {
  int64_t points = 1, taps = 1;
  int64_t step = 1, dilation = 1;  // coordinates from point to point, from tap to tap
  int64_t length = 1;              // coordinates that are read; the first counts as 0
  int64_t first = 0, last = 1;     // those inside the input
  int64_t stride = 1;              // elements of the input from one to the next
  int64_t pitch = 1;               // coordinates of one phase
  int64_t phase_floats = 0;        // from phase to phase
  int64_t pitch_floats = 0;        // from one coordinate of a phase to the next
};
struct PlanesProgram {
  PlaneAxis axis[kMaxPlaneAxes];  // the last ones; those before have one coordinate
  int64_t phases = 1, phase = 1;  // floats of a phase
  int64_t points = 1, taps = 1;
  int64_t flat = 0;                     // points of all rows and what lies between
  const int64_t* tap_at = nullptr;      // floats of the phases
  const int64_t* tap_weight = nullptr;  // elements of the weight
};

// kPacked. How codes lie: core/packed_weights.h.
inline constexpr int64_t kPackedDepth = 256;  // of k, whole pieces, and columns that are unpacked at a time
inline constexpr int kPackedColumns = 16;
inline constexpr int kPackedRows = 4;  // that are multiplied together
struct PackedProgram {
  const Access* codes[kMaxSlots] = {};  // lanes along n; `stride` from one n to the next
  const Access* scales[kMaxSlots] = {};
  const Access* zeros[kMaxSlots] = {};  // null: `zero` everywhere
  int64_t stride = 1, piece = 0, pieces = 0, block = 0, blocks = 0;
  PackedType type = PackedType::kNone;
  uint32_t bits = 0, mask = 0;
  float zero = 0;
  const float* values = nullptr;  // of each code; null: the code itself
  int groups = 1;                 // into which scales divide what a word has along k
  bool whole_pieces = false;      // no piece is of two blocks
  int block_shift = -1;           // block = 1 << block_shift, if it is such a number
  int64_t rows_at = 0;            // scratch: kPackedRows rows in the order of lanes (exec/packed_sums.h)
};

// acc[m * acc_row + j] = sum over i < k of a[m * a_row + i] * (b[j * b_step + i] ^ flip), a unsigned, b (with
// its bits flipped) signed; modulo 2^32. Rows of a are 0 from k to the next multiple of 64; acc is written up
// to the next multiple of 4 columns.
using MultiplyBytes = void (*)(const uint8_t* a, int64_t a_row, int rows, const char* b, int64_t b_step,
                               int columns, int64_t k, uint8_t flip, int32_t* acc, int64_t acc_row);

// Rows of the left side as 16 bits, as they are multiplied where there are no dot products of bytes: `lines`
// lines of numbers that lie one behind the other, of which point m reads `length` from m * point_step on.
struct WideLines {
  int64_t lines = 1, line_step = 0;  // numbers from line to line
  int64_t length = 0, point_step = 0;
};
// What MultiplyLines does of B: `columns` columns, b_step bytes apart, whose k is contiguous and lies in the
// order of the lines.
struct ByteColumns {
  const char* b = nullptr;
  int64_t b_step = 0;
  int columns = 0;
  bool is_unsigned = false;
};
// Points of one image line: their first line, and how many.
struct WidePiece {
  const int16_t* lines = nullptr;
  int points = 0;
};
// Sums of all points of `pieces`, one behind the other, as MultiplyBytes gives them, exact. Rows of acc are
// acc_row apart. Numbers behind a line's end are read, and are any.
using MultiplyLines = void (*)(const WideLines& how, const WidePiece* pieces, int count,
                               const ByteColumns& columns, int32_t* acc, int64_t acc_row);
// n bytes as 16 bits; up to kWideSlack numbers behind them are written.
using WidenBytes = void (*)(const uint8_t* from, int64_t n, bool is_signed, int16_t* to);
// What each point's numbers add up to; `added` has room for a line.
using SumLines = void (*)(const WideLines& how, const WidePiece& piece, int16_t* added, int64_t* sums);
inline constexpr int64_t kWideSlack = 64;

// kChannelBytes. Points beside each other of kStep channels. Column c has four bytes a channel, fours times:
// vertical taps, filled up; so has each horizontal tap of the weights. Signed weights, unsigned columns. Room
// for whole vectors everywhere.
struct ChannelStrip {
  const uint8_t* columns = nullptr;
  int64_t point_step = 0, tap_step = 0;  // bytes from point to point, and from one horizontal tap to the next
  const uint8_t* weights = nullptr;
  const uint8_t* high = nullptr;  // of weights of 16 bits, `weights` being the low ones; null: signed bytes
  int taps = 1, fours = 1, points = 1;
  int32_t* acc = nullptr;  // of a point, one a channel
  int64_t acc_row = 0;     // from point to point
  bool add = false;        // to what is there
};
// Whether MultiplyBytes reads no more than k bytes of each row of a.
using ReadsNoMore = bool (*)(int rows, int columns, int64_t k);
using SumChannels = void (*)(const ChannelStrip& strip);
// `channels` bytes (at most a step) from each of four addresses, of which one byte each, with `flip`ped bits,
// is beside the others in `to`, in an order that SumChannels undoes; then the same `step`s further on.
using InterleaveBytes = void (*)(const uint8_t* const* from, const int64_t* step, int columns, int channels,
                                 uint8_t flip, uint8_t* to, int64_t to_step);

// How bytes are multiplied.
struct ByteInstructions {
  MultiplyBytes multiply = nullptr;
  ReadsNoMore reads_no_more = nullptr;
  SumChannels sum_channels = nullptr;
  InterleaveBytes interleave = nullptr;
  int channel_step = 0;     // of the latter two
  bool takes_wide = false;  // sum_channels knows weights of 16 bits
  // Null: `multiply` is as quick.
  MultiplyLines multiply_lines = nullptr;
  WidenBytes widen = nullptr;
  SumLines sum_lines = nullptr;
};

// What an epilogue makes of the sums of one right side, where it is no more than this:
//   x = ((sum - correction - row * times) + before) * factor + after, in [low, high],
// stored as f32, or as bytes: round(x / scale) + zero, in [least, greatest]. Or how an epilogue that is more
// begins: the same, as floats. What depends on the column alone is computed once a tile.
inline constexpr uint32_t kNoRegister = ~uint32_t{0};
struct Requantisation {
  // Whole numbers; without `times`, a row sum counts once.
  uint32_t correction = kNoRegister, times = kNoRegister;
  uint32_t before = kNoRegister, factor = kNoRegister, after = kNoRegister;  // f32
  // The row's: a whole number in memory, the same for all columns; or the sum of the left side that right
  // side `row_sum` stands for.
  const Access* row = nullptr;
  int row_sum = -1;
  bool clamps = false, quantises = false, is_signed = false;
  float low = -__builtin_inff(), high = __builtin_inff();
  float scale = 1, zero = 0;       // QuotientIsQuick; zero is whole
  const Access* out = nullptr;     // lanes side by side
  const uint8_t* table = nullptr;  // the byte that is stored for each byte; null: itself
  bool of_row() const { return row_sum >= 0 || times != kNoRegister; }
};
struct RequantisedRows {
  const int32_t* sums = nullptr;
  int64_t sums_row = 0;  // from row to row
  int rows = 0, columns = 0;
  const int32_t* less = nullptr;   // of each column
  const int32_t* times = nullptr;  // of each column; null: no row
  // Of each row: sum + more - less - row * times, modulo 2^32.
  const uint32_t* more = nullptr;
  const uint32_t* row = nullptr;
  const float* before = nullptr;  // of each column, as the others; null: 0
  const float* factor = nullptr;
  const float* after = nullptr;
  char* out = nullptr;
  int64_t out_row = 0;  // bytes from row to row
};
inline constexpr int kMostRequantised = 64;  // rows at a time
// to[i] = table[from[i]]; both may be the same.
using LookUp = void (*)(const uint8_t* table, const uint8_t* from, int64_t n, uint8_t* to);
// Whether round(x / scale) + zero in [low, high] can be had without a division: see exec/quotient.h.
inline bool QuotientIsQuick(float scale, float zero, float low, float high) {
  constexpr float kMostNumber = 1 << 20;
  return scale >= 0x1p-100f && scale <= 0x1p100f && zero >= -kMostNumber && zero <= kMostNumber &&
         low >= -kMostNumber && high <= kMostNumber;
}
using RequantiseRows = void (*)(const Requantisation& how, const RequantisedRows& rows);

// kBytes whose left side is read as lines of the image, not as a row for each point: `taps` taps of k beside
// each other are a line.
struct ByteLines {
  WideLines how = {0, 0, 0, 0};  // lines 0: rows are packed
  int64_t taps = 1;              // of a line
  int64_t point_bytes = 0;       // from point to point, along the innermost loop of group m
  bool apart = false;  // points are further apart than they are long: each is brought beside the one before
  int guard = -1;      // the one that depends on the point, if any
  int64_t guard_points = 0;                           // its coordinates from point to point
  bool is_signed = false;                             // the left side
  bool is_unsigned[kMaxSlots] = {};                   // right sides
  int64_t lines_at = 0, pieces_at = 0, added_at = 0;  // scratch
  MultiplyLines multiply = nullptr;
  WidenBytes widen = nullptr;
  SumLines sum = nullptr;
};

// kBytes. The points of k are PartProgram::taps, each of tap_run bytes, if the left side lies so.
struct BytesProgram {
  MultiplyBytes multiply = nullptr;
  ByteLines lines;
  // The rows of the left side are multiplied where they lie, `left_row` bytes apart, not packed.
  bool in_place = false;
  int64_t left_row = 0;
  int64_t turned_step = 0;  // rows lie beside each other, and k so many bytes apart; 0: otherwise
  bool in_runs = false;
  int64_t tap_run = 0;
  int64_t runs = 0;                    // of taps that lie one behind the other, where none is absent
  const int64_t* run_at = nullptr;     // bytes from tap 0
  const int64_t* run_bytes = nullptr;  // of each
  uint8_t absent = 0;                  // the byte of an absent tap
  uint8_t left_flip = 0;               // 0x80: the left side is signed
  uint8_t right_flip[kMaxSlots] = {};  // 0x80: the right side is unsigned
  bool row_sum[kMaxSlots] =
      {};                 // the right side is one number for all of k and n: its product is a sum of the row
  bool sum_rows = false;  // one of them is that, or unsigned
  int64_t wide_stride = 0;  // bytes of the sums of one right side, widened for the epilogue
  // Of each right side that is no row sum; null where the epilogue gets the sums as they are, as i64.
  const Requantisation* sums = nullptr;
  RequantiseRows requantise = nullptr;  // of `sums`
  bool whole = false;                   // in place of the epilogue; else that gets the floats
  LookUp look_up = nullptr;
  Program of_columns;                 // registers of `sums`
  int64_t correction_at = 0;          // of the columns of a tile, i32, kLanes a right side
  int64_t times_at = 0;               // as correction_at
  int64_t zeros_at = 0, ones_at = 0;  // kLanes floats
  int64_t columns_at = 0;             // packed columns, where k is not contiguous
};

// kChannelBytes. A strip of points along the innermost loop of group m shares its columns: those of the input
// under every tap of the innermost loop of k (horizontal; the others are vertical), a few coordinates apart.
struct ChannelBytesProgram {
  ByteInstructions with;
  int64_t vertical = 1, horizontal = 1;        // taps
  int64_t fours = 1;                           // of vertical taps
  int64_t points = 1;                          // of a strip, at most
  int64_t point_columns = 1, tap_columns = 1;  // from point to point, from one horizontal tap to the next
  int64_t unit = 0;                            // bytes of the input from column to column
  const int64_t* guard_unit = nullptr;         // coordinates from column to column, of each guard
  // Scratch. Weights are made when a worker first needs them in a launch, and kept: so many bytes for each
  // step of channels of a tile, of which made_at says whether, and as how many bytes a weight, they are
  // there.
  int64_t columns_at = 0, weights_at = 0, numbers_at = 0, rows_at = 0, absent_at = 0, sums_at = 0,
          made_at = 0;
  int64_t weights_bytes = 0;
  int64_t tile_steps = 1;
};

struct PartProgram {
  Path path = Path::kMap;
  RunFn run = nullptr;
  const Kernel* kernel = nullptr;
  uint32_t kernel_index = 0;
  Combine combine = Combine::kProduct;
  bool nan_to_zero = false;
  bool sequential = false;  // one task that walks all tiles in order
  float scale = 1, softcap = 0;
  TapeType acc_type = TapeType::kF32;
  Nest nest;
  int64_t tasks = 1;  // units of work, split over threads
  // All tasks run once a phase, one phase after the other.
  int phases = 1;
  EndPhaseFn end_phase = nullptr;
  // kOneRow whose first phase looks for a range: in its place, takes that of what `shares` workers have
  // written, who kept it at `range`, kRangeBytes each.
  void (*take_range)(const PartProgram& part, Worker& worker, const char* range, uint32_t shares) = nullptr;
  double work = 0;            // rough nanoseconds of the whole part on one thread
  int64_t scratch_bytes = 0;  // that one worker needs; ..._at below are byte offsets in it

  // kBytes, kChannelBytes: what is written, if that is floats, whose rows lie one behind the other. Null:
  // otherwise.
  const Access* written = nullptr;

  // kMap whose tape, behind what all tiles share, does no more than store one of those bytes (`fills`), or
  // than to load floats, and store the bytes that one operation makes of any number of them: runs along the
  // innermost loop, not tiles, are its units then.
  const Access* fills = nullptr;
  bool in_runs = false;

  // kMap: tiling of all loops. Reductions: of the lane group. Others: of group n.
  Tiling tiling;
  Program program;  // map body or epilogue
  // Epilogues of several rows at once, along the innermost loop of group m: all of n each. 1: of one tile.
  int64_t epilogue_rows = 1;

  // Reductions.
  const StageProgram* stages = nullptr;
  int num_stages = 0;
  ScalarSlot scalars[kMaxSlots];
  int num_scalars = 0, num_kept = 0;
  TapeType kept_type[kMaxSlots] = {};
  int64_t kept_at = 0, kept_stride = 0, scalars_at = 0;
  const int* phase_stage = nullptr;  // kOneRow: the stage of elements of each phase

  // Contractions and convolutions (for a convolution lhs is the weight and the rhs the input).
  int num_rhs = 0;
  RhsProgram rhs[kMaxSlots];
  Program step_by_n;  // kAccumulate: lanes along n, one k; adds to its first num_rhs registers
  Program lhs_by_k;   // kFewRows, kGemm, kConvolution: lanes along k; yields
  const Access* lhs_direct = nullptr;  // f32 unit stride over one k loop, no prologue: read in place
  const Access* lhs_load = nullptr;    // lanes along k, widened to f32 by its load alone: no tape needed
  Tiling k_tiling;
  int64_t acc_at = 0, acc_stride = 0, lhs_at = 0, rhs_at = 0, temp_at = 0, count_at = 0;
  int64_t lhs_row = 0;        // floats from row to row of the packed lhs (kFewRows)
  int64_t tiles_at_once = 1;  // of n (kFewRows)
  int64_t block_rows = 0;     // rows of a block (kGemm, kConvolution)
  int64_t acc_row = kLanes;   // floats from row to row of accumulators
  bool has_lhs = true;        // pools have none

  // kChannels, kDirect. The input is rhs[0].by_n; the points of k are taps, each of tap_run of them
  // (kDirect).
  const Access* weight = nullptr;  // lanes along n; null: a pool
  const Access* out = nullptr;     // kBytePool: lanes side by side
  int64_t taps = 0;
  const int64_t* tap_at = nullptr;          // elements from the input of tap 0
  const int64_t* tap_weight = nullptr;      // elements from the weight of tap 0
  const int64_t* tap_coordinate = nullptr;  // [guard][tap]: from the coordinate of tap 0
  int64_t taps_at = 0;  // the present taps of a point: two arrays; of all of a block (kDirect)
  int64_t tap_run = 1, tap_step = 0, tap_weight_step = 0;  // elements of the input, of the weight
  int64_t zeros = 0, zeros_at = 0;  // floats that stand for an absent tap in all groups

  const PlanesProgram* planes = nullptr;  // kPlanes
  const PackedProgram* packed = nullptr;  // kPacked
  const BytesProgram* bytes = nullptr;    // kBytes: left_* in lhs_load, lhs_at, lhs_row; sums of rows at
                                          // count_at. kChannelBytes: epilogue
  const ChannelBytesProgram* channel_bytes = nullptr;

  // Attention.
  const Access* q = nullptr;
  const Access* keys = nullptr;    // lanes along features
  const Access* values = nullptr;  // lanes along n
  const Access* mask = nullptr;    // lanes along keys
  const Access* limit = nullptr;
  Tiling feature_tiling;
  bool keys_direct = false;              // one feature loop of unit stride, one key loop, float dtype
  bool values_direct = false;            // one n loop of unit stride, one key loop
  int64_t key_step = 0, value_step = 0;  // elements from key to key
  int64_t scores_at = 0;
};

// An index met out of its range.
struct HostFault {
  uint32_t step = 0;
  uint32_t kernel = 0;   // index in the plan
  uint32_t operand = 0;  // of its part: the operand whose address the index was for
  int64_t value = 0;     // the index met
  int64_t extent = 0;    // its limit
};

// The first fault of a stream since the last Synchronize.
struct FaultCell {
  std::atomic<int> state{0};  // 0 none, 1 being written, 2 set
  HostFault fault;
};

// One thread's view of one launch.
struct Worker {
  char* scratch = nullptr;
  char* shared = nullptr;  // the scratch of the first worker
  int phase = 0;
  char* range =
      nullptr;  // kRangeBytes for the least and the greatest of PartProgram::written; null: not asked for
  const uint64_t* addresses = nullptr;
  FaultCell* fault = nullptr;
  uint32_t step = 0;
  uint32_t kernel = 0;
  StopSignal* stop = nullptr;
  uint32_t looks = 0;  // of StopNow at the signal
};

// To floats, where NaN stays; to bytes of a range that they hold, in memory, where NaN becomes 0.
struct Quantisers {
  OpFn to_floats = nullptr, to_u8 = nullptr, to_i8 = nullptr;
};

// The engine of one instruction set.
struct Engine {
  const char* name = "";
  int rows = 0;  // rows and columns of a register block of the packed product
  int columns = 0;
  int vectors = 0;  // that its columns are
  OpFn (*find_op)(TapeOp op, TapeType result, TapeType operand) = nullptr;
  OpFn add_clamp = nullptr;    // f32: a + b, then the range; NaN stays
  OpFn clamp = nullptr;        // f32: a, then the range; NaN stays
  Quantisers quantise;         // f32: a / scale, rounded half to even, + zero, then the range
  Quantisers quantise_scaled;  // the same; the scale is lane 0 of b
  Quantisers quantise_by;      // the same; the scale is lane 0 of b, the zero point that of c
  LoadFn load[kNumDTypes][4] = {};
  StoreFn store[kNumDTypes][4] = {};
  LoadFn load_float[kNumDTypes][4] = {};  // of i8 and u8, as f32
  StoreFn store_float[kNumDTypes][4] = {};
  LoadFn load_byte[kNumDTypes][4] = {};  // as they are
  StoreFn store_byte[kNumDTypes][4] = {};
  GatherFn gather[kNumDTypes] = {};
  ScatterFn scatter[kNumDTypes] = {};
  FillFn fill[3] = {};
  RequantiseRows requantise = nullptr;
  LookUp look_up = nullptr;
  ByteInstructions bytes;          // by what this machine has
  ByteInstructions bytes_widened;  // without dot products of bytes: on any that the engine is for
  RunFn run[kNumPaths] = {};
  EndPhaseFn end_one_row = nullptr;
  void (*take_range)(const PartProgram& part, Worker& worker, const char* range, uint32_t shares) = nullptr;
};

inline constexpr int64_t kRangeBytes = 1024;  // of one worker

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_PROGRAM_H_
