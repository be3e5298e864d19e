// Fusion: turns an ir::Graph into kernels.
//
// Every node is computed inside exactly one kernel part. Movement is free: a part reads its operands through
// composed index maps, and its loops are split and reordered until those maps are plain strides. The steps:
//   prepare    gives memory to everything that needs it: graph outputs, copies for concatenation and scatter
//   group      matmuls, convolutions and attention take the pointwise work after them (epilogues), row
//              reductions the pointwise work and reductions around them, the rest forms maps; producers with
//              a single reader are computed where they are used, in whatever loop order the reader has
//   place      values get their memory, in the element order that their readers want
//   emit       each group becomes a part: loops, accesses, tapes. If no loops can read a node's inputs, the
//              node becomes a constraint (constraints.h), and groups are formed again
//   siblings   independent parts at the same depth become one kernel
//
// A pure function; thread-safe. Errors: kUnsupported for a graph that the skeletons cannot express (a part
// with more than kMaxLoops loops), kInternal for a broken promise of the IR; both name source nodes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/target_traits.h"
#include "core/status.h"

namespace rondo {

using NodePair = std::pair<ir::NodeId, ir::NodeId>;

struct FuseOptions {
  TargetTraits target = HostTraits();
  bool epilogues = true;               // pointwise work after matmuls, convolutions and attention
  bool reductions = true;              // pointwise work around row reductions
  bool inlining = true;                // pointwise producers into their only reader
  int64_t longest_kept_row = 1 << 20;  // elements of a row that may be kept on chip between stages
  // The same for longer and fewer rows, split over a GPU's multiprocessors: one value for each element.
  int64_t least_shared_row = 0, most_shared_row = 0, most_shared_rows = 0;
  bool tf32 = false;                            // inputs of f32 matmuls may be rounded to tf32
  bool siblings = true;                         // independent parts into one kernel
  int64_t device = 0;                           // the program's device, among those of its collectives
  std::vector<NodePair> apart;                  // in both orders, ascending: never in one part
  std::vector<ir::LoopCondition> needed_where;  // for a loop's body: LoopInfo::when
  double least_skipped = 1 << 16;  // multiplications that a condition must save before kernels test it
};

struct FuseReport {
  int nodes = 0;     // compute nodes of the graph
  int parts = 0;     // parts before sibling fusion
  int kernels = 0;   // ops of the result
  int copies = 0;    // nodes that had to be copied to dense memory
  int rounds = 0;    // of grouping and emission, each with more constraints than the one before
  std::string text;  // one sentence
};

Result<LoweredProgram> Fuse(ir::Graph graph, const FuseOptions& options, FuseReport* report);

}  // namespace rondo
