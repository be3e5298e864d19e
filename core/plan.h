// A plan as plain data: what formats/plan reads from a file and the compiler writes.
//
// Spans and views point into the Arena of the reader or compiler that made the plan and live as long
// as it. Immutable once made; safe to share between threads. All sizes are bytes and all offsets are
// final: nothing here is decided at run time.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "core/kernel.h"
#include "core/shape.h"
#include "core/span.h"

namespace rondo {

inline constexpr uint32_t kNone = 0xffffffffu;

// What a machine must have before anything is loaded. One entry of `devices` per device index.
struct DeviceBytes {
  uint64_t weights = 0;
  uint64_t arena = 0;         // one session's inputs, outputs, temporaries and workspace
  uint64_t state = 0;         // one session's
  uint64_t workspace = 0;     // the part of the arena that is workspace
  uint64_t communicator = 0;  // estimate
};
struct Requirements {
  Span<const DeviceBytes> devices;
  // "host", "cuda:sm_90a", "cuda:sm_80,cuda:sm_90a,host": as the user asked. Fusion was decided for the first
  // GPU named, or for the host if there is none.
  std::string_view target;
  uint32_t least_driver_version = 0;
  // Upper bounds from the contracts; 0: not stated.
  uint64_t scratch = 0;  // bytes that a thread of the host driver needs to work in, for any kernel
  uint64_t work = 0;     // tape instructions and accesses of the longest program's run
};

enum class BufferKind : uint8_t {
  kInput = 0,      // in the arena
  kOutput = 1,     // in the arena
  kConstant = 2,   // in the weights
  kState = 3,      // in the session's state
  kTemporary = 4,  // in the arena
  kWorkspace = 5,  // in the arena
  // In the arena: an input that the caller gives away and that becomes an output, so it is a port on both
  // sides. It is written in place.
  kUpdatedInput = 6,
};
// Whether the caller writes the buffer before the program runs (IsInput), and reads it afterwards (IsOutput).
constexpr bool IsInput(BufferKind kind) {
  return kind == BufferKind::kInput || kind == BufferKind::kUpdatedInput;
}
constexpr bool IsOutput(BufferKind kind) {
  return kind == BufferKind::kOutput || kind == BufferKind::kUpdatedInput;
}

enum class WeightSource : uint8_t {
  kBytes = 0,      // `file_offset` in the weights section or file
  kSynthetic = 1,  // generated: see core/synthetic.h
};

struct Buffer {
  std::string_view name;  // the model's own value name where there is one
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kF32;
  uint64_t bytes = 0;
  uint32_t device = 0;
  uint32_t program = kNone;  // of inputs, outputs, temporaries, workspace; kNone for shared buffers
  uint64_t offset = 0;       // in the arena, the weights or the state of its device
  uint32_t alignment = 64;
  // Steps (of its program) between which the contents matter, both included. Inputs begin at step 0;
  // outputs end at the last step. first > last: never used.
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  // The buffer whose memory this one takes over in place. If that is an input, the caller gives its memory
  // away.
  uint32_t aliases = kNone;
  uint32_t source = kNone;  // into PlanData::sources
  Shape shape;              // informative for temporaries; exact for inputs, outputs, state, constants
  // kConstant only.
  WeightSource weight = WeightSource::kBytes;
  uint64_t file_offset = 0;
  uint64_t synthetic_key = 0;
  float synthetic_scale = 0;
  // For one device's share of a synthetic weight: runs of this many elements, each starting `synthetic_step`
  // elements of the weight after the one before it. Run 0: all elements of the weight, in order.
  uint64_t synthetic_run = 0, synthetic_step = 0;
};

// What a step binds to one parameter of its kernel: `buffer`'s memory from `offset` bytes on; in round r of
// the step's loop, from `offset + r * stride`.
struct Binding {
  uint32_t buffer = kNone;
  uint64_t offset = 0;
  int64_t stride = 0;
};

enum class StepKind : uint8_t {
  kLaunch = 0,           // kernel with bindings
  kCopy = 1,             // bindings[0] -> bindings[1], `bytes`
  kCollectiveStart = 2,  // sync_point
  kCollectiveWait = 3,   // sync_point
  kCustom = 4,           // custom op with bindings, one for each argument
};

struct Step {
  StepKind kind = StepKind::kLaunch;
  uint32_t device = 0;
  uint32_t stream = 0;
  uint32_t kernel = kNone;      // into PlanData::kernels
  uint32_t sync_point = kNone;  // into Program::sync_points
  uint64_t bytes = 0;
  Span<const Binding> bindings;
  Span<const uint32_t> waits;  // events (of this program) waited for before the step
  uint32_t records = kNone;    // event recorded after the step
  Span<const uint32_t> after;  // earlier steps that must be complete, besides what data order implies
  uint32_t source = kNone;     // into PlanData::sources
  uint32_t custom = kNone;     // into PlanData::custom_ops
};

// Why a run of steps ended (stored in plans: append only).
enum class BreakReason : uint8_t {
  kProgramEnd = 0,
  kDeviceChange = 1,
  kUserBreak = 2,   // asked for on the command line or by an annotation
  kUnsafeStep = 3,  // the next step cannot be in a graph
  kSyncPoint = 4,   // a collective stands between partitions
};

struct Partition {
  uint32_t device = 0;
  uint32_t first_step = 0;  // of the program
  uint32_t num_steps = 0;
  BreakReason reason = BreakReason::kProgramEnd;
  std::string_view detail;  // the reason as a sentence, naming the node
};

// Steps that repeat: a run executes [first_step, first_step + num_steps) `trips` times, as if the list held
// that many copies. They are launches and copies of one stream and one partition, and neither wait for nor
// record events.
struct Loop {
  uint32_t first_step = 0;
  uint32_t num_steps = 0;
  uint32_t trips = 0;  // rounds
  constexpr uint32_t end() const { return first_step + num_steps; }
};
inline constexpr uint64_t kMaxLoopSteps = uint64_t{1} << 20;  // of a program's loops, all rounds counted

// Stored in plans: append only. What each reads and writes: core/collective.h.
enum class CollectiveOp : uint8_t {
  kAllReduce = 0,
  kAllGather = 1,
  kReduceScatter = 2,
  kBroadcast = 3,  // participant 0's data, to all
  kSend = 4,       // two participants, in either order: from the first to the second
  kAllToAll = 5,   // part i of each participant's data goes to participant i
};
inline constexpr CollectiveOp kLastCollectiveOp = CollectiveOp::kAllToAll;

struct SyncPoint {
  CollectiveOp op = CollectiveOp::kAllReduce;
  DType dtype = DType::kF32;
  uint64_t bytes = 0;
  uint32_t communicator = 0;
  Span<const uint32_t> participants;  // device indices
  uint32_t source = kNone;
};

// A named input or output of a program and the buffer that holds it. State appears in both lists under its
// two names with `is_state` set: it may be written before a run and read after one. In a program of several
// devices an input is replicated: `replicas` are the buffers of the other devices that get the same bytes.
// Outputs and state are ports of one device each (emit_plan.h says how the compiler names them).
struct Port {
  std::string_view name;
  uint32_t buffer = kNone;
  bool is_state = false;
  Span<const uint32_t> replicas = {};  // inputs only; ascending device numbers, all above `buffer`'s
};

struct Program {
  std::string_view name;  // "main", "prefill", "decode", ...
  Span<const Port> inputs;
  Span<const Port> outputs;
  Span<const Step> steps;
  Span<const Partition> partitions;  // cover all steps, in order
  Span<const SyncPoint> sync_points;
  Span<const uint64_t> certificates;  // order certificate, one for each device; empty without sync points
  uint32_t num_streams = 1;
  uint32_t num_events = 0;
  uint64_t arena_lower_bound = 0;  // largest sum of live bytes at any step
  uint64_t arena_bytes = 0;        // bytes of the arena that this program touches
  Span<const Loop> loops = {};     // ascending; no two share a step
  // The program that this one is a variant of: it has the same ports and computes the same in a smaller
  // arena, in more time. Variants come after all other programs; those of one program with descending
  // arena_bytes.
  uint32_t variant_of = kNone;
};

// The loop that step `step` is in, or null.
const Loop* LoopOf(const Program& program, uint32_t step);
// How many times a run executes step `step`.
uint32_t RoundsOf(const Program& program, uint32_t step);

// One execution of a step in a run.
struct StepInRound {
  uint32_t step = 0;
  uint32_t round = 0;  // of its loop
};
// The execution after `at`.
StepInRound Next(const Program& program, StepInRound at);

// The memory of a kernel's parameter as a tensor of which TMA copies boxes on NVIDIA GPUs: the arguments of
// cuTensorMapEncodeTiled, dimensions innermost first. The driver encodes it for the address that a launch
// binds and passes it to the function by value.
inline constexpr uint32_t kMaxTensorMapRank = 5;
struct TensorMap {
  uint16_t param = 0;   // of the kernel
  uint64_t offset = 0;  // bytes from where the parameter begins; a multiple of 16
  DType dtype = DType::kF16;
  uint32_t rank = 2;
  uint64_t extents[kMaxTensorMapRank] = {};      // elements
  uint64_t strides[kMaxTensorMapRank - 1] = {};  // bytes between neighbours, from dimension 1 on
  uint32_t box[kMaxTensorMapRank] = {};          // elements
  uint32_t swizzle = 0;                          // bytes of the pattern: 0, 32, 64 or 128
};

// A matmul that a library computes: for each batch, and in this order,
//   out[m, n] = epilogue(sum over k of lhs[m, k] * rhs[n, k] + addend[m, n] + bias[n])
// The driver chooses the algorithm when it prepares the plan, within `workspace_bytes`, unless `algorithm`
// names one.
enum class MatmulEpilogue : uint8_t { kNone = 0, kRelu = 1, kGeluTanh = 2 };
inline constexpr uint16_t kNoParam = 0xffff;
struct MatmulMatrix {
  uint16_t param = kNoParam;  // of the kernel; kNoParam: no such matrix
  uint64_t offset = 0;        // bytes from where the parameter begins
  DType dtype = DType::kF16;
  // Elements between neighbours. One of the inner two is 1.
  int64_t outer_stride = 0;  // along M (lhs, out, addend) or N (rhs)
  int64_t inner_stride = 0;  // along K (lhs, rhs) or N (out, addend)
  int64_t batch_stride = 0;
};
struct LibraryMatmul {
  MatmulMatrix lhs, rhs, out;
  MatmulMatrix addend;  // may lie where `out` does
  MatmulMatrix bias;    // inner_stride 1
  int64_t batches = 1, m = 0, n = 0, k = 0;
  bool tf32 = false;  // inputs in f32 may be rounded to tf32
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  uint64_t workspace_bytes = 0;  // the most that it may use of the kernel's workspace
  uint32_t algorithm = kNone;    // index in the library's own ranking; kNone: its first
};

enum class BinaryKind : uint8_t {
  kFunction = 0,       // in the module's code
  kLibraryMatmul = 1,  // `matmul`, by cuBLASLt; `entry` is empty
};

// In KernelBinary::assumes: the parameter's memory is not written while a plan runs.
inline constexpr uint32_t kAssumesConstant = 1u << 31;

// How one kernel is launched from a code module, in `grid` blocks. The function's parameters: an address for
// each parameter of the kernel, then the tensor maps, then those that the driver adds.
struct KernelBinary {
  std::string_view entry;  // the function's name in the module
  uint32_t grid = 1;
  uint32_t shared = 0;  // bytes of dynamic shared memory a block
  // The function waits on the device until the kernels before it are complete, so it may be launched while
  // they still run.
  bool waits = false;
  uint32_t code = 0;  // index of the module's code that holds the function
  Span<const TensorMap> tensor_maps = {};
  BinaryKind kind = BinaryKind::kFunction;
  const LibraryMatmul* matmul = nullptr;  // of kLibraryMatmul
  uint32_t block = 0;                     // threads a block; 0: the module's default
  // What the code assumes about the memory bound to each parameter of the kernel, in every step: its
  // alignment in bytes, and kAssumesConstant. Empty: elements are aligned to their size, nothing more.
  Span<const uint32_t> assumes = {};
  // Where it came from (formats/machine_code/binary_digest.h). `choice`: the requested way to compute its
  // matmuls, in the words of KernelAlternative; empty: chosen by estimate.
  std::string_view choice = {};
  uint64_t text_digest = 0;  // of the source text that was compiled; 0: no text
  uint64_t digest = 0;       // of contract, text, compiler, code and launch; 0: unknown
};

// Another variant of a kernel, recorded for `rondo tune` to measure. A run never launches it.
struct KernelAlternative {
  uint32_t kernel = 0;
  std::string_view choice;  // e.g. "wgmma 128x256 cluster 2", "library 3": its name in profiles
  KernelBinary binary;
};

// Machine code for one architecture. It is a program: drivers that load it check what can be checked without
// running it (formats/machine_code/binary_check.h).
struct CodeModule {
  std::string_view architecture;          // "sm_90a"; "compute_80": PTX
  uint32_t block = 256;                   // threads a block, for binaries that do not say
  Span<const Span<const uint8_t>> codes;  // ELF images or zero-terminated PTX, as the driver loads them
  Span<const KernelBinary> binaries;      // one for each kernel of the plan, in order
  Span<const KernelAlternative> alternatives = {};
  std::string_view compiler = {};  // version and options that compiled the texts
};

// An operator from a library of the user's (core/rondo_op.h), as one or more steps call it: its name, its
// attributes, and how it uses each argument. A driver finds it by domain, name and version, and checks that
// the library describes the rest in the same way.

enum class AttributeKind : uint8_t {
  kInt = 0,     // ints[0]
  kFloat = 1,   // floats[0]
  kString = 2,  // texts[0]
  kInts = 3,
  kFloats = 4,
  kStrings = 5,
  kTensor = 6,  // data: dense elements of dtype and shape
};
struct CustomAttribute {
  std::string_view name;
  AttributeKind kind = AttributeKind::kInt;
  Span<const int64_t> ints;
  Span<const float> floats;
  Span<const std::string_view> texts;
  DType dtype = DType::kF32;
  Shape shape;
  Span<const uint8_t> data;
};

// One argument: a dense tensor that begins where the step's binding says. An input is kRead, or kReadWrite if
// the op changes it; one output is then its new version. An output is kWrite, or has an alias, which means
// that it is the memory of that input: kWrite for the new version of a changed input, kRead for one that
// passes through unchanged. The last output may be kReadWrite, of u8: this is workspace, which the model's
// node does not have.
struct CustomArgument {
  DType dtype = DType::kF32;
  Shape shape;
  Mode mode = Mode::kRead;
  uint32_t alias = kNone;  // of outputs: the input whose memory it shares
  bool absent = false;     // an optional argument that was omitted: bound to no buffer
};
constexpr uint64_t BytesOf(const CustomArgument& a) {
  return a.absent ? 0 : static_cast<uint64_t>(a.shape.elements() * ByteSize(a.dtype));
}

struct CustomOp {
  std::string_view domain, name;  // as in the model; never empty
  uint32_t version = 1;           // of the domain, since which the op exists
  std::string_view library;       // file name of the library that the compiler used: a hint
  bool graph_safe = true;         // may be recorded into a graph
  std::string_view reason;        // if not: why
  uint32_t num_inputs = 0;
  Span<const CustomArgument> arguments;  // inputs, then outputs
  Span<const CustomAttribute> attributes;

