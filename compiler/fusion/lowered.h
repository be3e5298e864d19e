// A program after fusion: kernels over values, in an order that is valid but not yet chosen.
//
// Fusion turns an ir::Graph into one of these; scheduling orders its ops, memory planning gives its values
// offsets, and emission (compiler/codegen) turns it into the plan's steps and buffers. The kernels' Spans
// point into `arena`. A plain value, owned by the compilation; not thread-safe.
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

// One memory region: what becomes a Buffer.
struct LoweredValue {
  std::string name;  // the model's own name where there is one
  BufferKind kind = BufferKind::kTemporary;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t bytes = 0;
  std::shared_ptr<const ir::ConstantData> constant;  // kConstant only
  std::vector<std::string> sources;
  bool donated = false;      // kInput, kUpdatedInput: the caller gives its memory away
  std::string kept_because;  // of these: why no output is computed there
  int takes = -1;            // kOutput: the donated input in whose memory it is computed
};

struct LoweredBinding {
  int value = -1;  // into LoweredProgram::values
  uint64_t byte_offset = 0;
  Mode mode = Mode::kRead;  // how the kernel uses this parameter
  int64_t stride = 0;       // bytes that it moves by in each round of the op's loop
};

// That the kernel may write parameter `write` into the memory of parameter `read`: both are touched by the
// same access at each iteration point, the read before the write, and sizes agree.
struct InPlacePair {
  int write = 0;
  int read = 0;
};

enum class LoweredKind : uint8_t {
  kKernel,
  // Both bind what the collective reads and writes: in between, the two are in use. What a send does not do
  // on this device binds the same as what it does.
  kCollectiveStart,
  kCollectiveWait,
  kCall,  // of a custom op
  kLoop,  // until ExpandLoops (compiler/schedule) makes ops of its body
};

struct LoweredLoop;

struct LoweredOp {
  LoweredKind kind = LoweredKind::kKernel;
  Kernel kernel;        // kKernel only; name is given at emission
  int collective = -1;  // of starts and waits: into LoweredProgram::collectives
  // kKernel only: a vendor library computes it, with this LibraryMatmul::algorithm. Its scratch is the
  // kernel's workspace.
  std::optional<uint32_t> library;
  // kKernel only: what it takes by the estimate of how it will be computed; 0: none is made.
  double microseconds = 0;
  std::shared_ptr<const ir::CallInfo> call;  // kCall only
  // kLoop only. Its params: the loop's inputs, its results, then other places of what is handed on by turns.
  std::shared_ptr<const LoweredLoop> rounds;
  int loop = -1;  // into LoweredProgram::loops: repeats, together with its neighbours of the same loop
  // Where it is enqueued: ops of one stream run in the order in which they stand, those of several at once
  // where no dep orders them. All ops of a loop are on one.
  uint32_t stream = 0;
  // One a kernel parameter. Of a call: the present inputs, then the outputs that are no input's memory; an
  // input that the op changes is kReadWrite.
  std::vector<LoweredBinding> params;
  std::vector<int> deps;  // earlier ops that must be complete: data, anti and control edges, all of them
  std::vector<InPlacePair> in_place;
  std::vector<std::string> sources;  // provenance: `MatMul "layers.3.mlp.down"`, most important first
  std::vector<ir::NodeId> nodes;     // of the graph that was fused: those that it computes
  std::map<std::string, std::string> annotations;
  std::string moves_because;  // why its elements have to be moved, where it only moves them
};

// One collective, as this device sees it.
struct LoweredCollective {
  CollectiveOp op = CollectiveOp::kAllReduce;
  DType dtype = DType::kF32;
  int64_t bytes = 0;                 // SyncPoint::bytes
  std::vector<uint32_t> group = {};  // SyncPoint::participants; empty: all devices of the program
  uint32_t chunk = 0, chunks = 0;    // which of how many it was cut into; 0: it is whole
  std::string whole_because = {};    // why it was not cut, where that was tried
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
  // In the order in which they are started, which no later pass changes.
  std::vector<LoweredCollective> collectives;
  std::vector<LoweredPort> inputs, outputs;
  std::vector<int64_t> loops;  // rounds of each
  std::shared_ptr<Arena> arena;
  std::vector<std::shared_ptr<Arena>> body_arenas;  // of kernels from the bodies of loops
};

// What a kLoop op runs in each round.
struct LoweredLoop {
  std::shared_ptr<const ir::LoopInfo> info;
  LoweredProgram body;       // its ports are the loop's inputs and outputs, in order
  std::vector<int> carrier;  // by output: the input that hands it on, if only the last round's matters; or -1
  std::vector<bool> in_place;  // by output with a carrier: a round may write it over what it was given

  // Whether the result lies where the first round's value did: the others end in another place.
  bool EndsWhereItBegins(size_t output) const;
};

}  // namespace rondo
