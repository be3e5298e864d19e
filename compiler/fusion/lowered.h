// A program after fusion: kernels over values, in a valid but preliminary order.
//
// Fusion turns an ir::Graph into one of these. Then scheduling orders its ops, memory planning gives its
// values offsets, and emission (compiler/codegen) turns it into the plan's steps and buffers. The kernels'
// Spans point into `arena`. A plain value, owned by the compilation; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/arena.h"
#include "core/plan.h"

namespace rondo {

// One memory region, which becomes a Buffer.
struct LoweredValue {
  std::string name;  // the model's own name where there is one
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t bytes = 0;
  std::shared_ptr<const ir::ConstantData> constant;  // kConstant only
  std::vector<std::string> sources;
  bool donated = false;      // kInput, kUpdatedInput: the caller gives its memory away
  std::string kept_because;  // for such inputs: why no output is computed there
  int takes = -1;            // kOutput: the donated input whose memory it uses
};

struct LoweredBinding {
  int value = -1;  // into LoweredProgram::values
  uint64_t byte_offset = 0;
  Mode mode = Mode::kRead;  // how the kernel uses this parameter
  int64_t stride = 0;       // bytes by which it moves in each round of the op's loop
};

// The kernel may write parameter `write` into the memory of parameter `read`: both are accessed in the same
// way at each iteration point, the read before the write, and sizes agree.
struct InPlacePair {
  int write = 0;
  int read = 0;
};

enum class LoweredKind : uint8_t {
  kKernel,
  // Start and wait both bind the memory that the collective reads and writes, which is in use between them.
  // The side of a send that this device does not have binds the same memory as the other side.
  kCollectiveStart,
  kCollectiveWait,
  kCall,  // of a custom op
  kLoop,  // until ExpandLoops (compiler/schedule) replaces it by ops of its body
};

struct LoweredLoop;

struct LoweredOp {
  LoweredKind kind = LoweredKind::kKernel;
  Kernel kernel;        // kKernel only; name is given at emission
  int collective = -1;  // of starts and waits: into LoweredProgram::collectives
  // kKernel only: computed by a vendor library with this LibraryMatmul::algorithm. Its workspace is the
  // kernel's.
  std::optional<uint32_t> library;
  // kKernel only: the estimated time as it will be computed; 0: no estimate.
  double microseconds = 0;
  std::shared_ptr<const ir::CallInfo> call;  // kCall only
  // kLoop only. Its params: the loop's inputs, its results, then the second places of values that are passed
  // on alternately.
  std::shared_ptr<const LoweredLoop> rounds;
  int loop = -1;  // into LoweredProgram::loops: repeats together with its neighbours of the same loop
  // The stream on which it is enqueued: ops of one stream run in list order; ops of different streams run
  // concurrently unless deps order them. All ops of a loop are on one stream.
  uint32_t stream = 0;
  // One for each kernel parameter. For a call: the present inputs, then the outputs with memory of their own;
  // an input that the op changes is kReadWrite.
  std::vector<LoweredBinding> params;
  std::vector<int> deps;  // all earlier ops that must be complete: data, anti and control edges
  std::vector<InPlacePair> in_place;
  std::vector<std::string> sources;  // provenance: `MatMul "layers.3.mlp.down"`, most important first
  std::vector<ir::NodeId> nodes;     // the nodes of the fused graph that it computes
  std::map<std::string, std::string> annotations;
  std::string moves_because;  // if it only moves elements: why that is necessary
};

// One collective, as this device sees it.
struct LoweredCollective {
  CollectiveOp op = CollectiveOp::kAllReduce;
  DType dtype = DType::kF32;
  int64_t bytes = 0;                 // SyncPoint::bytes
  std::vector<uint32_t> group = {};  // SyncPoint::participants; empty: all devices of the program
  uint32_t chunk = 0, chunks = 0;    // index and number of the chunks it was cut into; 0: not cut
  std::string whole_because = {};    // why it was not cut, if that was tried
};

struct LoweredPort {
  std::string name;
  int value = -1;
  bool is_state = false;
};

struct LoweredProgram {
  std::string name;
  std::vector<LoweredValue> values;
  std::vector<LoweredOp> ops;  // deps always point backwards
  // In the order in which they are started, which later passes keep.
  std::vector<LoweredCollective> collectives;
  std::vector<LoweredPort> inputs, outputs;
  std::vector<int64_t> loops;  // rounds of each
  std::shared_ptr<Arena> arena;
  std::vector<std::shared_ptr<Arena>> body_arenas;  // of kernels from the bodies of loops
};

// The body of a kLoop op.
struct LoweredLoop {
  std::shared_ptr<const ir::LoopInfo> info;
  LoweredProgram body;  // its ports are the loop's inputs and outputs, in order
  // By output: the input that passes it on, if only the last round's value matters; or -1.
  std::vector<int> carrier;
  std::vector<bool> in_place;  // by output with a carrier: a round may overwrite its input with it

  // Whether the result ends in the place of the first round's value; otherwise it ends in another place.
  bool EndsWhereItBegins(size_t output) const;
};

}  // namespace rondo