  bool IsWorkspace(size_t i) const { return i >= num_inputs && arguments[i].mode == Mode::kReadWrite; }
  bool Writes(size_t i) const { return i >= num_inputs && arguments[i].mode != Mode::kRead; }
};

struct PlanData {
  std::string_view producer;  // e.g. "rondo 0.1.0"
  Requirements requirements;
  Span<const std::string_view> sources;  // provenance: `Op "node"` texts joined with "; "
  Span<const Buffer> buffers;
  Span<const Kernel> kernels;
  Span<const Program> programs;
  Span<const CodeModule> modules;  // none for targets that interpret (host)
  Span<const CustomOp> custom_ops;
  // A separate file of weights (its base name; it lies beside the plan); empty: weights are in this file.
  std::string_view weights_file;
  uint64_t weights_bytes = 0;  // of the section or file that holds kBytes weights
};

constexpr const char* Name(BufferKind k) {
  constexpr const char* kNames[] = {"input",     "output",    "constant",     "state",
                                    "temporary", "workspace", "updated input"};
  return kNames[static_cast<int>(k)];
}
constexpr const char* Name(Skeleton s) {
  constexpr const char* kNames[] = {"map", "reduction", "matmul", "convolution", "attention", "top_k"};
  return kNames[static_cast<int>(s)];
}
constexpr const char* Name(CollectiveOp op) {
  constexpr const char* kNames[] = {"all-reduce", "all-gather", "reduce-scatter",
                                    "broadcast",  "send",       "all-to-all"};
  return kNames[static_cast<int>(op)];
}
constexpr const char* Name(StepKind k) {
  constexpr const char* kNames[] = {"launch", "copy", "collective start", "collective wait", "custom op"};
  return kNames[static_cast<int>(k)];
}
constexpr const char* Name(BreakReason r) {
  constexpr const char* kNames[] = {"program end", "device change", "user break", "unsafe step",
                                    "sync point"};
  return kNames[static_cast<int>(r)];
}

// How many programs the plan has, without their variants.
uint32_t CountPrograms(const PlanData& plan);

}  // namespace rondo
