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
#include "drivers/host/byte_program.h"
#include "drivers/host/tape_program.h"

namespace rondo::host {

inline constexpr int kFewRows = 8;  // contractions with at most so many rows stream their rhs

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

// Bytes that lie one behind the other along other loops than what they are made of: "channels", whose loops
// are those along which the bytes of one point lie side by side, and "points", one loop along which numbers
// are read. A tape makes some of each channel in turn, and squares of bytes are turned as they are stored.
inline constexpr int kTurnedChannels = 64, kTurnedPoints = 256;  // at once
struct TurnProgram {
  Program program;   // lanes along the points; ends in a store of a register of bytes
  int points = 0;    // the nest's loop
  int64_t step = 0;  // bytes from point to point
  int64_t channels = 1;
  int num_channel_loops = 0, num_outer_loops = 0;
  uint8_t channel_loop[kMaxNest] = {};  // the innermost first
  uint8_t outer_loop[kMaxNest] = {};    // all others
  int64_t at_once = 0;                  // points
  int64_t units = 0;                    // of all outer loops and blocks of points
  int64_t bytes_at = 0;                 // scratch: [channel][point], kTurnedChannels of kTurnedPoints
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
  float low = -__builtin_inff(), high = __builtin_inff();  // what a term was added to is limited to
  const TurnProgram* turn = nullptr;                       // in place of `program`
};

// A row scalar: how it is accumulated.
struct ScalarSlot {
  TapeOp reduce = TapeOp::kConst;  // kReduce..., or kConst if only set
  TapeType type = TapeType::kF32;
  TapeType of = TapeType::kF32;  // of the values compared (arg reductions)
  bool last = false;             // arg reductions: the last extreme
};

// kRows whose stages are a softmax of rows that lie one element behind the other: exp(x - greatest), over the
// sum of those. x are floats, or (byte - zero) * scale; what comes of them is stored as it is, or as bytes by
// `quantise`, which reads and writes memory (Engine::quantise).
struct SoftmaxProgram {
  const Access *from = nullptr, *to = nullptr;
  float zero = 0, scale = 1;
  const Inst* quantise = nullptr;
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
inline constexpr int kMostPanelColumns = 32;
// Of more rows in all it takes less time to unpack codes once, into memory, than for every kPackedRows.
inline constexpr int64_t kMostInRegisters = 16;
inline constexpr int kPackedRows = 16;  // that are multiplied together
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
  const TurnProgram* turn = nullptr;  // kMap: in place of `program`

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
  const SoftmaxProgram* softmax = nullptr;  // kRows: in place of the stages
  const int* phase_stage = nullptr;         // kOneRow: the stage of elements of each phase

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
  const Access* weight = nullptr;   // lanes along n; null: a pool
  const Access* out = nullptr;      // kBytePool: lanes side by side
  const float* of_bytes = nullptr;  // kBytePool: what is written for each byte; null: itself
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
  OpFn table = nullptr;        // f32: the table's number for the byte that a, a whole number, is; NaN: for 0
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
